//! Short requests, singly and in batches: what the dispatcher and the worker do for each of them.
//!
//! A transport that the dispatcher polls once a turn. From the end of one poll to the beginning of
//! the next lies the rest of the turn, and this transport arranges what that consists of: nothing,
//! sending so many requests, or hearing of as many completions. The differences, divided by the
//! number, are costs. What crosses between the cores is taken from single requests in an idle
//! system: how long the whole way took, less what was done on it.

use super::app::{Request, Stamps, Work};
use super::figures::Trials;
use curtail::clock::{self, Clock};
use curtail_net::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Requests of a batch.
pub(super) const BATCH: usize = 32;
/// Turns with nothing to do before each trial.
const QUIET: u32 = 12;
/// The first requests of a batch find the worker idle, and the end of the last is watched: so many
/// at either end are not looked at.
const SKIPPED: usize = 8;
/// No trial takes longer.
const LIMIT_NS: u64 = 2_000_000;

/// What was measured, in nanoseconds.
#[derive(Clone, Default)]
pub(super) struct Short {
    /// A turn of the dispatcher's in which there is nothing to do.
    pub(super) turn: Trials,
    /// For each request of a batch.
    pub(super) receive: Trials,
    pub(super) dispatch: Trials,
    pub(super) hear: Trials,
    /// On a busy worker, from the end of one handler to the beginning of the next.
    pub(super) between: Trials,
    /// A single request: from its arrival to the beginning of its handler, and from the end of that
    /// until the dispatcher has heard of it.
    pub(super) there: Trials,
    pub(super) back: Trials,
}

/// What the turn before was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing known.
    Any,
    /// Nothing to do, so many times in a row.
    Quiet(u32),
    /// So many requests were handed over.
    Sent(usize),
    /// All requests of a batch had completed before it.
    Hearing,
}

/// A trial with one request: when (TSC) it was handed over, was finished, was heard of.
struct Single {
    slot: usize,
    sent: u64,
    finished: u64,
    heard: u64,
}

pub(super) struct Batches {
    clock: Clock,
    stamps: Stamps,
    turn: Turn,
    /// End of the last poll (TSC).
    polled: u64,
    /// The first stamp that is not used.
    slot: usize,
    /// The rests of turns in which there was nothing to do, a batch to send, one to hear of.
    quiet: Vec<u64>,
    sending: Vec<u64>,
    hearing: Vec<u64>,
    /// Where the stamps of complete batches begin, and the trials with single requests.
    batches: Vec<usize>,
    singles: Vec<Single>,
    /// Handed over at (TSC), how many, and how many of them the dispatcher has heard of: before this
    /// turn, and in all.
    sent_at: u64,
    sent: usize,
    heard_before: usize,
    heard: usize,
    /// When it heard of the last.
    heard_at: u64,
    finished_at: u64,
    left: u32,
    closed: bool,
    figures: Short,
    out: Sender<Short>,
}

impl Batches {
    /// So many requests make so many trials of each kind.
    pub(super) const fn requests(trials: u32) -> usize {
        trials as usize * (BATCH + 1)
    }

    /// Makes so many trials of each kind.
    pub(super) fn new(trials: u32, stamps: Stamps, out: Sender<Short>) -> Self {
        Self {
            clock: Clock::get(),
            stamps,
            turn: Turn::Any,
            polled: 0,
            slot: 0,
            quiet: Vec::with_capacity(2 * (trials * QUIET) as usize),
            sending: Vec::with_capacity(trials as usize),
            hearing: Vec::with_capacity(trials as usize),
            batches: Vec::with_capacity(trials as usize),
            singles: Vec::with_capacity(trials as usize),
            sent_at: 0,
            sent: 0,
            heard_before: 0,
            heard: 0,
            heard_at: 0,
            finished_at: 0,
            left: 2 * trials,
            closed: false,
            figures: Short::default(),
            out,
        }
    }

    fn ns(&self, cycles: u64) -> f64 {
        cycles as f64 * 1e9 / self.clock.hz
    }

    /// Notes what the rest of the turn before tells. No more than that: what this took would be part
    /// of a single request's way.
    fn note(&mut self, now: u64) {
        let rest = now.saturating_sub(self.polled);
        let heard = self.heard - self.heard_before;
        match self.turn {
            // What came before a quiet turn may still be felt in the first.
            Turn::Quiet(n) if n > 2 => self.quiet.push(rest),
            Turn::Sent(BATCH) if heard == 0 => self.sending.push(rest),
            Turn::Hearing if heard == BATCH => {
                self.hearing.push(rest);
                self.batches.push(self.slot - BATCH);
            }
            _ => {}
        }
        if self.sent == 1 && heard == 1 {
            let (sent, finished, heard) = (self.sent_at, self.finished_at, self.heard_at);
            self.singles.push(Single { slot: self.slot - 1, sent, finished, heard });
        }
        self.heard_before = self.heard;
    }

    /// What all that tells, when it is over.
    fn look_back(&mut self) {
        for &rest in &self.quiet {
            self.figures.turn.add(self.ns(rest));
        }
        let quiet = self.figures.turn.median().unwrap_or(0.0);
        let ns_per_cycle = 1e9 / self.clock.hz;
        let each = |rest: &u64| (*rest as f64 * ns_per_cycle - quiet) / BATCH as f64;
        self.sending.iter().map(each).for_each(|ns| self.figures.dispatch.add(ns));
        self.hearing.iter().map(each).for_each(|ns| self.figures.hear.add(ns));
        for single in &self.singles {
            let entered = self.stamps[single.slot].entered();
            self.figures.there.add(self.ns(entered.saturating_sub(single.sent)));
            self.figures.back.add(self.ns(single.heard.saturating_sub(single.finished)));
        }
        for &batch in &self.batches {
            let mut between = Trials::default();
            for pair in self.stamps[batch + SKIPPED..batch + BATCH - SKIPPED].windows(2) {
                between.add(self.ns(pair[1].entered().saturating_sub(pair[0].left())));
            }
            if let Some(median) = between.median() {
                self.figures.between.add(median);
            }
        }
    }

    fn send(&mut self, requests: usize, into: &mut dyn Intake) -> Turn {
        (self.sent, self.heard, self.heard_before) = (requests, 0, 0);
        let payload = |slot: usize| Request { slot: slot as u32, work: Work::Plain, steps: 0 };
        let slots = self.slot..self.slot + requests;
        self.slot += requests;
        let start = clock::now();
        for slot in slots {
            into.request(&payload(slot).encode(), Peer::None, start);
        }
        let end = clock::now();
        self.sent_at = start;
        if requests == BATCH {
            self.figures.receive.add(self.ns(end - start) / BATCH as f64);
        }
        Turn::Sent(requests)
    }

    /// Keeps the dispatcher here until the worker has told of the whole batch.
    fn gather(&self) -> Turn {
        let limit = clock::now() + self.clock.cycles(LIMIT_NS);
        let last = &self.stamps[self.slot - 1];
        while last.left() == 0 {
            if clock::now() > limit {
                return Turn::Any;
            }
            std::hint::spin_loop();
        }
        // The last one's end is told some dozens of nanoseconds later.
        let told = clock::now() + self.clock.cycles(3_000);
        while clock::now() < told {
            std::hint::spin_loop();
        }
        Turn::Hearing
    }
}

impl Transport for Batches {
    fn poll(&mut self, now: u64, into: &mut dyn Intake) -> Status {
        if self.closed {
            return Status::Closed;
        }
        self.note(now);
        let idle = self.sent == self.heard;
        self.turn = match self.turn {
            Turn::Sent(BATCH) => self.gather(),
            _ if !idle => Turn::Any,
            Turn::Quiet(n) if n >= QUIET => {
                if self.left == 0 || into.room() < BATCH {
                    self.closed = true;
                    return Status::Closed;
                }
                self.left -= 1;
                let requests = if self.left.is_multiple_of(2) { BATCH } else { 1 };
                self.send(requests, into)
            }
            Turn::Quiet(n) => Turn::Quiet(n + 1),
            _ => Turn::Quiet(0),
        };
        self.polled = clock::now();
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(super::NoClient)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        self.heard += 1;
        // More than one is told without a look at the clock: that would be measured, too.
        if self.sent == 1 && completion.outcome == Outcome::Done {
            self.heard_at = clock::now();
            self.finished_at = completion.finished_tsc;
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn describe(&self) -> String {
        "calibrate://short".to_owned()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.look_back();
        let _ = self.out.send(std::mem::take(&mut self.figures));
    }
}
