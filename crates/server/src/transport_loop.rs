//! The loop of the thread that polls transports: what it has both with a dispatcher, whose loop it is
//! ([`crate::dispatcher`]), and without, where it is the ingress loop (`server::threads`).
//!
//! That thread's alone, which is a kthread. The two differ in what becomes of a request that is let in.

use crate::ask::{EntryState, Incoming, Origin, Question};
use crate::control::Control;
use crate::losses::Losses;
use crate::remote::Remote;
use crate::stats::add_counts;
use curtail_fiber::safepoint::Kind;
use curtail_net::{Completion, Intake, Peer, Status, Transport, Waiter};
use curtail_rt::clock::{self, Clock};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::KThread;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::transport_loop";

/// What one arrival or one event may cost the loop before its turn looks like a gap.
const ITEM_NS: u64 = 150;
/// From one look at what was lost to the next.
const LOOK_NS: u64 = 1_000_000_000;

/// A transport and whether it may still bring something.
struct Line {
    transport: Box<dyn Transport>,
    open: bool,
}

/// How requests are pre-empted, and how the loop waits.
pub(crate) struct LoopConfig {
    /// How pre-emption was asked for, what the program has for it, and what came of that.
    pub wished: Preempt,
    pub kind: Kind,
    pub choice: Choice,
    /// It never sleeps.
    pub busy: bool,
    pub shares_core: bool,
}

/// The loop of the thread that polls transports.
pub(crate) struct TransportLoop {
    pub config: LoopConfig,
    pub entry: EntryState,
    pub control: Arc<Control>,
    pub remote: Arc<Remote>,
    pub kthread: &'static KThread,
    lines: Vec<Line>,
    waiter: Waiter,
    clock: Clock,
    item_cycles: u64,
    /// When this turn began (TSC).
    pub turn: u64,
    /// How much this turn has had to do, as far as that is counted.
    pub items: u64,
    /// This turn has had something to do.
    pub active: bool,
    losses: Losses,
    /// When to look at what was lost (TSC).
    look: u64,
    /// How long requests may take to leave, at the end.
    drain_cycles: u64,
    closing: Option<u64>,
}

impl TransportLoop {
    /// Of the calling kthread.
    pub(crate) fn new(
        config: LoopConfig,
        entry: EntryState,
        transports: Vec<Box<dyn Transport>>,
        (control, remote, waiter): (Arc<Control>, Arc<Remote>, Waiter),
    ) -> Self {
        let clock = Clock::get();
        let line = |transport| Line { transport, open: true };
        Self {
            config,
            entry,
            control,
            remote,
            kthread: KThread::here(),
            lines: transports.into_iter().map(line).collect(),
            waiter,
            item_cycles: clock.cycles(ITEM_NS),
            clock,
            turn: 0,
            items: 0,
            active: false,
            losses: Losses::default(),
            look: 0,
            drain_cycles: 0,
            closing: None,
        }
    }

    /// Before its first turn.
    pub(crate) fn begin(&mut self, drain: Duration) {
        self.drain_cycles = self.clock.cycles(drain.as_nanos() as u64);
        self.restart_turn();
    }

    /// A turn begins. The last one was short, or else interrupted by the machine.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: u64) {
        self.kthread.note_quiet(self.turn + self.items * self.item_cycles, now);
        (self.turn, self.items, self.entry.now) = (now, 0, now);
    }

    /// What took time in this turn until now, which is returned, is no gap.
    #[inline]
    pub(crate) fn restart_turn(&mut self) -> u64 {
        self.turn = clock::now();
        self.turn
    }

    /// Takes what has come by those transports that are polled; true: that is something.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        terms: PollTerms,
        is_polled: impl Fn(&dyn Transport) -> bool,
    ) -> bool {
        let (now, mut taken) = (self.entry.now, 0);
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.open && is_polled(&*line.transport) {
                let mut intake = PollIntake::new(&mut self.entry, index, terms);
                line.open = line.transport.poll(now, &mut intake) == Status::Open;
                taken += intake.taken;
            }
        }
        self.items += taken as u64;
        taken > 0
    }

    /// Goes on with what the application was asked and waited for; true: something came of it.
    #[inline]
    pub(crate) fn go_on(&mut self) -> bool {
        let asker = &mut self.entry.asker;
        asker.parked() > 0 && (asker.go_on() || asker.has_ready())
    }

    /// Tells a transport of a request that has ended.
    #[inline]
    pub(crate) fn publish(&mut self, transport: u16, completion: &Completion) {
        self.lines[usize::from(transport)].transport.completed(completion);
    }

    /// Tells the transports of requests that were not let in.
    #[inline]
    pub(crate) fn publish_turned_away(&mut self) {
        for (transport, completion) in self.entry.turned_away.drain(..) {
            self.lines[usize::from(transport)].transport.completed(&completion);
        }
    }

    /// Whether it is time to look at what was lost, once a second.
    #[inline]
    pub(crate) fn is_to_look(&mut self) -> bool {
        let looks = self.entry.now >= self.look;
        if looks {
            self.look = self.entry.now + self.clock.cycles(LOOK_NS);
        }
        looks
    }

    /// The next turn looks at what was lost.
    pub(crate) fn look_soon(&mut self) {
        self.look = 0;
    }

    /// Logs what was lost since the last time.
    pub(crate) fn log_losses(&mut self, malformed: u64) {
        let counts = self.transports().into_iter().chain([("malformed", malformed)]);
        self.losses.tell(counts.collect());
    }

    /// No more requests are wanted.
    pub(crate) fn close(&mut self) {
        self.closing.get_or_insert(self.entry.now);
        self.lines.iter_mut().for_each(|line| line.transport.close());
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether requests have had the time that they may take to leave.
    #[inline]
    pub(crate) fn has_drained(&self) -> bool {
        let since = |closing| self.entry.now.saturating_sub(closing);
        self.closing.is_some_and(|closing| since(closing) > self.drain_cycles)
    }

    /// Whether no transport brings any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.iter().all(|line| !line.open)
    }

    /// Lets a moment pass without work; false: it sleeps instead.
    pub(crate) fn spins(&mut self) -> bool {
        match (self.config.busy, self.config.shares_core) {
            (false, _) => return false,
            (true, false) => std::hint::spin_loop(),
            (true, true) => {
                rustix::thread::sched_yield();
                self.restart_turn();
            }
        }
        true
    }

    /// Sleeps by `wait` until a transport has something, a question can go on, a command comes, or there is
    /// other work.
    pub(crate) fn sleep(
        &mut self,
        mut has_work: impl FnMut() -> bool,
        wait: impl FnOnce(&mut Waiter) -> io::Result<bool>,
    ) {
        let Self { control, entry, kthread, lines, waiter, .. } = self;
        let work = || {
            control.has_mail()
                || entry.asker.has_ready()
                || kthread.has_threads()
                || has_work()
                // Last: from here on clients over shared memory wake it.
                || !lines.iter_mut().filter(|line| line.open).all(|line| line.transport.before_wait())
        };
        self.remote.parker.sleep(work, || {
            if let Err(error) = wait(waiter) {
                tracing::warn!(target: LOG, %error, "epoll");
                rustix::thread::sched_yield();
            }
        });
        self.restart_turn();
    }

    /// What the transports count, by name.
    pub(crate) fn transports(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        for line in &self.lines {
            add_counts(&mut all, line.transport.counters());
        }
        all
    }

    /// Responses that could not be sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.entry.replies.iter().map(|reply| reply.dropped()).sum()
    }
}

/// How many requests are taken from a transport at a time: enough to amortise a look, few enough
/// that workers' news and quanta are never late for it.
const BATCH: usize = 64;
/// As many when some have no room: refusing costs time that what is in the system needs.
const BATCH_TO_REFUSE: usize = 8;

/// What one poll may bring.
#[derive(Clone, Copy)]
pub(crate) struct PollTerms {
    /// At most so many requests.
    batch: usize,
    /// The policy wants to know how long requests will take.
    hint: bool,
}

impl PollTerms {
    /// `is_short`: some requests have no room now.
    pub(crate) fn new(is_short: bool, hint: bool) -> Self {
        Self { batch: if is_short { BATCH_TO_REFUSE } else { BATCH }, hint }
    }
}

/// One poll of one transport.
struct PollIntake<'a> {
    entry: &'a mut EntryState,
    transport: u16,
    terms: PollTerms,
    taken: usize,
}

impl<'a> PollIntake<'a> {
    fn new(entry: &'a mut EntryState, transport: usize, terms: PollTerms) -> Self {
        Self { entry, transport: transport as u16, terms, taken: 0 }
    }

    #[inline]
    fn take(&mut self, payload: Incoming<'_>, peer: Peer, arrived_tsc: u64) {
        self.taken += 1;
        let origin = Origin { peer, transport: self.transport, arrived_tsc };
        self.entry.asker.stage(Question::Class { hint: self.terms.hint }, payload, origin);
    }
}

impl Intake for PollIntake<'_> {
    fn room(&self) -> usize {
        if self.entry.asker.is_laden() { 0 } else { self.terms.batch.saturating_sub(self.taken) }
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.take(Incoming::Lent(payload), from, arrived_tsc);
    }

    fn request_in(&mut self, buffer: &mut Vec<u8>, from: Peer, arrived_tsc: u64) {
        self.take(Incoming::Given(buffer), from, arrived_tsc);
    }

    fn malformed(&mut self, count: u64) {
        self.entry.malformed += count;
    }

    fn departed(&mut self) {
        self.entry.departed = true;
    }
}
