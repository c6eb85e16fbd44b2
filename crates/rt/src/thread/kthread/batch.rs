//! Batch threads: they run where nothing else is ready on any kthread of the runtime, and are cut at a
//! safepoint soon after something is.
//!
//! **Queues.** `Batch::started` has those that have started here, `BatchShared::fresh` those that have
//! not, which others may take, `BatchShared::mail` those that were made ready elsewhere. No
//! other queue ever holds one, so none counts in what a core allocator sees, or the watchdog.
//!
//! **Running.** The base alone starts them (`run_batch`), after it has looked everywhere else
//! (`KthreadScheduler::run_batch`). While one runs, `direct` is 0: whatever leaves the processor switches to
//! the base.
//!
//! Its safepoints look every `LOOK_NS`, whatever quantum there is for others: at two words
//! ([`Watch`]), of which `attention` is set by a thread that makes something ready for this
//! kthread, and the other is the core allocator's; and every `CLOSELY_NS`, or if a word has
//! changed, at everything (`look_from_batch`). [`BatchLook`] decides whether the thread goes on.
//! One that was cut is the first of them to go on.
//!
//! **Requests** that are cancelled become batch threads where they are (`cancelled`): they are such from
//! the next time on that they are put into a queue.
//!
//! **Calls.** A kthread that runs batch is known to the others by its bit in `Bits::batch`; a
//! kthread that has a thread to spare takes the bit out and sets `called`. As for those that sleep,
//! it looks at all queues once more after it has set the bit.

use super::switch::{note_coming, note_leaving, note_none};
use super::{KThread, Shared};
use crate::clock::{self, Clock};
use crate::thread::overflow::Overflow;
use crate::thread::scheduler::KthreadScheduler;
use crate::thread::tcb::{Block, Fifo, Tcb};
use crate::timeline::EventKind;
use curtail_fiber::safepoint::{Kind, Mode, Watch, kind};
use curtail_fiber::switch;
use curtail_policy::{BatchLook, BatchTurn};
use curtail_ring::{CachePadded, Inbox};
use std::cell::Cell;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The target of what is logged here.
const LOG: &str = "curtail::thread::kthread::batch";

/// From one look to the next.
const LOOK_NS: u64 = 1_000;
/// From one look at everything to the next: sockets, and what the core allocator is to be told.
const CLOSELY_NS: u64 = 10_000;

/// The kthread's own part.
pub(crate) struct Batch {
    started: Fifo,
    /// One that has not started is next.
    fresh_turn: Cell<bool>,
    look_cycles: u64,
    closely_cycles: u64,
    watch: Watch,
    /// Safepoints watch `attention`: a batch thread runs, or this is a server's worker.
    watched: Cell<bool>,
    /// Looks at everything of the one that runs since it was picked; being cut is no end of that.
    looks: Cell<u32>,
    /// The first of `started` was cut.
    cut: Cell<bool>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            started: Fifo::new(),
            fresh_turn: Cell::new(false),
            look_cycles: Clock::get().cycles(LOOK_NS),
            closely_cycles: Clock::get().cycles(CLOSELY_NS),
            watch: Watch::new(Clock::get().cycles(LOOK_NS), Watch::ANY),
            watched: Cell::new(false),
            looks: Cell::new(0),
            cut: Cell::new(false),
        }
    }

    #[inline]
    pub(super) fn push(&self, tcb: &Tcb) {
        self.started.push(tcb);
    }

    /// Something else than a batch thread was made ready here, by what runs here.
    #[inline]
    pub(super) fn note_own(&self, shared: &Shared) {
        if self.watched.get() {
            shared.batch.notify();
        }
    }
}

/// What others may touch.
pub(super) struct BatchShared {
    /// Those that have not started.
    fresh: CachePadded<Overflow>,
    mail: CachePadded<Inbox<Tcb>>,
    /// 1: something was made ready here since the last look at everything. Written after that was
    /// made visible.
    attention: CachePadded<AtomicU32>,
    /// Another kthread has a thread to spare for this one.
    called: CachePadded<AtomicBool>,
}

impl BatchShared {
    pub(super) fn new() -> Self {
        Self {
            fresh: CachePadded::new(Overflow::new()),
            mail: CachePadded::new(Inbox::default()),
            attention: CachePadded::default(),
            called: CachePadded::default(),
        }
    }

    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    #[inline]
    pub(super) fn take_mail(&self, take: impl FnMut(*mut Tcb)) {
        if self.has_mail() {
            self.mail.drain(take);
        }
    }

    /// Something is ready, which can be seen.
    #[inline]
    pub(super) fn notify(&self) {
        self.attention.store(1, Ordering::Release);
    }

    fn take_fresh(&self) -> Option<&'static Tcb> {
        let mut taken = ptr::null::<Tcb>();
        if self.fresh.len() > 0 {
            self.fresh.take(1, |tcb| {
                taken = tcb;
                true
            });
        }
        // SAFETY: what was in the queue has not started, and so has not ended.
        unsafe { taken.as_ref() }
    }
}

impl Shared {
    /// How many batch threads others could take.
    #[inline]
    pub(in crate::thread) fn batch(&self) -> usize {
        self.batch.fresh.len()
    }

    /// A batch thread of this kthread was made ready elsewhere. It asks the core allocator for a core
    /// only where the kthread has none: no other can run it.
    ///
    /// # Safety
    /// It is in no other queue, and alive until it has run.
    pub(super) unsafe fn push_batch_mail(&self, tcb: &Tcb) {
        // SAFETY: by contract.
        unsafe { self.batch.mail.push(tcb.as_ptr()) };
        self.batch.notify();
        // The kthread looks for mail after it has said that it is parked.
        fence(Ordering::SeqCst);
        if self.is_parked() {
            self.announce_packets();
        }
    }

    /// By the kthread, when it has said that it is parked.
    pub(in crate::thread) fn announce_batch_mail(&self) {
        fence(Ordering::SeqCst);
        if self.batch.has_mail() {
            self.announce_packets();
        }
    }

    /// It runs a batch thread, and is to come for another.
    pub(in crate::thread) fn call(&self) {
        self.batch.called.store(true, Ordering::Release);
        self.batch.notify();
    }

    /// It is to look, whatever it does.
    pub(in crate::thread) fn notify_batch(&self) {
        self.batch.notify();
    }

    /// It is about to look for itself. By the kthread.
    pub(in crate::thread) fn take_call(&self) {
        self.batch.called.store(false, Ordering::Relaxed);
        // What was made visible before is seen after this.
        self.batch.attention.swap(0, Ordering::AcqRel);
    }
}

impl KThread {
    /// Whether a batch thread is ready that this kthread may run without asking others.
    #[inline]
    pub(in crate::thread) fn has_batch(&self) -> bool {
        !self.batch.started.is_empty() || self.shared.batch() > 0
    }

    /// A batch thread that has not started is to run, here or wherever there is room.
    #[cold]
    pub(super) fn launch_batch(&self, block: &Block, scheduler: &KthreadScheduler) {
        static ONCE: Once = Once::new();
        if kind() != Kind::Clock {
            ONCE.call_once(|| {
                tracing::warn!(
                    target: LOG,
                    "batch threads run until they yield: this program has no safepoints \
                                that time themselves"
                );
            });
        }
        block.tcb.set_batch(true);
        block.tcb.moves.set(false);
        self.shared.batch.fresh.push(&block.tcb);
        scheduler.wake_sleeper();
    }

    /// A batch thread of this kthread's, which is the caller's to run.
    pub(in crate::thread) fn pick_batch(&self) -> Option<&'static Tcb> {
        let batch = &self.batch;
        if batch.cut.replace(false) {
            return batch.started.pop();
        }
        batch.looks.set(0);
        let fresh = || self.shared.batch.take_fresh().inspect(|tcb| self.adopt(tcb));
        let fresh_first = batch.fresh_turn.get() || batch.started.is_empty();
        if fresh_first && let Some(tcb) = fresh() {
            batch.fresh_turn.set(false);
            return Some(tcb);
        }
        batch.fresh_turn.set(true);
        batch.started.pop().or_else(fresh)
    }

    /// Takes a batch thread that has not started from another kthread.
    pub(in crate::thread) fn steal_batch_from(&self, victim: &Shared) -> Option<&'static Tcb> {
        victim.batch.take_fresh().inspect(|tcb| self.adopt(tcb))
    }

    /// Runs a batch thread until it leaves the processor. By the kthread's own loop.
    pub(in crate::thread) fn run_batch(&self, tcb: &Tcb) {
        self.direct.set(0);
        self.note_pick(0);
        self.current.set(tcb);
        let timer = self.wheel.next_tsc().unwrap_or(0);
        self.shared.progress.timer.store(timer, Ordering::Relaxed);
        self.batch.watched.set(true);
        // SAFETY: it is taken back below.
        unsafe { self.safepoint.set_watch(&raw const self.batch.watch) };
        let now = clock::now();
        self.watch(now);
        self.arm_batch(now);
        self.clock_in(tcb);
        note_coming(tcb);
        // SAFETY: this is the base; what was picked is suspended, or was prepared, and is ours.
        unsafe { switch(&raw const self.base, &raw const tcb.context) };
        self.safepoint.disarm();
        // SAFETY: none is watched.
        unsafe { self.safepoint.set_watch(ptr::null()) };
        self.batch.watched.set(false);
        self.current.set(ptr::null());
        let ended = self.ended.replace(ptr::null());
        if !ended.is_null() {
            crate::thread::spawn::publish_end(ended);
        }
        note_none();
        self.nothing_runs();
    }

    /// Has what is made ready here from now on set a word, which is 0 until then. Where it is.
    #[inline]
    pub fn watch_attention(&self) -> *const AtomicU32 {
        self.batch.watched.set(true);
        // What was made visible before is seen after this.
        self.shared.batch.attention.swap(0, Ordering::AcqRel);
        &raw const *self.shared.batch.attention
    }

    /// Until when safepoints look at two words only.
    fn watch(&self, now: u64) {
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        let closely = now + self.batch.closely_cycles;
        let until = self.wheel.next_tsc().map_or(closely, |timer| timer.min(closely));
        let asked = self.client.as_ref().map_or((&raw const NOTHING, 0), |client| client.watched());
        // SAFETY: this kthread's own, while a batch thread runs or is about to.
        let sent = self.run_queue.get().map(|queue| unsafe { (queue.sent)(queue.owner) });
        let sent = sent.unwrap_or((&raw const NOTHING, 0));
        let attention: *const AtomicU32 = &raw const *self.shared.batch.attention;
        // SAFETY: `shared` lives as long as `self`; the board's word as long as no other is followed,
        // which is done between two threads.
        unsafe { self.batch.watch.set([(attention, 0), asked, sent], until) };
    }

    pub(super) fn arm_batch(&self, now: u64) {
        self.safepoint.arm(Mode::Clock, now, now + self.batch.look_cycles);
    }

    /// A safepoint of the running batch thread `me` looks whether it goes on.
    pub(super) fn look_from_batch(&self, me: &Tcb, now: u64) {
        let looks = self.batch.looks.get().wrapping_add(1);
        self.batch.looks.set(looks);
        self.arm_batch(now);
        if std::thread::panicking() {
            return;
        }
        self.abandon_if_wanted(me);
        self.shared.batch.attention.swap(0, Ordering::AcqRel);
        let beats = self.beat(now);
        self.poll(now);
        self.handle_notices();
        self.watch(now);
        let scheduler = self.scheduler();
        let quantum = self.quanta.get().and_then(|quanta| quanta.cycles_of(me));
        let look = BatchLook {
            ready: self.has_threads() || super::quanta::has_requests(self),
            called: self.shared.batch.called.load(Ordering::Acquire),
            wanted: beats || self.is_asked() || scheduler.is_to_stop(),
            others: self.has_batch(),
            over: quantum.is_some_and(|most| u64::from(looks) * self.batch.closely_cycles >= most),
        };
        match look.turn() {
            BatchTurn::Continue => return,
            BatchTurn::Cut => {
                self.batch.started.push_first(me);
                self.batch.cut.set(true);
            }
            BatchTurn::Rotate => self.batch.started.push(me),
        }
        self.shared.count_cut();
        self.clock_out(me);
        note_leaving(EventKind::RanUntilPreempted);
        self.switch_from(me, &raw const self.base);
    }
}
