//! What an open-loop generator offers: one request after another, with its time.

use crate::{Arrivals, Mix, Sampler, Schedule};

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it arrives, in nanoseconds since the start.
    pub at_ns: u64,
    /// Its class, by index.
    pub class: u16,
    /// Its un-instrumented service time in nanoseconds.
    pub service_ns: u64,
}

/// When an open-loop generator stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After so many requests.
    Jobs(u64),
    /// Before the first request that would arrive at this time or later, in nanoseconds.
    Time(u64),
}

/// Requests of one mix that arrive by one process: an iterator of [`Request`].
///
/// The times are those of [`Arrivals::schedule`] and the requests those of [`Mix::sampler`] with
/// the same seed. So the same seed gives the same requests in every program.
#[derive(Clone, Debug)]
pub struct Requests {
    schedule: Schedule,
    sampler: Sampler,
    left: u64,
    end_ns: u64,
}

impl Requests {
    /// # Panics
    /// Where the rate is not positive and finite.
    #[must_use]
    pub fn new(mix: &Mix, arrivals: Arrivals, rate_rps: f64, seed: u64, until: Until) -> Self {
        let (left, end_ns) = match until {
            Until::Jobs(jobs) => (jobs, u64::MAX),
            Until::Time(ns) => (u64::MAX, ns),
        };
        let schedule = arrivals.schedule(rate_rps, seed);
        Self { schedule, sampler: mix.sampler(seed), left, end_ns }
    }
}

impl Iterator for Requests {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let at_ns = self.schedule.next_ns();
        if at_ns >= self.end_ns {
            self.left = 0;
            return None;
        }
        let (class, service_ns) = self.sampler.draw();
        Some(Request { at_ns, class: class as u16, service_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(until: Until) -> Vec<Request> {
        let mix = Mix::parse("a:1us:1,b:exp(2us):1").unwrap();
        Requests::new(&mix, Arrivals::Poisson, 1e6, 3, until).collect()
    }

    #[test]
    fn so_many_or_so_long() {
        let counted = requests(Until::Jobs(1_000));
        assert_eq!(counted.len(), 1_000);
        let timed = requests(Until::Time(500_000));
        assert!(timed.iter().all(|request| request.at_ns < 500_000));
        let shorter = timed.len().min(1_000);
        assert_eq!(counted[..shorter], timed[..shorter], "the same ones, however many");
        assert!(requests(Until::Jobs(0)).is_empty() && requests(Until::Time(0)).is_empty());
    }

    #[test]
    fn they_are_the_schedules_and_the_samplers() {
        let mix = Mix::parse("a:1us:1,b:exp(2us):1").unwrap();
        let mut schedule = Arrivals::Poisson.schedule(1e6, 3);
        let mut sampler = mix.sampler(3);
        for request in requests(Until::Jobs(100)) {
            let (class, service_ns) = sampler.draw();
            assert_eq!(
                request,
                Request { at_ns: schedule.next_ns(), class: class as u16, service_ns }
            );
        }
    }
}
