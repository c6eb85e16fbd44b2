//! The in-process transport: an open-loop generator that the dispatcher polls.
//!
//! It lives on the dispatcher's thread. Every request has its time of arrival fixed in advance; a
//! poll hands over those that are due, with that time and not the time of the poll, so whatever
//! keeps the dispatcher from polling is charged to the system under test. What is due while the
//! system has no room waits here, and is late all the same. Nothing allocates after the start.

mod requests;

use crate::{Pace, Tally};
use curtail::clock::Clock;
use curtail_net::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
pub use requests::{Message, Requests, SpinRequests};
use std::convert::Infallible;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// What waits here at the scheduled end may still be handed over for this part of the duration.
const GRACE: u64 = 10;

/// What is to be generated. Times are nanoseconds since the start.
pub struct Offer<R> {
    /// The highest rate there is.
    pub rate_rps: f64,
    /// What arrives.
    pub requests: R,
    /// How many classes there are.
    pub classes: usize,
    /// How long requests arrive.
    pub duration_ns: u64,
    /// What is counted, and apart: by the scheduled time of arrival, ascending. What arrives in none
    /// of them is not counted.
    pub slices: Vec<Range<u64>>,
    /// Told that a slice has ended, by index.
    pub ended: Option<SyncSender<usize>>,
}

/// What came of the requests of one slice.
#[derive(Debug)]
pub struct Slice {
    /// What was never handed over by the end of the grace is lost in it.
    pub tally: Tally,
    /// The most requests, to a good estimate, that were due and waited here at once.
    pub most_waiting: u64,
}

/// Where a generator leaves what it counted when the runtime lets go of it.
pub type Outbox = Arc<Mutex<Option<Vec<Slice>>>>;

/// What is counted, by slice.
struct Slices {
    times: Vec<Range<u64>>,
    slices: Vec<Slice>,
    /// Slices that have ended.
    over: usize,
}

impl Slices {
    /// The slice of what was due at that time.
    fn at(&mut self, due_ns: u64) -> Option<&mut Slice> {
        let slice = self.times.partition_point(|time| time.end <= due_ns);
        let counts = self.times.get(slice)?.contains(&due_ns);
        if counts { self.slices.get_mut(slice) } else { None }
    }

    /// Tells of slices that have ended, where the receiver takes it.
    fn tell(&mut self, now_ns: u64, ended: &SyncSender<usize>) {
        while self.times.get(self.over).is_some_and(|time| time.end <= now_ns) {
            let _ = ended.try_send(self.over);
            self.over += 1;
        }
    }
}

/// The generator.
pub struct Generator<R: Requests> {
    pace: Pace<R>,
    rate_rps: f64,
    duration_ns: u64,
    ended: Option<SyncSender<usize>>,
    clock: Clock,
    /// TSC at the first poll, when the run starts.
    start_tsc: Option<u64>,
    closed: bool,
    slices: Slices,
    outbox: Outbox,
}

impl<R: Requests> Generator<R> {
    /// Offers that, and leaves what it counts in the outbox.
    pub fn new(offer: Offer<R>, outbox: Outbox) -> Self {
        let Offer { rate_rps, requests, classes, duration_ns, slices: times, ended } = offer;
        let slice = |_| Slice { tally: Tally::new(classes), most_waiting: 0 };
        let slices = times.iter().map(slice).collect();
        Self {
            pace: Pace::new(requests, duration_ns),
            rate_rps,
            duration_ns,
            ended,
            clock: Clock::get(),
            start_tsc: None,
            closed: false,
            slices: Slices { times, slices, over: 0 },
            outbox,
        }
    }
}

impl<R: Requests> Transport for Generator<R> {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.closed {
            return Status::Closed;
        }
        let start = *self.start_tsc.get_or_insert(now_tsc);
        let now_ns = self.clock.ns(now_tsc.saturating_sub(start));
        let Self { pace, slices, clock, .. } = self;
        let room = into.room();
        let hand_over = |next: &Message, due_ns, _| {
            into.request(&next.payload, Peer::None, start + clock.cycles(due_ns));
            if let Some(slice) = slices.at(due_ns) {
                slice.tally.offered += 1;
            }
            Ok::<_, Infallible>(true)
        };
        let Ok(_) = pace.send_due(|| now_ns, room, hand_over);
        let last_ns = now_ns.min(self.duration_ns.saturating_sub(1));
        if let Some(due_ns) = pace.due_ns().filter(|&due_ns| due_ns <= last_ns)
            && let Some(slice) = slices.at(last_ns)
        {
            let waiting = (last_ns - due_ns) as f64 * self.rate_rps / 1e9;
            slice.most_waiting = slice.most_waiting.max(1 + waiting as u64);
        }
        if let Some(ended) = &self.ended {
            slices.tell(now_ns, ended);
        }
        let over = pace.due_ns().is_none() && now_ns >= self.duration_ns;
        if over || now_ns >= self.duration_ns + self.duration_ns / GRACE {
            self.close();
            return Status::Closed;
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(NoClient)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        let start = self.start_tsc.unwrap_or(completion.arrived_tsc);
        let since_start = |tsc: u64| self.clock.ns(tsc.saturating_sub(start));
        let (class, service_ns) = self.pace.source().completed(completion);
        let cycles = completion.finished_tsc.saturating_sub(completion.arrived_tsc);
        let sojourn_ns = self.clock.ns(cycles);
        let finish_ns = since_start(completion.finished_tsc);
        // Half a cycle is lost on the way to the TSC and back; a slice's edge may be crossed by it
        // and by nothing else.
        let due_ns = since_start(completion.arrived_tsc) + 1;
        let Some(Slice { tally, .. }) = self.slices.at(due_ns) else { return };
        match completion.outcome {
            Outcome::Dropped => tally.refused[class] += 1,
            Outcome::Failed | Outcome::Orphaned | Outcome::Cancelled | Outcome::Abandoned => {
                tally.failed += 1;
            }
            Outcome::Done => {
                tally.recorder.record(class, sojourn_ns, service_ns, completion.disturbed);
                tally.last_ns = tally.last_ns.max(finish_ns);
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        let slices = &mut self.slices;
        self.pace.skip_rest(|next, due_ns| {
            if let Some(Slice { tally, .. }) = slices.at(due_ns) {
                tally.offered += 1;
                tally.lost[next.class] += 1;
            }
        });
    }

    fn describe(&self) -> String {
        "bench://".to_owned()
    }
}

impl<R: Requests> Drop for Generator<R> {
    fn drop(&mut self) {
        let slices = std::mem::take(&mut self.slices.slices);
        *self.outbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(slices);
    }
}

/// Drops responses: no client waits for one here.
struct NoClient;

impl Reply for NoClient {
    fn reply(&self, _: Peer, _: &[u8]) {}

    fn dropped(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
