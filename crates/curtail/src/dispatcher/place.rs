//! Jobs to their places: the policy's decisions carried out, quanta watched, and requests run
//! on the dispatcher's own thread.

use super::Dispatcher;
use crate::clock;
use crate::engine::Engine;
use crate::jobs::Place;
use crate::preempt::Preempt;
use crate::thread::KThread;
use curtail_policy::{Decision, Dispatch, Job, Nanos, Policy, WorkerId};
use std::sync::atomic::Ordering;

impl Dispatcher {
    /// Flags and signals: asks each worker whose quantum is over to yield, if somebody wants its
    /// place.
    ///
    /// A worker's `running` is looked at only when the quantum seen last is over: what started later
    /// ends later, and each look takes the line away from the worker.
    pub(super) fn keep_time(&mut self, now: u64) {
        for index in 0..self.set.workers.len() {
            let worker = &mut self.set.workers[index];
            if now < worker.quantum_end {
                continue;
            }
            let start = worker.remote.progress.running.load(Ordering::Acquire);
            if start == 0 {
                worker.quantum_end = now + self.quantum_cycles / 8;
                continue;
            }
            if start != worker.quantum_start {
                worker.quantum_start = start;
                worker.quantum_end = start + self.quantum_cycles;
                if now < worker.quantum_end {
                    continue;
                }
            }
            worker.quantum_end = now + self.quantum_cycles;
            let time = self.set.around.clock.nanos(now);
            let on = WorkerId(index as u16);
            if self.policy.wants_place(time, on) {
                self.set.workers[index].preempt(now, self.set.choice.effective);
            } else {
                self.policy.renewed(time, on);
            }
        }
    }

    /// Carries out what the policy decides.
    pub(super) fn place(&mut self, now: u64) -> bool {
        let mut acted = false;
        if self.set.spec.is_two_level() && self.policy.waiting() > 0 {
            self.tell_serviced();
        }
        let time = self.nanos(now);
        let mut own = None;
        loop {
            match self.policy.decide(time) {
                Decision::Idle => break,
                Decision::Preempt { on } => {
                    let worker = &mut self.set.workers[on.index()];
                    // First the reason, then the word: a worker that it stops asks for the reason.
                    worker.set_contended(true);
                    worker.preempt(now, self.set.choice.effective);
                }
                Decision::Run { job, on: WorkerId::DISPATCHER, quantum } => {
                    own = Some((job, quantum));
                    break;
                }
                Decision::Run { job, on, quantum } => self.send(job, on, quantum),
            }
            acted = true;
        }
        for worker in &mut self.set.workers {
            worker.flush();
        }
        self.tell_contended(time);
        if let Some((job, quantum)) = own {
            self.run_here(job, quantum, now);
            acted = true;
        }
        acted
    }

    fn send(&mut self, job: Job, on: WorkerId, quantum: Option<Nanos>) {
        let entry = self.jobs.get(job.id);
        entry.place = Place::On(on);
        let mut message = entry.message;
        // A two-level policy leaves quanta to the worker.
        message.quantum_cycles = match quantum {
            Some(quantum) if !self.set.spec.is_two_level() => {
                self.set.around.clock.cycles(quantum.0)
            }
            _ => 0,
        };
        self.set.workers[on.index()].send(message);
    }

    /// Runs a job on this thread, for at most a quantum. It stays here until it ends, unless the
    /// application is migratable: its frames may hold addresses of this thread's locals. (Concord
    /// must keep it because its two threads run differently instrumented code; here it is the same.)
    fn run_here(&mut self, job: Job, quantum: Option<Nanos>, now: u64) {
        let entry = self.jobs.get(job.id);
        entry.place = Place::On(WorkerId::DISPATCHER);
        let mut message = entry.message;
        message.quantum_cycles =
            quantum.map_or(0, |quantum| self.set.around.clock.cycles(quantum.0));
        // SAFETY: this thread's engine, made by the server before it started us, and not running
        // anything now; the borrow ends before the fiber is entered.
        unsafe {
            (*self.set.own).admit(message, now);
            Engine::run(self.set.own, clock::now());
        }
        self.turn = clock::now();
        self.hear_own(self.turn);
    }

    pub(super) fn hear_own(&mut self, now: u64) -> bool {
        // What requests on this thread have spawned.
        let mut heard = KThread::here().run_threads(0);
        // SAFETY: as in `run_here`; each borrow lasts one call.
        while let Some(event) = unsafe {
            (*self.set.own).take_in(now);
            (*self.set.own).next_event()
        } {
            heard = true;
            self.note(WorkerId::DISPATCHER, event, now);
        }
        heard
    }

    fn tell_serviced(&mut self) {
        if self.set.workers.len() > 1 {
            for (index, worker) in self.set.workers.iter().enumerate() {
                let quanta = worker.remote.progress.serviced.load(Ordering::Relaxed);
                self.policy.serviced(WorkerId(index as u16), quanta);
            }
        }
    }

    /// Lets the workers know whether giving up a core would help anybody.
    fn tell_contended(&mut self, time: Nanos) {
        if self.set.spec.is_two_level() {
            return;
        }
        let waits = self.policy.waiting() > 0;
        // Who waits may have no business on a worker, or come after what runs there. Where the
        // dispatcher keeps the time it asks when a quantum has ended; here it must say beforehand.
        let differs = self.set.choice.effective != Preempt::Flag
            && self.set.spec.shares()
            && self.set.spec.dispatch != Dispatch::CentralPs;
        for (index, worker) in self.set.workers.iter_mut().enumerate() {
            let on = WorkerId(index as u16);
            let contended = waits && (!differs || self.policy.wants_place(time, on));
            if waits && !contended {
                self.policy.renewed(time, on);
            }
            worker.set_contended(contended);
        }
    }
}
