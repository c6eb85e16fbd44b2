//! The in-process transport: an open-loop generator that the dispatcher polls.
//!
//! It lives on the dispatcher's thread. Every request has its time of arrival fixed in advance; a
//! poll hands over those that are due, with that time and not the time of the poll, so whatever
//! keeps the dispatcher from polling is charged to the system under test. What is due while the
//! system has no room waits here, and is late all the same. Nothing allocates after the start.

use super::requests::Requests;
use curtail::clock::Clock;
use curtail_net::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
use curtail_workload::Recorder;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// What waits here at the scheduled end may still be handed over for this part of the duration.
const GRACE: u64 = 10;

/// What is to be generated. Times are nanoseconds since the start.
pub(crate) struct Offer<R> {
    /// The highest rate there is.
    pub(crate) rate_rps: f64,
    pub(crate) requests: R,
    pub(crate) classes: usize,
    pub(crate) duration_ns: u64,
    /// What is counted, and apart: by the scheduled time of arrival, ascending. What arrives in none
    /// of them is not counted.
    pub(crate) slices: Vec<Range<u64>>,
    /// Told that a slice has ended, by index.
    pub(crate) ended: Option<SyncSender<usize>>,
}

/// What came of the requests of one slice.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) recorder: Recorder,
    /// How many were to arrive.
    pub(crate) offered: u64,
    /// Refused for want of room, by class.
    pub(crate) dropped: Vec<u64>,
    /// The handler failed.
    pub(crate) failed: u64,
    /// Due, and not handed over by the end of the grace; counted in `dropped` too.
    pub(crate) stranded: u64,
    /// The most requests, to a good estimate, that were due and waited here at once.
    pub(crate) most_waiting: u64,
    /// When the last one was finished.
    pub(crate) last_finish_ns: u64,
}

impl Tally {
    fn new(classes: usize) -> Self {
        Self {
            recorder: Recorder::new(classes),
            offered: 0,
            dropped: vec![0; classes],
            failed: 0,
            stranded: 0,
            most_waiting: 0,
            last_finish_ns: 0,
        }
    }
}

/// Where a generator leaves its tally when the runtime lets go of it.
pub(crate) type Outbox = Arc<Mutex<Option<Vec<Tally>>>>;

/// The next request: it is made ahead of its time, so that a poll finds it ready.
struct Next {
    at_ns: u64,
    class: usize,
    payload: Vec<u8>,
}

/// The generator.
pub(crate) struct Generator<R> {
    offer: Offer<R>,
    next: Next,
    clock: Clock,
    /// TSC at the first poll, when the run starts.
    start_tsc: Option<u64>,
    closed: bool,
    /// By slice.
    tallies: Vec<Tally>,
    /// Slices that have ended.
    over: usize,
    outbox: Outbox,
}

impl<R: Requests> Generator<R> {
    pub(crate) fn new(mut offer: Offer<R>, outbox: Outbox) -> Self {
        let tallies = offer.slices.iter().map(|_| Tally::new(offer.classes)).collect();
        let mut next = Next { at_ns: 0, class: 0, payload: Vec::with_capacity(R::MAX_LENGTH) };
        offer.draw(&mut next);
        let clock = Clock::get();
        Self { offer, next, clock, start_tsc: None, closed: false, tallies, over: 0, outbox }
    }

    /// Counts those that will not be handed over any more.
    fn strand(&mut self) {
        while self.next.at_ns < self.offer.duration_ns {
            let class = self.next.class;
            if let Some(tally) = self.tally(self.next.at_ns) {
                tally.offered += 1;
                tally.stranded += 1;
                tally.dropped[class] += 1;
            }
            self.offer.draw(&mut self.next);
        }
    }

    /// The tally for what was scheduled at that time.
    fn tally(&mut self, at_ns: u64) -> Option<&mut Tally> {
        let slice = self.offer.slices.partition_point(|slice| slice.end <= at_ns);
        let counts = self.offer.slices.get(slice)?.contains(&at_ns);
        if counts { self.tallies.get_mut(slice) } else { None }
    }

    /// Tells of slices that have ended, where the receiver takes it.
    fn tell(&mut self, now_ns: u64) {
        let Some(ended) = &self.offer.ended else { return };
        while self.offer.slices.get(self.over).is_some_and(|slice| slice.end <= now_ns) {
            let _ = ended.try_send(self.over);
            self.over += 1;
        }
    }
}

impl<R: Requests> Offer<R> {
    fn draw(&mut self, next: &mut Next) {
        let (at_ns, class) = self.requests.draw(&mut next.payload).unwrap_or((u64::MAX, 0));
        (next.at_ns, next.class) = (at_ns, class);
    }
}

impl<R: Requests> Transport for Generator<R> {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.closed {
            return Status::Closed;
        }
        let start = *self.start_tsc.get_or_insert(now_tsc);
        let now_ns = self.clock.ns(now_tsc.saturating_sub(start));
        let due = now_ns.min(self.offer.duration_ns.saturating_sub(1));
        let mut room = into.room();
        while self.next.at_ns <= due && room > 0 {
            let Next { at_ns, payload, .. } = &self.next;
            into.request(payload, Peer::None, start + self.clock.cycles(*at_ns));
            if let Some(tally) = self.tally(self.next.at_ns) {
                tally.offered += 1;
            }
            self.offer.draw(&mut self.next);
            room -= 1;
        }
        if self.next.at_ns <= due {
            let waiting = (due - self.next.at_ns) as f64 * self.offer.rate_rps / 1e9;
            if let Some(tally) = self.tally(due) {
                tally.most_waiting = tally.most_waiting.max(1 + waiting as u64);
            }
        }
        self.tell(now_ns);
        let over = self.next.at_ns >= self.offer.duration_ns && now_ns >= self.offer.duration_ns;
        let grace_ns = self.offer.duration_ns / GRACE;
        if over || now_ns >= self.offer.duration_ns + grace_ns {
            self.close();
            return Status::Closed;
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(Nobody)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        let start = self.start_tsc.unwrap_or(completion.arrived_tsc);
        let since_start = |tsc: u64| self.clock.ns(tsc.saturating_sub(start));
        let (class, service_ns) = self.offer.requests.completed(completion);
        let cycles = completion.finished_tsc.saturating_sub(completion.arrived_tsc);
        let sojourn_ns = self.clock.ns(cycles);
        let finish_ns = since_start(completion.finished_tsc);
        // Half a cycle is lost on the way to the TSC and back; a slice's edge may be crossed by it
        // and by nothing else.
        let Some(tally) = self.tally(since_start(completion.arrived_tsc) + 1) else { return };
        match completion.outcome {
            Outcome::Dropped => tally.dropped[class] += 1,
            Outcome::Failed | Outcome::Orphaned | Outcome::Cancelled | Outcome::Abandoned => {
                tally.failed += 1;
            }
            Outcome::Done => {
                tally.recorder.record(class, sojourn_ns, service_ns, completion.disturbed);
                tally.last_finish_ns = tally.last_finish_ns.max(finish_ns);
            }
        }
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.strand();
        }
    }

    fn describe(&self) -> String {
        "bench://".to_owned()
    }
}

impl<R> Drop for Generator<R> {
    fn drop(&mut self) {
        let tallies = std::mem::take(&mut self.tallies);
        *self.outbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(tallies);
    }
}

/// Drops responses: no client waits for one here.
struct Nobody;

impl Reply for Nobody {
    fn reply(&self, _: Peer, _: &[u8]) {}

    fn dropped(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
