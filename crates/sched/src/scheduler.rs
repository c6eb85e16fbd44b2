//! The scheduler's state machine; the crate's head says how it is driven.

mod cancel;
mod switch;
mod view;

use crate::jobs::{Jobs, Placed};
use crate::last::Lasts;
use crate::look::Lookout;
use crate::record::{Call, Tap};
use crate::room::Room;
use crate::rules::{Rules, Setup};
use crate::up::Up;
use crate::{Action, Arrival, Command, Event, EventKind, Expiry, Full};
use curtail_policy::{AnyPolicy, Decision, Job, JobId, Nanos, Policy, WorkerId};
use std::collections::VecDeque;

/// The state machine around a policy. `T` is what its driver keeps of each job, in the job's slot.
///
/// # Panics
/// Every method that is told of a job panics where the job is not where the event says, and every
/// method that names a worker where there is none of that number.
pub struct Scheduler<T> {
    setup: Setup,
    rules: Rules,
    policy: AnyPolicy,
    jobs: Jobs<T>,
    room: Room,
    looks: Lookout,
    /// Woken, and sent to their workers without the policy's having a say.
    resent: VecDeque<(JobId, WorkerId)>,
    /// Some gave way, or are to be sent again.
    aside: bool,
    /// A job runs on the dispatcher.
    runs_here: bool,
    /// How often in a row the policy has asked for a place.
    asked: usize,
    /// For workers that time themselves, and of which only [`Self::contended`] is asked: when the
    /// quantum there is renewed next.
    renews: Vec<Nanos>,
    up: Up,
    /// Cancelled jobs that have begun, and those that spare workers have taken.
    lasts: Lasts,
    tap: Option<Box<Tap>>,
}

impl<T> Scheduler<T> {
    /// A scheduler without jobs, all of whose workers are up. What it is told and answers goes to
    /// `tap`, where there is one.
    ///
    /// # Panics
    /// Where the setup's specification has an objection, or with 2³² − 1 jobs or more.
    #[must_use]
    pub fn new(setup: Setup, tap: Option<Tap>) -> Self {
        let mut tap = tap.map(Box::new);
        if let Some(tap) = &mut tap {
            tap.note(&Call::Begin(setup.clone()));
        }
        Self {
            rules: Rules::of(&setup),
            policy: setup.spec.build(setup.workers, setup.jobs, setup.seed),
            jobs: Jobs::new(setup.jobs),
            room: Room::new(&setup.spec, setup.jobs, setup.keeps_room),
            looks: Lookout::new(setup.jobs),
            resent: VecDeque::with_capacity(setup.jobs),
            aside: false,
            runs_here: false,
            asked: 0,
            renews: vec![Nanos::ZERO; setup.workers],
            up: Up::new(setup.workers),
            lasts: Lasts::new(setup.workers),
            tap,
            setup,
        }
    }

    #[inline]
    fn note(&mut self, call: impl FnOnce() -> Call) {
        if let Some(tap) = &mut self.tap {
            tap.note(&call());
        }
    }

    /// A request has arrived. If there is room it gets a slot, and `data` is made for it.
    ///
    /// # Errors
    /// [`Full`]: there is none.
    #[inline]
    pub fn handle_arrival(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        data: impl FnOnce(JobId) -> T,
    ) -> Result<JobId, Full> {
        let id = self.admit(now, &arrival);
        self.note(|| Call::Arrive { now, arrival, admitted: id });
        self.up.is_bound = false;
        let id = id.ok_or(Full)?;
        self.jobs.insert(id, &arrival, data(id));
        Ok(id)
    }

    #[inline]
    fn admit(&mut self, now: Nanos, arrival: &Arrival) -> Option<JobId> {
        let Arrival { class, at, hint } = *arrival;
        let Some(id) = self.jobs.vacant().filter(|_| self.room.admits(class)) else {
            self.policy.refused(now, class);
            return None;
        };
        self.policy.arrive(now, Job { hint, ..Job::new(id, class, at) }).ok()?;
        self.room.comes(class);
        Some(id)
    }

    /// Something has happened to a job on `on`. What its driver kept of a job that has ended can be
    /// read until the next arrival.
    #[inline]
    pub fn handle_event(&mut self, now: Nanos, on: WorkerId, event: Event) {
        self.note(|| Call::Event { now, on, event });
        self.up.is_bound = false;
        let Event { job, attained, what } = event;
        if self.lasts.any() && self.jobs.is_last(job) {
            return self.last_event(on, event);
        }
        match what {
            EventKind::Ended => {
                self.left(on, true);
                self.jobs.remove(job, on);
                self.room.leaves(self.jobs.class(job));
                self.lasts.leaves(on);
                self.policy.completed(now, on, job, attained);
            }
            EventKind::Preempted => {
                self.left(on, true);
                let stays = self.rules.pins || on == WorkerId::DISPATCHER;
                let job = self.jobs.yielded(job, on, attained, stays.then_some(on));
                self.room.waits(job.class);
                self.lasts.leaves(on);
                self.policy.yielded(now, on, job);
            }
            EventKind::Yielded => {
                self.left(on, false);
                self.jobs.block(job, on, attained);
                self.lasts.leaves(on);
                self.policy.blocked(now, on, job);
                self.looks.yielded(now, on, job);
                self.aside = true;
            }
            EventKind::Blocked => {
                self.left(on, true);
                self.jobs.block(job, on, attained);
                self.lasts.leaves(on);
                self.policy.blocked(now, on, job);
            }
            EventKind::Woken => self.woken(now, on, job, attained),
            EventKind::Resumed => {
                self.jobs.resume(job, on, attained);
                self.lasts.comes(on);
                self.policy.resumed(now, on, job);
            }
            EventKind::Returned => {
                self.left(on, false);
                let job = self.jobs.yielded(job, on, attained, None);
                self.room.waits(job.class);
                self.lasts.leaves(on);
                self.policy.yielded(now, on, job);
            }
        }
    }

    /// A job has left its place on `on`; not by giving way, if others may take that for progress.
    #[inline]
    fn left(&mut self, on: WorkerId, progress: bool) {
        self.runs_here &= on != WorkerId::DISPATCHER;
        if progress {
            self.looks.progress();
        }
    }

    fn woken(&mut self, now: Nanos, on: WorkerId, job: JobId, attained: Nanos) {
        if self.rules.two_level && on != WorkerId::DISPATCHER {
            // The worker asked before it heard that it decides by itself now, or the job gave way.
            self.lasts.comes(on);
            self.jobs.resume(job, on, attained);
            self.policy.resumed(now, on, job);
            self.resent.push_back((job, on));
            self.aside = true;
        } else {
            let job = self.jobs.woken(job, on, attained);
            self.room.waits(job.class);
            self.policy.woken(now, on, job);
        }
    }

    /// `on` has finished so many whole quanta for jobs that it still holds, in all its unfinished jobs
    /// together. To be told before decisions where [`Scheduler::counts_quanta`] says so.
    #[inline]
    pub fn handle_serviced(&mut self, on: WorkerId, quanta: u64) {
        if let Some(tap) = &mut self.tap {
            tap.note_serviced(on, quanta);
        }
        if !self.up.is_spare(on) {
            self.policy.serviced(on, quanta);
        }
    }

    /// A change of how it works.
    ///
    /// # Panics
    /// Where the new policy's specification has an objection.
    pub fn handle_command(&mut self, now: Nanos, command: Command) {
        match command {
            Command::Quantum(quantum) => {
                self.note(|| Call::Quantum { quantum });
                self.setup.spec.quantum = quantum;
                self.policy.set_quantum(quantum);
            }
            Command::Policy { spec, pins } => {
                self.switch(now, Setup { spec: *spec, pins, ..self.setup })
            }
        }
    }

    /// What to do next; `None`: nothing, until something happens or [`Scheduler::poll_timeout`].
    #[inline]
    pub fn poll_action(&mut self, now: Nanos) -> Option<Action> {
        let action = self.next_action(now);
        if let Some(tap) = &mut self.tap {
            let timeout = self.policy.next_wakeup().into_iter();
            let timeout = timeout.chain(self.looks.next(self.policy.waiting() > 0)).min();
            tap.note_action(now, action, timeout);
        }
        action
    }

    #[inline]
    fn next_action(&mut self, now: Nanos) -> Option<Action> {
        if self.aside
            && let Some((job, on)) = self.look_again(now)
        {
            return Some(Action::Run { job, on, quantum: None });
        }
        if self.runs_here {
            self.asked = 0;
            return None;
        }
        if let Some(on) = self.lasts.take_urgent() {
            return Some(Action::Preempt { on });
        }
        loop {
            match self.policy.decide(now) {
                Decision::Idle => {
                    self.asked = 0;
                    let others = self.lasts.any() || self.up.has_spares();
                    return if others { self.run_last(now) } else { None };
                }
                Decision::Run { job, on, quantum } => {
                    self.asked = 0;
                    if let Some(action) = self.placed(now, &job, on, quantum) {
                        return Some(action);
                    }
                }
                Decision::Preempt { on } => {
                    self.asked += 1;
                    assert!(
                        self.asked <= 2 * self.setup.workers,
                        "the policy {} asks for no end of yields",
                        self.setup.spec.name
                    );
                    return Some(Action::Preempt { on });
                }
            }
        }
    }

    /// The policy has found a place for a job; `None`: for one that was cancelled.
    #[inline]
    fn placed(
        &mut self,
        now: Nanos,
        job: &Job,
        on: WorkerId,
        quantum: Option<Nanos>,
    ) -> Option<Action> {
        let class = self.jobs.class(job.id);
        self.room.placed(class);
        match self.jobs.placed(job.id, on) {
            Placed::Sent => return Some(self.run(job.id, on, quantum)),
            Placed::Dropped => {
                self.room.leaves(class);
                self.policy.dropped(now, on, job.id, job.attained);
                return Some(Action::Drop { job: job.id });
            }
            Placed::Last => {
                self.policy.dropped(now, on, job.id, job.attained);
                self.lasts.wait(job.id, on);
            }
        }
        None
    }

    /// Jobs that gave way, and look again by now; a job that goes to its worker at once.
    #[cold]
    fn look_again(&mut self, now: Nanos) -> Option<(JobId, WorkerId)> {
        while let Some((job, on)) = self.looks.take(now, self.policy.waiting() > 0) {
            if self.jobs.is_last(job) {
                self.last_looks(job, on);
                continue;
            }
            self.woken(now, on, job, self.jobs.get(job).0.attained);
        }
        let resent = self.resent.pop_front();
        self.aside = !self.looks.is_empty() || !self.resent.is_empty();
        resent
    }

    #[inline]
    fn run(&mut self, job: JobId, on: WorkerId, quantum: Option<Nanos>) -> Action {
        self.lasts.comes(on);
        if !self.rules.two_level {
            self.lasts.urge(on);
        }
        let here = on == WorkerId::DISPATCHER;
        self.runs_here |= here;
        // A two-level policy leaves quanta to the worker.
        let quantum = quantum.filter(|_| here || !self.rules.two_level);
        Action::Run { job, on, quantum }
    }

    /// When to ask for actions again although nothing happened. Binding: a driver that sleeps must not
    /// sleep longer. `None`: not before something happens.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let wakeup = self.policy.next_wakeup();
        if !self.aside {
            return wakeup;
        }
        wakeup.into_iter().chain(self.looks.next(self.policy.waiting() > 0)).min()
    }

    /// The quantum of what runs on `on` has ended: what becomes of it? Nothing stays on the
    /// dispatcher, which must come back to its queues.
    #[inline]
    pub fn quantum_over(&mut self, now: Nanos, on: WorkerId) -> Expiry {
        let last = self.lasts.runs_on(on);
        let wanted = on == WorkerId::DISPATCHER
            || match last || self.up.is_spare(on) {
                true => self.lasts.others_on(on),
                false => self.policy.wants_place(now, on),
            };
        if !wanted && !last && !self.up.is_spare(on) {
            self.policy.renewed(now, on);
        }
        self.note(|| Call::QuantumOver { now, on, yields: wanted });
        if wanted { Expiry::Yield } else { Expiry::Continue }
    }

    /// Whether another job would get the place if `on` gave up what it runs. A worker that times
    /// itself must know this before its quantum ends. Where no job would, the quanta there are
    /// taken to be renewed at their times.
    #[inline]
    pub fn contended(&mut self, now: Nanos, on: WorkerId) -> bool {
        if self.lasts.runs_on(on) {
            return self.lasts.others_on(on);
        }
        if self.rules.two_level || self.policy.waiting() == 0 || self.up.is_spare(on) {
            return false;
        }
        if !self.rules.has_wishes {
            return true;
        }
        let wanted = self.policy.wants_place(now, on);
        if !wanted
            && now >= self.renews[on.index()]
            && let Some(quantum) = self.setup.spec.quantum
        {
            self.renews[on.index()] = now + quantum;
            self.note(|| Call::QuantumOver { now, on, yields: false });
            self.policy.renewed(now, on);
        }
        wanted
    }

    /// Whether the policy wants to know of completed quanta before it decides now.
    #[inline]
    #[must_use]
    pub fn counts_quanta(&self) -> bool {
        self.rules.counts_quanta && self.policy.waiting() > 0
    }
}
