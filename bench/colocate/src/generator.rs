//! Sends a service its requests, by an open loop.

use curtail::sync::mpsc::Sender;
use curtail_load::{Lateness, Pace};
use curtail_workload::{Arrivals, Mix, Request, Requests, Until};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::mpsc::SyncSender;

/// Left out at the beginning.
pub(crate) const WARMUP_NS: u64 = 100_000_000;

/// A load that steps up and down again and again, for as long each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The loads: first, and second.
    pub loads: [f64; 2],
    /// How long each is offered at a time.
    pub step_ns: u64,
    /// How often both.
    pub cycles: u64,
}

/// Requests in the order of their times.
pub(crate) type Offered = Box<dyn Iterator<Item = Request> + Send>;

/// Of that load for so long.
pub(crate) fn steady(mix: &Mix, load: f64, seed: u64, ns: u64) -> Offered {
    let until = Until::Time(WARMUP_NS + ns);
    Box::new(Requests::new(mix, Arrivals::Poisson, mix.rate_rps(load, 1), seed, until))
}

/// By steps; the first load comes before what counts, too.
pub(crate) fn stepped(mix: &Mix, steps: Steps, seed: u64) -> Offered {
    let mix = mix.clone();
    let step = move |(at, ns, load): (u64, u64, f64)| {
        let rate = mix.rate_rps(load, 1);
        let seed = seed.wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let requests = Requests::new(&mix, Arrivals::Poisson, rate, seed, Until::Time(ns));
        requests.map(move |request| Request { at_ns: request.at_ns + at, ..request })
    };
    let begin = WARMUP_NS;
    let counted = (0..2 * steps.cycles).map(move |nth| {
        (begin + nth * steps.step_ns, steps.step_ns, steps.loads[(nth % 2) as usize])
    });
    Box::new(std::iter::once((0, begin, steps.loads[0])).chain(counted).flat_map(step))
}

/// A request on its way.
pub(crate) struct Job {
    pub at_ns: u64,
    pub iterations: u64,
    /// When it was to arrive, since what counts began; `None`: it does not count.
    pub offset_ns: Option<u64>,
}

impl Job {
    /// Its fields, little endian, in this order; a time that does not count is all ones.
    pub(crate) fn to_bytes(&self) -> [u8; 24] {
        let words = [self.at_ns, self.iterations, self.offset_ns.unwrap_or(u64::MAX)];
        let mut bytes = [0; 24];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The one that has these; `None`: they are none's.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (at_ns, iterations, offset) = (word(0)?, word(8)?, word(16)?);
        Some(Self { at_ns, iterations, offset_ns: (offset != u64::MAX).then_some(offset) })
    }
}

/// Sends requests when they are due.
pub(crate) struct Generator {
    pub pace: Pace<Offered>,
    /// 0: not yet.
    pub start_ns: u64,
    pub per_ns: f64,
    pub sender: Option<Sender<Job>>,
    pub late: Option<(Lateness, SyncSender<Lateness>)>,
}

impl Generator {
    /// What is due is sent; true: there was something.
    pub(crate) fn turn(&mut self, now_ns: u64) -> bool {
        let (Some(sender), Some((late, _))) = (&self.sender, &mut self.late) else { return false };
        let (start_ns, per_ns) = (self.start_ns, self.per_ns);
        let mut sent = false;
        let send = |request: &Request, due_ns: u64, now_ns| {
            late.record(due_ns, now_ns);
            let job = Job {
                at_ns: start_ns + due_ns,
                iterations: (request.service_ns as f64 * per_ns) as u64,
                offset_ns: due_ns.checked_sub(WARMUP_NS),
            };
            // It has ended early: nothing is served any more.
            sent |= sender.send(job).is_ok();
            Ok::<_, Infallible>(true)
        };
        let since_ns = now_ns.saturating_sub(start_ns);
        let Ok(_) = self.pace.send_due(|| since_ns, usize::MAX, send);
        if self.pace.due_ns().is_none() {
            self.sender = None;
            if let Some((late, report)) = self.late.take() {
                let _ = report.send(late);
            }
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_turn() {
        let mix = Mix::parse("work:10us:1").unwrap();
        let steps = Steps { loads: [0.1, 0.8], step_ns: 10_000_000, cycles: 3 };
        let all: Vec<Request> = stepped(&mix, steps, 7).collect();
        assert!(all.is_sorted_by_key(|request| request.at_ns));
        let within = |from_ns: u64, to_ns: u64| {
            let from = |at: u64| all.partition_point(|request| request.at_ns < at);
            from(WARMUP_NS + to_ns) - from(WARMUP_NS + from_ns)
        };
        assert_eq!(all.last().map(|it| it.at_ns < WARMUP_NS + 60_000_000), Some(true));
        for cycle in 0..3 {
            let at = cycle * 20_000_000;
            // 100 and 800 requests.
            assert!((50..170).contains(&within(at, at + 10_000_000)));
            assert!((650..950).contains(&within(at + 10_000_000, at + 20_000_000)));
        }
    }
}
