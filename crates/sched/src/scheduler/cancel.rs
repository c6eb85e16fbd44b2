//! Jobs that are cancelled. One that has not begun leaves when the policy finds a place for it; one that
//! has begun is the policy's affair no more: it runs when nothing else is to run on its worker.

use super::Scheduler;
use crate::jobs::Placed;
use crate::record::Call;
use crate::{Action, Event, EventKind, Where};
use curtail_policy::{Job, JobId, Nanos, Policy, WorkerId};

/// For so long such a job runs, where the policy has no quantum.
const QUANTUM: Nanos = Nanos::from_micros(5);

impl<T> Scheduler<T> {
    /// A job that is in the system is cancelled. `begun`: it has run, so that it cannot just be
    /// dropped. It is on the driver to have a worker that runs it give it up. Without effect on one
    /// that was cancelled before.
    pub fn handle_cancel(&mut self, now: Nanos, job: JobId, begun: bool) {
        self.note(|| Call::Cancel { now, job, begun });
        let Some(at) = self.jobs.whereabouts(job) else { return };
        let attained = self.jobs.get(job).0.attained;
        if !self.jobs.cancel(job, begun) {
            return;
        }
        match at {
            // The policy has it; it leaves when that finds a place for it.
            Where::Waiting => {}
            Where::On(on) => {
                self.policy.dropped(now, on, job, attained);
                self.lasts.begin(on, true);
                if !self.rules.two_level && self.lasts.others_on(on) {
                    self.lasts.urge(on);
                }
            }
            Where::Blocked(on) => {
                self.policy.resumed(now, on, job);
                self.policy.dropped(now, on, job, attained);
                self.lasts.begin(on, false);
            }
        }
    }

    /// Something has happened to a cancelled job which the policy does not know any more.
    pub(super) fn last_event(&mut self, on: WorkerId, event: Event) {
        let Event { job, attained, what } = event;
        self.jobs.last(job, on, attained, what);
        match what {
            EventKind::Ended => {
                self.left(on, true);
                self.lasts.stops(on);
                self.lasts.end();
                self.room.leaves(self.jobs.class(job));
            }
            EventKind::Preempted | EventKind::Yielded | EventKind::Returned => {
                self.left(on, what == EventKind::Preempted);
                self.lasts.stops(on);
                self.lasts.queue(job, on);
            }
            EventKind::Blocked => {
                self.left(on, true);
                self.lasts.stops(on);
            }
            EventKind::Woken if self.rules.two_level && on != WorkerId::DISPATCHER => {
                self.jobs.send_last(job, on);
                self.lasts.goes_on(on);
                self.resent.push_back((job, on));
                self.aside = true;
            }
            EventKind::Woken => self.lasts.queue(job, on),
            EventKind::Resumed => self.lasts.goes_on(on),
        }
    }

    /// A cancelled job that gave way before it was cancelled looks again.
    pub(super) fn last_looks(&mut self, job: JobId, on: WorkerId) {
        let attained = self.jobs.get(job).0.attained;
        self.jobs.last(job, on, attained, EventKind::Woken);
        self.lasts.queue(job, on);
    }

    /// Nothing else is to be done: a spare worker takes a job that waits, or a cancelled job runs on a
    /// worker that has no other.
    #[cold]
    pub(super) fn run_last(&mut self, now: Nanos) -> Option<Action> {
        while let Some((Job { id: job, class, .. }, on)) =
            self.up.relieve(now, &mut self.policy, |spare| self.lasts.is_free(spare))
        {
            self.room.placed(class);
            match self.jobs.placed(job, on) {
                Placed::Sent => {
                    // As if it had been cancelled, for this table.
                    self.jobs.cancel(job, true);
                    self.lasts.comes(on);
                    self.lasts.begin(on, true);
                    let quantum = self.setup.spec.quantum.filter(|_| !self.rules.two_level);
                    return Some(Action::Run { job, on, quantum });
                }
                Placed::Dropped => {
                    self.room.leaves(class);
                    return Some(Action::Drop { job });
                }
                Placed::Last => self.lasts.wait(job, on),
            }
        }
        let (job, on) = self.lasts.next(|worker| self.up.goes_on(worker))?;
        self.jobs.send_last(job, on);
        self.runs_here |= on == WorkerId::DISPATCHER;
        let quantum = Some(self.setup.spec.quantum.unwrap_or(QUANTUM));
        Some(Action::Run { job, on, quantum })
    }
}
