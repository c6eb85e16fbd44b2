//! The thread that called `Server::run`: it polls the transports whose connections have no threads of
//! their own, makes a thread of each request and tells the transports what became of it. It has the part of Shenango's IOKernel on the way of a
//! packet (§4.1): it steers, and schedules nothing. It never runs a handler, so that it is there when
//! the server is to end.

use super::ingress::Ingress;
use super::receive::LOOK;
use super::request::Request;
use crate::ask::{self, Asker, Entry, EntryState, Id};
use crate::control::Command;
use crate::stats::{ClassStats, RequestStats, Stats, WorkerStats, split};
use crate::transport_loop::{PollTerms, TransportLoop};
use curtail_fiber::ticks::Ticks;
use curtail_policy::{ClassId, Nanos, Spec, WorkerId};
use curtail_rt::clock;
use curtail_rt::preempt::Choice;
use curtail_rt::thread::Quanta;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// The loop of the thread that called `Server::run`.
pub(super) struct IngressLoop {
    pub base: TransportLoop,
    pub ingress: Ingress,
    pub spec: Spec,
    /// The kthreads'; `None`: nothing could be cut.
    pub quanta: Option<Quanta>,
    /// For how long a request without a quantum runs, under a core allocator, until it looks whether its core
    /// is wanted, in cycles.
    pub beat_cycles: Option<u64>,
    /// When to look again at what is lent to the kthreads (TSC).
    pub look_at_lent: u64,
    /// What the kthreads had brought by themselves when it last slept.
    pub brought: u64,
    /// Who has asked how it stands, and when (TSC).
    pub asked: Vec<(SyncSender<Stats>, u64)>,
}

impl IngressLoop {
    /// Until every transport has closed and the last request has left, or draining took too long.
    pub(super) fn run(&mut self, drain: Duration) {
        self.base.begin(drain);
        self.gather();
        ask::drive(self);
    }

    /// A turn begins: takes in what has come.
    fn gather(&mut self) {
        let now = clock::now();
        self.begin_turn(now);
        if self.base.is_to_look() {
            self.base.log_losses(self.malformed());
        }
        self.base.active = self.take_requests(now);
        self.base.active |= self.run_threads(now);
        self.base.active |= self.base.go_on();
        self.base.active |= self.drain_ended();
    }

    /// The rest of a turn; false: it was the last.
    fn conclude(&mut self) -> bool {
        let now = self.base.entry.now;
        self.base.publish_turned_away();
        self.apply_commands(now);
        self.answer_asked(now);
        if self.base.active || !self.base.config.busy {
            self.ingress.look_at_memory();
        }
        if self.base.has_drained() {
            return false;
        }
        if self.base.active {
            return true;
        }
        if self.in_system() == 0 && self.base.is_closed() {
            return false;
        }
        if !self.base.spins() {
            self.sleep();
        }
        true
    }

    /// Requests in the system, and those that are none yet.
    pub(super) fn in_system(&self) -> usize {
        self.ingress.common.quota.in_system() + self.base.entry.asker.parked()
    }

    /// Inputs that were no requests.
    pub(super) fn malformed(&self) -> u64 {
        self.base.entry.malformed + self.ingress.common.malformed.load(Ordering::Relaxed)
    }

    /// What the machine took from the last turn is a gap, unless a core changed hands meanwhile: that may
    /// have been the ingress loop's.
    fn begin_turn(&mut self, now: u64) {
        if self.beat_cycles.is_some() && self.ingress.kthreads.has_moved_since(self.base.turn) {
            self.base.turn = now;
        }
        self.base.begin_turn(now);
    }

    fn take_requests(&mut self, now: u64) -> bool {
        let common = &self.ingress.common;
        let looks = now >= self.look_at_lent || self.base.is_closing();
        if looks {
            self.look_at_lent = now + common.clock.cycles(LOOK.as_nanos() as u64);
        }
        let terms = PollTerms::new(common.quota.is_short(), false);
        let any = self.base.poll(terms, |transport| looks || transport.brings());
        if std::mem::take(&mut self.base.entry.departed) {
            self.ingress.kthreads.notify_all();
        }
        any
    }

    /// Runs threads that the application spawned when it was asked; true: there were some.
    fn run_threads(&self, now: u64) -> bool {
        self.base.kthread.poll(now);
        self.base.kthread.run_threads(0)
    }

    /// Takes the requests back that have ended.
    fn drain_ended(&mut self) -> bool {
        let (base, ingress, mut count) = (&mut self.base, &mut self.ingress, 0);
        let common = ingress.common.clone();
        common.done.drain(|request| {
            // SAFETY: its thread has ended.
            let request = unsafe { Request::back(request) };
            let transport = request.origin.transport;
            let last_gap = base.kthread.last_gap();
            if let Some(completion) = ingress.drain_ended(request, &mut base.entry, last_gap) {
                base.publish(transport, &completion);
            }
            count += 1;
        });
        base.items += count;
        count > 0
    }

    fn apply_commands(&mut self, now: u64) {
        if !self.base.control.has_mail() {
            return;
        }
        for command in self.base.control.take() {
            match command {
                Command::Shutdown => self.base.close(),
                Command::Stats(answer) => self.ask_kthreads(answer, now),
                Command::Quantum(quantum) => self.set_quantum(quantum),
                Command::Cancel(id, _) => self.ingress.cancel(id),
                Command::Classify(classify) => self.ingress.common.classifier.replace(classify),
                // The kthreads take from one that is stuck by themselves.
                Command::Stuck { .. } | Command::AllStuck { .. } => {}
                Command::Switch(spec) => self.switch(spec),
            }
        }
        // Nor is an answer to a question.
        self.base.restart_turn();
    }

    /// Somebody asks how it stands: the kthreads that have requests in progress tell of them.
    fn ask_kthreads(&mut self, answer: SyncSender<Stats>, now: u64) {
        self.ingress.common.looks.ask();
        for kthread in 0..self.ingress.kthreads.started() {
            if self.has_to_tell(kthread) {
                self.ingress.kthreads.peer(kthread).notify();
            }
        }
        self.asked.push((answer, now));
    }

    /// Whether a kthread is to tell of its requests. One without a core gets none for that.
    fn has_to_tell(&self, kthread: usize) -> bool {
        let Ingress { common, kthreads, .. } = &self.ingress;
        common.counters[kthread].holds() > 0
            && kthreads.has_core(kthread)
            && !common.looks.is_answered(kthread)
    }

    /// Answers who has asked how it stands, when the kthreads have told of their requests or have had time
    /// for that.
    fn answer_asked(&mut self, now: u64) {
        const PATIENCE_NS: u64 = 3_000_000;
        let Some(&(_, since)) = self.asked.first() else { return };
        let waits = self.ingress.common.clock.ns(now.saturating_sub(since)) < PATIENCE_NS;
        if !waits || !(0..self.ingress.kthreads.started()).any(|kthread| self.has_to_tell(kthread))
        {
            for (answer, _) in std::mem::take(&mut self.asked) {
                // Who has asked may have gone.
                let _ = answer.send(self.stats());
            }
        }
    }

    /// From the next quantum on; without effect where there are none.
    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.spec.quantum = quantum;
        self.set_quanta();
    }

    /// To another policy without a dispatcher. Requests under way go on; what a class may have at a time
    /// stays as it was.
    fn switch(&mut self, spec: Spec) {
        let config = &mut self.base.config;
        config.choice = Choice::make(config.wished, &spec, config.kind, false);
        self.spec = spec;
        self.set_quanta();
    }

    fn set_quanta(&self) {
        if let Some(quanta) = &self.quanta {
            super::set_quanta(quanta, &self.spec, &self.base.config.choice, self.beat_cycles);
        }
    }

    /// What was counted so far, by class.
    pub(super) fn classes(&self) -> (Vec<ClassStats>, ClassStats) {
        let mut rows = self.base.entry.classes.clone();
        self.ingress.common.counters.iter().for_each(|counters| counters.add_to(&mut rows));
        split(rows)
    }

    pub(super) fn preemptions(&self) -> u64 {
        (0..self.ingress.kthreads.started()).map(|index| self.ingress.kthreads.cuts(index)).sum()
    }

    fn stats(&self) -> Stats {
        // Before the counts: what has left by now is in these.
        let in_system = self.in_system();
        let (classes, unknown) = self.classes();
        let worker = |index: usize| WorkerStats {
            worker: WorkerId(index as u16),
            holds: self.ingress.common.counters[index].holds(),
            preemptions: self.ingress.kthreads.cuts(index),
            has_core: self.ingress.kthreads.has_core(index),
            tid: self.ingress.kthreads.tid(index),
        };
        Stats {
            classes,
            unknown,
            decided: None,
            malformed: self.malformed(),
            unsent: self.base.unsent(),
            in_system,
            waiting: self.ingress.waiting() + self.base.entry.asker.parked(),
            preemptions: self.preemptions(),
            workers: (0..self.ingress.kthreads.started()).map(worker).collect(),
            policy: self.spec.name.clone(),
            quantum: self.spec.quantum,
            preempt: self.base.config.choice.effective,
            preempt_note: self.base.config.choice.note.clone(),
            ticks: Ticks::default(),
            oldest: self.oldest(),
            transports: self.base.transports(),
            stalls: Vec::new(),
        }
    }

    fn oldest(&self) -> Vec<RequestStats> {
        let common = &self.ingress.common;
        common.looks.oldest(clock::now(), |kthread| common.counters[kthread].holds() > 0)
    }

    /// Sleeps until a transport has something, a request has ended, a question can go on, or a command
    /// comes.
    fn sleep(&mut self) {
        const LONGEST: Duration = Duration::from_millis(100);
        /// While kthreads are to tell of requests.
        const SHORT: Duration = Duration::from_micros(100);
        let common = &self.ingress.common;
        let parked = self.base.entry.asker.parked();
        let in_system = || common.quota.in_system() + parked > 0;
        // While none is in the system, no kthread is at something long; and where one has just come,
        // the next would only wake this thread.
        let dozes = common.long_sleep.lent && !self.base.is_closing();
        let brought = self.ingress.brought();
        let looks_soon = dozes && (in_system() || self.brought != brought);
        self.brought = brought;
        if dozes && !looks_soon {
            common.long_sleep.begin();
        }
        let kthread = self.base.kthread;
        let has_work = || {
            !common.done.is_empty() || kthread.has_mail() || (dozes && !looks_soon && in_system())
        };
        let longest = if looks_soon { LOOK } else { LONGEST };
        let longest = if self.asked.is_empty() { longest } else { SHORT };
        let most = kthread.time_left(Some(longest));
        self.base.sleep(has_work, |waiter| waiter.wait(most));
    }
}

impl Entry for IngressLoop {
    #[inline]
    fn state(&mut self) -> &mut EntryState {
        &mut self.base.entry
    }

    fn admit(&mut self, id: Id, class: ClassId) -> bool {
        self.ingress.admit(self.base.entry.asker.get(id), class)
    }
}

impl ask::Loop for IngressLoop {
    fn asker(&mut self) -> &mut Asker {
        &mut self.base.entry.asker
    }

    fn handle_answers(&mut self) {
        self.settle_answered();
        // Waking a kthread, or the core allocator, is no gap.
        self.base.restart_turn();
    }

    fn turn(&mut self) -> bool {
        let goes_on = self.conclude();
        if goes_on {
            self.gather();
        }
        goes_on
    }
}
