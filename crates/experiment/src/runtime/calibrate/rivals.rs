//! Long requests, alone or two at a time: what pre-emption costs.
//!
//! A transport that hands over one or two requests at once, waits until they have ended, and counts
//! the dispatcher's turns meanwhile.

use super::app::{Request, Stamps, Work};
use curtail::clock;
use curtail_net::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// One trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// What the requests did.
    pub(super) plain: bool,
    /// From the beginning of the first handler to the end of the last, in cycles.
    pub(super) span_cycles: u64,
    /// From handing them over until the dispatcher had heard of the last.
    pub(super) elapsed_cycles: u64,
    /// The dispatcher's turns meanwhile.
    pub(super) turns: u64,
    /// Ends of quanta.
    pub(super) quanta: u64,
    /// A gap of the machine fell into it, or a request failed.
    pub(super) disturbed: bool,
}

/// What the requests of a run are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// At a time: one, or two.
    pub(super) rivals: usize,
    /// Each takes so many steps.
    pub(super) steps: u32,
    /// Every other one takes them without safepoints.
    pub(super) alternate: bool,
    pub(super) trials: u32,
}

pub(super) struct Rivals {
    plan: Plan,
    stamps: Stamps,
    /// Trials begun.
    begun: u32,
    under_way: usize,
    round: Round,
    sent_at: u64,
    closed: bool,
    rounds: Vec<Round>,
    out: Sender<Vec<Round>>,
}

impl Rivals {
    pub(super) fn new(plan: Plan, stamps: Stamps, out: Sender<Vec<Round>>) -> Self {
        Self {
            plan,
            stamps,
            begun: 0,
            under_way: 0,
            round: Round::default(),
            sent_at: 0,
            closed: false,
            rounds: Vec::with_capacity(plan.trials as usize),
            out,
        }
    }

    /// The stamps of this trial's requests.
    fn slots(&self) -> Range<usize> {
        let end = self.begun as usize * self.plan.rivals;
        end - self.plan.rivals..end
    }

    fn begin(&mut self, into: &mut dyn Intake) {
        let plain = self.plan.alternate && !self.begun.is_multiple_of(2);
        self.begun += 1;
        self.round = Round { plain, ..Round::default() };
        self.under_way = self.plan.rivals;
        let work = if plain { Work::Plain } else { Work::Chain };
        self.sent_at = clock::now();
        for slot in self.slots() {
            let request = Request { slot: slot as u32, work, steps: self.plan.steps };
            into.request(&request.encode(), Peer::None, self.sent_at);
        }
    }

    fn end(&mut self) {
        let stamps = &self.stamps[self.slots()];
        let first = stamps.iter().map(|stamp| stamp.entered()).min().unwrap_or(0);
        let last = stamps.iter().map(|stamp| stamp.left()).max().unwrap_or(0);
        self.round.span_cycles = last.saturating_sub(first);
        self.round.elapsed_cycles = clock::now().saturating_sub(self.sent_at);
        self.rounds.push(self.round);
    }
}

impl Transport for Rivals {
    fn poll(&mut self, _: u64, into: &mut dyn Intake) -> Status {
        if self.under_way > 0 {
            self.round.turns += 1;
            return Status::Open;
        }
        if self.closed || self.begun == self.plan.trials || into.room() < self.plan.rivals {
            self.closed = true;
            return Status::Closed;
        }
        self.begin(into);
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(super::NoClient)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        self.round.quanta += u64::from(completion.preemptions);
        self.round.disturbed |= completion.disturbed || completion.outcome != Outcome::Done;
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.end();
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn describe(&self) -> String {
        "calibrate://long".to_owned()
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        let _ = self.out.send(std::mem::take(&mut self.rounds));
    }
}
