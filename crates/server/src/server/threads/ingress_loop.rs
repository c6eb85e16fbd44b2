//! The thread that called `Server::run`: it polls the transports whose connections have no threads of
//! their own, makes a thread of each request and tells the transports what became of it. It has the part of Shenango's IOKernel on the way of a
//! packet (§4.1): it steers, and schedules nothing. It never runs a handler, so that it is there when
//! the server is to end.

use super::ingress::Ingress;
use super::receive::LOOK;
use super::request::Request;
use crate::ask::{self, Asker, Entry};
use crate::control::{Command, Control};
use crate::dispatcher::{GapCounters, ITEM_NS, Line};
use crate::losses::Losses;
use crate::remote::Remote;
use crate::stats::{ClassStats, RequestStats, Stats, WorkerStats, split};
use curtail_fiber::safepoint::Kind;
use curtail_fiber::ticks::Ticks;
use curtail_net::{Status, Waiter};
use curtail_policy::{Nanos, Spec, WorkerId};
use curtail_rt::clock::{self, Clock, GAP_NS};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::{KThread, Quanta};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::server::threads::ingress_loop";

/// The loop of the thread that called `Server::run`.
pub(super) struct IngressLoop {
    pub ingress: Ingress,
    /// The ingress loop's own: for what it asks the application. Dropped after `ingress`.
    pub kthread: Box<KThread>,
    pub lines: Vec<Line>,
    pub spec: Spec,
    pub choice: Choice,
    /// How pre-emption was asked for, and what the program has for it.
    pub wished: Preempt,
    pub kind: Kind,
    /// The kthreads'; `None`: nothing could be cut.
    pub quanta: Option<Quanta>,
    /// For how long a request without a quantum runs, under a core allocator, until it looks whether its core
    /// is wanted, in cycles.
    pub beat_cycles: Option<u64>,
    pub control: Arc<Control>,
    pub waiter: Waiter,
    pub remote: Arc<Remote>,
    pub busy: bool,
    pub shares_core: bool,
    pub gaps: GapCounters,
    /// When this turn began (TSC), and how much it had to do.
    pub turn: u64,
    pub items: u64,
    /// The time of this turn (TSC), and whether it had anything to do.
    pub now: u64,
    pub active: bool,
    pub losses: Losses,
    /// When to tell of losses again (TSC).
    pub look: u64,
    /// When to look again at what is lent to the kthreads (TSC).
    pub look_at_lent: u64,
    /// What the kthreads had brought by themselves when it last slept.
    pub brought: u64,
    /// Who has asked how it stands, and when (TSC).
    pub asked: Vec<(SyncSender<Stats>, u64)>,
    pub drain_cycles: u64,
    pub closing: Option<u64>,
}

impl IngressLoop {
    /// Until every transport has closed and the last request has left, or draining took too long.
    pub(super) fn run(&mut self, drain: Duration) {
        self.drain_cycles = self.clock().cycles(drain.as_nanos() as u64);
        self.turn = clock::now();
        self.look = self.turn;
        self.gather();
        ask::drive(self);
    }

    /// A turn begins: takes in what has come.
    fn gather(&mut self) {
        let (now, clock) = (clock::now(), self.clock());
        self.now = now;
        self.note_gap(now, clock.cycles(GAP_NS), clock.cycles(ITEM_NS));
        if now >= self.look {
            self.look = now + clock.cycles(1_000_000_000);
            let malformed = ("malformed", self.ingress.malformed());
            self.losses.tell(self.transports().into_iter().chain([malformed]).collect());
        }
        self.active = self.take_requests(now);
        self.active |= self.go_on(now);
        self.active |= self.drain_ended();
    }

    /// The rest of a turn; false: it was the last.
    fn conclude(&mut self) -> bool {
        let now = self.now;
        self.publish_turned_away();
        self.apply_commands(now);
        self.answer_asked(now);
        if self.active || !self.busy {
            self.ingress.look_at_memory();
        }
        if self.closing.is_some_and(|since| now.saturating_sub(since) > self.drain_cycles) {
            return false;
        }
        if self.active {
            return true;
        }
        if self.ingress.in_system() == 0 && self.lines.iter().all(|line| !line.open) {
            return false;
        }
        self.idle();
        true
    }

    fn clock(&self) -> Clock {
        self.ingress.common.clock
    }

    /// A turn of the loop is short; a long one was interrupted by the machine, unless a core changed hands
    /// meanwhile: that may have been the ingress loop's.
    fn note_gap(&mut self, now: u64, gap_cycles: u64, item_cycles: u64) {
        let cycles = now - self.turn;
        if cycles > gap_cycles + self.items * item_cycles
            && !self.ingress.kthreads.has_moved_since(self.turn)
        {
            self.gaps.gaps += 1;
            self.gaps.gap_cycles += cycles;
            self.gaps.last_gap_tsc = now;
        }
        (self.turn, self.items) = (now, 0);
    }

    fn take_requests(&mut self, now: u64) -> bool {
        let mut taken = 0;
        let looks = now >= self.look_at_lent || self.closing.is_some();
        if looks {
            self.look_at_lent = now + self.clock().cycles(LOOK.as_nanos() as u64);
        }
        let open = self.lines.iter_mut().enumerate().filter(|(_, line)| line.open);
        for (index, line) in open.filter(|(_, line)| looks || line.transport.brings()) {
            let mut turn = self.ingress.at(index, now);
            line.open = line.transport.poll(now, &mut turn) == Status::Open;
            taken += turn.taken();
        }
        taken > 0
    }

    /// Goes on with what the application was asked and waited for, and with threads that it spawned.
    fn go_on(&mut self, now: u64) -> bool {
        self.kthread.poll(now);
        let active = self.kthread.run_threads(0);
        self.ingress.go_on() || active
    }

    fn publish_turned_away(&mut self) {
        for (transport, completion) in self.ingress.turned_away() {
            self.lines[usize::from(transport)].transport.completed(&completion);
        }
    }

    /// Takes the requests back that have ended.
    fn drain_ended(&mut self) -> bool {
        let (ingress, lines, mut count) = (&mut self.ingress, &mut self.lines, 0);
        let common = ingress.common.clone();
        common.done.drain(|request| {
            // SAFETY: its thread has ended.
            let request = unsafe { Request::back(request) };
            let transport = usize::from(request.origin.transport);
            if let Some(completion) = ingress.drain_ended(request, self.gaps.last_gap_tsc) {
                lines[transport].transport.completed(&completion);
            }
            count += 1;
        });
        self.items += count;
        count > 0
    }

    fn apply_commands(&mut self, now: u64) {
        if !self.control.has_mail() {
            return;
        }
        for command in self.control.take() {
            match command {
                Command::Shutdown => {
                    self.closing.get_or_insert(now);
                    self.lines.iter_mut().for_each(|line| line.transport.close());
                }
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
        self.turn = clock::now();
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
        let waits = self.clock().ns(now.saturating_sub(since)) < PATIENCE_NS;
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
        self.choice = Choice::make(self.wished, &spec, self.kind, false);
        self.spec = spec;
        self.set_quanta();
    }

    fn set_quanta(&self) {
        if let Some(quanta) = &self.quanta {
            super::set_quanta(quanta, &self.spec, &self.choice, self.beat_cycles);
        }
    }

    /// What was counted so far, by class.
    pub(super) fn classes(&self) -> (Vec<ClassStats>, ClassStats) {
        let mut rows = self.ingress.classes.clone();
        self.ingress.common.counters.iter().for_each(|counters| counters.add_to(&mut rows));
        split(rows)
    }

    pub(super) fn preemptions(&self) -> u64 {
        (0..self.ingress.kthreads.started()).map(|index| self.ingress.kthreads.cuts(index)).sum()
    }

    pub(super) fn unsent(&self) -> u64 {
        self.ingress.common.replies.iter().map(|reply| reply.dropped()).sum()
    }

    fn transports(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        for line in &self.lines {
            crate::stats::add_counts(&mut all, line.transport.counters());
        }
        all
    }

    fn stats(&self) -> Stats {
        // Before the counts: what has left by now is in these.
        let in_system = self.ingress.in_system();
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
            malformed: self.ingress.malformed(),
            unsent: self.unsent(),
            in_system,
            waiting: self.ingress.waiting(),
            preemptions: self.preemptions(),
            workers: (0..self.ingress.kthreads.started()).map(worker).collect(),
            policy: self.spec.name.clone(),
            quantum: self.spec.quantum,
            preempt: self.choice.effective,
            preempt_note: self.choice.note.clone(),
            ticks: Ticks::default(),
            oldest: self.oldest(),
            transports: self.transports(),
            stalls: Vec::new(),
        }
    }

    fn oldest(&self) -> Vec<RequestStats> {
        let common = &self.ingress.common;
        common.looks.oldest(clock::now(), |kthread| common.counters[kthread].holds() > 0)
    }

    /// Nothing to do.
    fn idle(&mut self) {
        if !self.busy {
            self.sleep();
        } else if self.shares_core {
            rustix::thread::sched_yield();
        } else {
            std::hint::spin_loop();
            return;
        }
        self.turn = clock::now();
    }

    /// Sleeps until a transport has something, a request has ended, a question can go on, or a command
    /// comes.
    fn sleep(&mut self) {
        const LONGEST: Duration = Duration::from_millis(100);
        /// While kthreads are to tell of requests.
        const SHORT: Duration = Duration::from_micros(100);
        let common = &self.ingress.common;
        let (control, done) = (&self.control, &common.done);
        // While none is in the system, no kthread is at something long; and where one has just come,
        // the next would only wake this thread.
        let dozes = common.long_sleep.lent && self.closing.is_none();
        let in_system = || self.ingress.in_system() > 0;
        let brought = self.ingress.brought();
        let looks_soon = dozes && (in_system() || self.brought != brought);
        self.brought = brought;
        if dozes && !looks_soon {
            common.long_sleep.begin();
        }
        let (kthread, asker) = (&self.kthread, &self.ingress.asker);
        let (waiter, lines) = (&mut self.waiter, &mut self.lines);
        let work = || {
            let has_threads = kthread.has_mail() || kthread.has_threads() || asker.has_ready();
            // Last: from here on clients over shared memory wake it.
            control.has_mail()
                || !done.is_empty()
                || (dozes && !looks_soon && in_system())
                || has_threads
                || !lines
                    .iter_mut()
                    .filter(|line| line.open)
                    .all(|line| line.transport.before_wait())
        };
        let longest = if looks_soon { LOOK } else { LONGEST };
        let longest = if self.asked.is_empty() { longest } else { SHORT };
        let most = kthread.time_left(Some(longest));
        self.remote.parker.sleep(work, || {
            if let Err(error) = waiter.wait(most) {
                tracing::warn!(target: LOG, %error, "epoll");
                rustix::thread::sched_yield();
            }
        });
    }
}

impl ask::Loop for IngressLoop {
    fn asker(&mut self) -> &mut Asker {
        &mut self.ingress.asker
    }

    fn handle_answers(&mut self) {
        self.ingress.at(0, self.now).settle_answered();
        // Waking a kthread, or the core allocator, is no gap.
        self.turn = clock::now();
    }

    fn turn(&mut self) -> bool {
        let goes_on = self.conclude();
        if goes_on {
            self.gather();
        }
        goes_on
    }
}
