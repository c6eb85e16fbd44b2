//! Which workers take jobs: those that the policy knows, which do at first, and spare ones, which do not.
//!
//! While a spare one does, it takes what waits, in the order of arrival and one job at a time. What it has
//! taken stays there, and is the policy's affair no more: as with cancelled jobs that have begun
//! (`last`).

use curtail_policy::{AnyPolicy, Job, Nanos, Policy, WorkerId};

/// Which workers take jobs.
pub(crate) struct Up {
    /// Spare ones come after the others.
    up: Vec<bool>,
    usual: usize,
    /// Each job that waits is bound to a worker, as far as is known.
    pub(crate) is_bound: bool,
}

impl Up {
    pub(crate) fn new(usual: usize) -> Self {
        Self { up: vec![true; usual], usual, is_bound: false }
    }

    /// Whether the policy does not know that worker.
    #[inline]
    pub(crate) fn is_spare(&self, on: WorkerId) -> bool {
        on != WorkerId::DISPATCHER && on.index() >= self.usual
    }

    /// Whether there is a spare worker.
    #[inline]
    pub(crate) fn has_spares(&self) -> bool {
        self.up.len() > self.usual
    }

    /// The worker takes jobs from now on, or none; whether that is new.
    pub(crate) fn set(&mut self, on: WorkerId, up: bool) -> bool {
        if on.index() >= self.up.len() {
            self.up.resize(on.index() + 1, false);
        }
        self.is_bound = false;
        std::mem::replace(&mut self.up[on.index()], up) != up
    }

    /// Whether `on`, which has jobs that have begun there, runs them.
    pub(crate) fn goes_on(&self, on: usize) -> bool {
        self.up[on] || on >= self.usual
    }

    /// Workers that the policy knows and that take none.
    pub(crate) fn down(&self) -> impl Iterator<Item = WorkerId> {
        let usual = self.up[..self.usual].iter().enumerate();
        usual.filter(|(_, up)| !**up).map(|(worker, _)| WorkerId(worker as u16))
    }

    /// A job that leaves the policy for a spare worker, and which. `has_nothing`: whether a worker has no
    /// job.
    pub(crate) fn relieve(
        &mut self,
        now: Nanos,
        policy: &mut AnyPolicy,
        has_nothing: impl Fn(usize) -> bool,
    ) -> Option<(Job, WorkerId)> {
        if self.is_bound {
            return None;
        }
        let is_free = |&spare: &usize| self.up[spare] && has_nothing(spare);
        let on = (self.usual..self.up.len()).find(is_free)?;
        let mut bound = Vec::new();
        let found = loop {
            match policy.evict() {
                Some(job) if job.pinned.is_some() => bound.push(job),
                found => break found,
            }
        };
        bound.into_iter().for_each(|job| policy.inherit(now, job));
        self.is_bound = found.is_none();
        Some((found?, WorkerId(on as u16)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Action, Arrival, Event, EventKind, Scheduler, Setup};
    use curtail_policy::{ClassId, JobId, Nanos, Spec, WorkerId, dispatched};

    const NOW: Nanos = Nanos(1_000);
    const SPARE: WorkerId = WorkerId(2);

    fn arrive(sched: &mut Scheduler<()>) -> JobId {
        let arrival = Arrival { class: ClassId(0), at: NOW, hint: None };
        sched.handle_arrival(NOW, arrival, |_| ()).expect("there is room")
    }

    fn tell(sched: &mut Scheduler<()>, job: JobId, what: EventKind) {
        sched.handle_event(NOW, SPARE, Event { job, attained: Nanos(10), what });
    }

    /// Where jobs are to run.
    fn placed(sched: &mut Scheduler<()>) -> Vec<(JobId, WorkerId)> {
        let actions = std::iter::from_fn(|| sched.poll_action(NOW));
        let run = |action| match action {
            Action::Run { job, on, .. } => Some((job, on)),
            _ => None,
        };
        actions.filter_map(run).collect()
    }

    #[test]
    fn a_spare_worker_takes_what_waits_while_all_others_are_down() {
        for (policy, pins) in dispatched().flat_map(|it| [(it, true), (it, false)]) {
            let spec = Spec::preset(policy.name).expect("it is in the catalogue");
            let setup = Setup { spec, workers: 2, jobs: 16, seed: 1, pins, keeps_room: true };
            let mut sched = Scheduler::<()>::new(setup, None);
            (0..2).for_each(|worker| sched.worker_down(NOW, WorkerId(worker)));
            let [first, second, third] = [(); 3].map(|()| arrive(&mut sched));
            let on_spare = |job| vec![(job, SPARE)];
            let dispatcher = placed(&mut sched);
            if !dispatcher.is_empty() {
                continue; // It runs them itself.
            }
            sched.worker_up(NOW, SPARE);
            assert_eq!(placed(&mut sched), on_spare(first), "{}", policy.name);
            assert!(!sched.contended(NOW, SPARE) && sched.waiting() == 2);
            // It blocks, and goes on when the next one has left.
            tell(&mut sched, first, EventKind::Blocked);
            assert_eq!(placed(&mut sched), on_spare(second), "{}", policy.name);
            tell(&mut sched, first, EventKind::Woken);
            let resumed = placed(&mut sched);
            tell(&mut sched, second, EventKind::Ended);
            let resumed = [resumed, placed(&mut sched)].concat();
            assert_eq!(resumed, on_spare(first), "{}", policy.name);
            sched.worker_down(NOW, SPARE);
            tell(&mut sched, first, EventKind::Ended);
            assert_eq!(placed(&mut sched), [], "{}", policy.name);
            sched.worker_up(NOW, WorkerId(1));
            assert_eq!(placed(&mut sched), [(third, WorkerId(1))], "{}", policy.name);
        }
    }
}
