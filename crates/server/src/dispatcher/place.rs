//! Jobs to their places: the scheduler's decisions carried out, quanta watched, and requests run
//! on the dispatcher's own thread.

use super::Dispatcher;
use crate::engine::Engine;
use crate::message::Message;
use curtail_policy::{JobId, Nanos, WorkerId};
use curtail_rt::clock;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::KThread;
use curtail_rt::timeline;
use curtail_sched::{Action, Expiry};
use std::sync::atomic::Ordering;

impl Dispatcher {
    /// Flags and signals: asks each worker whose quantum is over to yield, if another job wants its
    /// place.
    fn keep_time(&mut self, now: u64) {
        let clock = self.config.shared.clock;
        let time = clock.nanos(now);
        for (index, worker) in self.config.workers.iter().enumerate() {
            let on = WorkerId(index as u16);
            if !self.watch.is_due(time, on) {
                continue;
            }
            let start = worker.remote.progress.running.load(Ordering::Acquire);
            let since = (start != 0).then(|| clock.nanos(start));
            if self.watch.look(time, on, since)
                && self.sched.quantum_over(time, on) == Expiry::Yield
            {
                worker.preempt(now, self.base.config.choice.effective);
            }
        }
    }

    /// Carries out what the scheduler says.
    pub(super) fn place(&mut self, now: u64) -> bool {
        let mut acted = false;
        if self.sched.counts_quanta() {
            self.publish_serviced();
        }
        let time = self.nanos(now);
        let mut own = None;
        while let Some(action) = self.sched.poll_action(time) {
            match action {
                Action::Preempt { on } => {
                    let worker = &mut self.config.workers[on.index()];
                    // First the reason, then the word: a worker that it stops asks for the reason.
                    worker.set_contended(true);
                    worker.preempt(now, self.base.config.choice.effective);
                }
                Action::Drop { job } => self.drop_cancelled(job, now),
                Action::Run { job, on: WorkerId::DISPATCHER, quantum } => {
                    own = Some(self.message(job, quantum));
                }
                Action::Run { job, on, quantum } => {
                    let message = self.message(job, quantum);
                    timeline::note(timeline::EventKind::Sent, (now, 0), job.0, message.class.0);
                    self.config.workers[on.index()].send(message);
                    self.watch.sent(time, on, quantum);
                }
            }
            acted = true;
        }
        for worker in &mut self.config.workers {
            worker.flush();
        }
        // After the decisions: a job that has a place by now does not want another's.
        if self.base.config.choice.is_watched() {
            self.keep_time(now);
        }
        self.publish_contended(time);
        if let Some(message) = own {
            self.run_here(message, now);
            acted = true;
        }
        acted
    }

    /// What takes the job to where it runs for so long.
    fn message(&self, job: JobId, quantum: Option<Nanos>) -> Message {
        let quantum_cycles =
            quantum.map_or(0, |quantum| self.config.shared.clock.cycles(quantum.0));
        Message { quantum_cycles, ..self.sched.data(job).message }
    }

    /// Runs a job on this thread, for at most a quantum. It stays here until it ends.
    fn run_here(&mut self, message: Message, now: u64) {
        // SAFETY: this thread's engine, made by the server before it started us, and not running
        // anything now; the borrow ends before the fiber is entered.
        unsafe {
            (*self.config.own).admit(message, now);
            Engine::run(self.config.own, clock::now());
        }
        let now = self.base.restart_turn();
        self.drain_own_events(now);
    }

    pub(super) fn drain_own_events(&mut self, now: u64) -> bool {
        // What requests on this thread have spawned.
        let mut heard = KThread::here().run_threads(0);
        // SAFETY: as in `run_here`; each borrow lasts one call.
        while let Some(event) = unsafe {
            (*self.config.own).poll(now);
            (*self.config.own).next_event()
        } {
            heard = true;
            self.note(WorkerId::DISPATCHER, &event, now);
        }
        heard
    }

    fn publish_serviced(&mut self) {
        for (index, worker) in self.config.workers.iter().enumerate() {
            let quanta = worker.remote.progress.serviced.load(Ordering::Relaxed);
            self.sched.handle_serviced(WorkerId(index as u16), quanta);
        }
    }

    /// Lets the workers know whether another job would get the core that they gave up.
    fn publish_contended(&mut self, time: Nanos) {
        if self.sched.is_two_level() {
            return;
        }
        // Where flags are raised the scheduler is asked when a quantum has ended; here it must be
        // said beforehand.
        let by_flag = self.base.config.choice.effective == Preempt::Flag;
        let waits = self.sched.waiting() > 0;
        for (index, worker) in self.config.workers.iter_mut().enumerate() {
            let on = WorkerId(index as u16);
            worker.set_contended(if by_flag { waits } else { self.sched.contended(time, on) });
        }
    }
}
