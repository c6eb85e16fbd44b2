//! `auto`: earliest deadline first, where a request's deadline is a multiple of the service that it
//! is next likely to complete at, after its arrival; and everything in that is measured.
//!
//! Slowdown is time in the system over service time. The schedule that keeps the greatest slowdown
//! below S, if there is one, gives each request the deadline *arrival + S × service time* and
//! serves the earliest first, pre-emptively (M. A. Bender, S. Chakrabarti, S. Muthukrishnan, *Flow
//! and Stretch Metrics for Scheduling Continuous Job Streams*, 1998).
//!
//! `auto` does not know service times. So it takes the shortest that a request may still turn out to
//! have, of what completed in its class after more service than this request has had by now; and
//! less, where most of it is done ([`aims`]).
//!
//! That one rule is a known good policy where one is known:
//! * service times that hardly vary, in one class: no request is pre-empted for a later one,
//!   c-FCFS, the best there is without pre-emption for the tail of what is light-tailed;
//! * classes of different, steady service times: with a great S shortest class first (SRPT by
//!   class), with a small one first come, first served, in between whatever keeps the tails of all
//!   classes equal;
//! * service times that vary within a class, by much: each time that a request outlives what it might
//!   have been, its deadline moves away. That is least attained service (foreground–background, best
//!   for decreasing hazard rates: R. Righter and J. G. Shanthikumar, 1989);
//! * by little, or bounded: what has had most of its service finishes;
//! * a classifier that says nothing: all classes look alike, and so it makes no difference.
//!
//! Where requests cannot be pre-empted, long ones leave some workers to short ones, as in DARC
//! ([`reserve`]).
//!
//! What changes at windows of completions, with hysteresis ([`state`]): S, which follows the tail of
//! the slowdown, and the least quantum, which follows the measured cost of a pre-emption.
//!
//! When S changes, what waits is ranked anew, a few requests at each arrival and completion.
//!
//! The dispatcher owns it. A rank costs O(1), a completion O(1), and each completion after
//! the end of a window learns one class anew, O(buckets).

mod estimate;
mod explain;
mod reserve;
mod root;
mod state;

use crate::classes::Classes;
use crate::ranked::{Rank, Visit};
use crate::{ClassId, Job, Nanos, PreemptKind, Spec};
use estimate::{ServiceEstimate, is_alike};
use reserve::Reserve;
use state::AutoState;

/// The policy `auto`.
pub struct Auto {
    /// By class, the unknown ones together after the known; last, what all completions say.
    aims: Vec<ServiceEstimate>,
    state: AutoState,
    reserve: Reserve,
    /// The class that is learnt anew next; beyond the last: none.
    due: usize,
}

impl Auto {
    fn index(&self, class: ClassId) -> usize {
        usize::from(class.0).min(self.aims.len() - 2)
    }

    /// What completions say of a job's class; where there were none yet, of all.
    fn aims_of(&self, job: &Job) -> &ServiceEstimate {
        let own = &self.aims[self.index(job.class)];
        if own.is_known() { own } else { &self.aims[self.aims.len() - 1] }
    }

    fn deadline(&self, job: &Job, attained: Nanos) -> u64 {
        let aim = self.aims_of(job).aim(attained.0);
        job.arrived.0.saturating_add(aim.saturating_mul(self.state.stretch()))
    }

    /// Whether requests differ in what they may be, so that S matters.
    fn differs(&self) -> bool {
        let known = || self.aims[..self.aims.len() - 1].iter().filter(|aims| aims.is_current());
        let least = known().map(|aims| aims.aim(0)).min().unwrap_or(0);
        known().any(|aims| !aims.is_steady() || !is_alike(aims.aim(0), least))
    }
}

impl Rank for Auto {
    const AGES: bool = true;

    fn new(spec: &Spec, workers: usize) -> Self {
        let classes = spec.class_count();
        let aims = (0..classes + 2).map(|_| ServiceEstimate::new()).collect();
        let preempts = spec.shares() && spec.preempt != PreemptKind::Never;
        Self {
            aims,
            state: AutoState::new(workers, spec.quantum),
            reserve: Reserve::new(workers, preempts),
            due: classes + 2,
        }
    }

    fn rank(&self, _classes: &Classes, job: &Job) -> u64 {
        self.deadline(job, job.attained)
    }

    fn standing(&self, job: &Job, _lasting: u64, attained: Nanos, _now: Nanos) -> u64 {
        self.deadline(job, attained)
    }

    /// Until it is taken for more. Where a pre-emption costs something, the least quantum: that may be
    /// far away, and the place is to be had before.
    fn quantum(&self, job: &Job, _given: Option<Nanos>) -> Option<Nanos> {
        match self.state.quantum() {
            0 => {
                let left = self.aims_of(job).until(job.attained.0) - job.attained.0;
                Some(Nanos(left.max(self.state.grain())))
            }
            least => Some(Nanos(least.max(self.state.grain()))),
        }
    }

    fn epoch(&self) -> u64 {
        self.state.stretch()
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.state.set_quantum(quantum);
    }

    fn may_ask(&self, ran: Nanos) -> bool {
        ran.0 >= self.state.quantum()
    }

    fn is_modest(&self, job: &Job) -> bool {
        self.reserve.is_modest(self.aims_of(job).stage(job.attained.0).aim)
    }

    fn reserved(&self) -> usize {
        self.reserve.workers()
    }

    fn left(&mut self, visit: &Visit) {
        self.state.left(visit);
    }

    fn arrived(&mut self, job: &Job) {
        let class = self.index(job.class);
        self.aims[class].arrived();
    }

    fn completed(&mut self, now: Nanos, job: &Job, attained: Nanos) {
        let (class, all) = (self.index(job.class), self.aims.len() - 1);
        self.aims[class].record(attained.0);
        self.aims[all].record(attained.0);
        if self.due <= all {
            self.aims[self.due].learn(state::WINDOW as u32);
            self.due += 1;
        }
        if self.state.completed(now, now.since(job.arrived), attained) {
            let differs = self.differs();
            self.state.review(now, differs);
            if self.reserve.review(&mut self.aims, self.state.window()) {
                self.state.changed();
            }
            self.due = 0;
        }
    }
}
