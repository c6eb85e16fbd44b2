//! A kthread: the kernel's thread that runs threads, and on a server's worker requests as well.
//!
//! **Who touches it.** Its own kernel thread, through [`KThread::here`]; others reach [`Shared`]
//! alone. All fields are cells, so that a thread which blocks, the kthread's own loop and the hook of
//! the safepoints may each hold a reference to it.
//!
//! **Two ways to the next thread.** A thread that blocks, yields or ends switches to the next one
//! directly, up to [`DIRECT`] times; then, or where none is ready, it switches to `base`, the
//! kthread's own stack, whose loop looks into the inbox, at timers and sockets, steals, and sleeps.
//!
//! **Ready threads** lie in two queues: `local`, of those that have started here and stay here, and
//! `fresh`, of those that have not started and may be stolen. Both are first in, first out; where
//! both have some, they take turns.

use super::parker::Parker;
use super::runtime::Seat;
use super::tcb::{Block, Fifo, Overflow, Tcb};
use crate::block::{Deadline, Node, Timer, Wheel, Who};
use crate::clock;
use crate::socket::Poller;
use curtail_fiber::safepoint::{Mode, Safepoint};
use curtail_fiber::{Context, FiberStack, StackError, StackPool, switch};
use curtail_ring::{CachePadded, Inbox, StealRing};
use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Switches from thread to thread before the kthread's own loop looks around.
const DIRECT: u32 = 61;

/// What other kthreads may touch.
pub(crate) struct Shared {
    /// Threads and requests of this kthread that were made ready elsewhere.
    inbox: CachePadded<Inbox<Tcb>>,
    /// Threads that have not started, and those for which the ring had no room.
    fresh: StealRing<Tcb>,
    overflow: CachePadded<Overflow>,
    pub(crate) parker: Arc<CachePadded<Parker>>,
    /// How often a thread was picked: the watchdog sees from it whether the kthread goes on.
    pub(super) picks: CachePadded<AtomicU32>,
    ended: AtomicBool,
}

impl Shared {
    pub(crate) fn new(parker: Arc<CachePadded<Parker>>) -> Arc<Self> {
        Arc::new(Self {
            inbox: CachePadded::new(Inbox::default()),
            fresh: StealRing::default(),
            overflow: CachePadded::new(Overflow::new()),
            parker,
            picks: CachePadded::new(AtomicU32::new(0)),
            ended: AtomicBool::new(false),
        })
    }

    /// It runs no thread any more, ever.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How many threads could be stolen.
    #[inline]
    pub(super) fn stealable(&self) -> usize {
        self.fresh.len() + self.overflow.len()
    }

    #[inline]
    fn push_fresh(&self, tcb: &Tcb) {
        if self.overflow.len() > 0 || !self.fresh.push(tcb.as_ptr()) {
            self.overflow.push(tcb);
        }
    }
}

/// When and how its threads are pre-empted.
#[derive(Clone, Debug)]
pub(super) struct Quanta {
    pub mode: Mode,
    /// One tick: the smallest quantum.
    pub cycles: u64,
    /// A thread's quantum in ticks; `None`: it runs to completion.
    pub usual: Option<u32>,
    /// The same for some classes.
    pub by_class: Box<[(u16, Option<u32>)]>,
}

impl Quanta {
    fn of(&self, class: u16) -> Option<u32> {
        self.by_class.iter().find(|(one, _)| *one == class).map_or(self.usual, |&(_, ticks)| ticks)
    }
}

/// See the module's head.
pub(crate) struct KThread {
    pub(crate) shared: Arc<Shared>,
    /// What runs here; null: the kthread's own loop.
    current: Cell<*const Tcb>,
    base: Context,
    safepoint: Safepoint,
    pub(super) local: Fifo,
    /// Requests that were woken here: for the engine.
    woken: Fifo,
    /// A thread that has ended and whose stack was still in use until the next one came in.
    ended: Cell<*const Block>,
    direct: Cell<u32>,
    fresh_turn: Cell<bool>,
    picks: Cell<u32>,
    /// `picks` when the present quantum began.
    quantum_pick: Cell<u32>,
    /// Ticks that the same thread has had, one after the other.
    ticks: Cell<u32>,
    quanta: OnceCell<Quanta>,
    pub(crate) wheel: Wheel<*const Node<Who>>,
    stacks: UnsafeCell<StackPool>,
    /// Of other sizes.
    odd_stacks: UnsafeCell<Vec<StackPool>>,
    /// Threads that have started here and have not ended.
    alive: Cell<usize>,
    poller: OnceCell<Poller>,
    pub(super) seat: Option<Seat>,
}

thread_local! {
    static HERE: Cell<*const KThread> = const { Cell::new(ptr::null()) };
}

impl KThread {
    /// This kernel thread's, from now on and until it is dropped. `seat`: its place among the
    /// kthreads of a runtime.
    pub(crate) fn new(
        shared: Arc<Shared>,
        stack_size: usize,
        seat: Option<Seat>,
    ) -> Result<Box<Self>, StackError> {
        assert!(HERE.get().is_null(), "this thread is a kthread already");
        curtail_fiber::prepare_thread();
        shared.parker.set_thread(std::thread::current());
        let kthread = Box::new(Self {
            shared,
            current: Cell::new(ptr::null()),
            base: Context::new(),
            safepoint: Safepoint::this_thread(),
            local: Fifo::new(),
            woken: Fifo::new(),
            ended: Cell::new(ptr::null()),
            direct: Cell::new(0),
            fresh_turn: Cell::new(false),
            picks: Cell::new(0),
            quantum_pick: Cell::new(0),
            ticks: Cell::new(0),
            quanta: OnceCell::new(),
            wheel: Wheel::new(clock::now()),
            stacks: UnsafeCell::new(StackPool::new(stack_size)?),
            odd_stacks: UnsafeCell::new(Vec::new()),
            alive: Cell::new(0),
            poller: OnceCell::new(),
            seat,
        });
        HERE.set(&raw const *kthread);
        Ok(kthread)
    }

    /// This kernel thread's, if it is one.
    #[inline]
    pub(crate) fn try_here() -> Option<&'static Self> {
        // SAFETY: set while the kthread is alive. What borrows it does not outlive the call that
        // asked for it.
        unsafe { HERE.get().as_ref() }
    }

    /// This kernel thread's.
    #[inline]
    pub(crate) fn here() -> &'static Self {
        Self::try_here().expect("not on a kthread")
    }

    /// The thread or request that calls; `None`: a plain thread, or a kthread's own loop.
    #[inline]
    pub(crate) fn current_tcb() -> Option<&'static Tcb> {
        // SAFETY: what runs is alive.
        Self::try_here().and_then(|here| unsafe { here.current.get().as_ref() })
    }

    /// In the child of a fork: it has one thread, and goes on with that alone.
    pub(crate) fn forget_here() {
        HERE.set(ptr::null());
    }

    /// Calls `f` as if nothing of Curtail's ran here: what waits in it waits in the kernel, and
    /// nothing is pre-empted.
    pub(crate) fn as_plain_thread(&self, f: impl FnOnce()) {
        let current = self.current.replace(ptr::null());
        f();
        self.current.set(current);
    }

    /// A request runs here from now on; null: none does.
    #[inline]
    pub(crate) fn set_current(&self, tcb: *const Tcb) {
        self.current.set(tcb);
    }

    /// Makes a thread or request ready whose wait the caller has ended.
    ///
    /// # Safety
    /// It is blocked (or about to leave the processor), and nobody else makes it ready.
    #[inline]
    pub(crate) unsafe fn make_ready(tcb: *const Tcb) {
        // SAFETY: alive, since it has not ended; its home is too.
        let (tcb, home) = unsafe { (&*tcb, &*(*tcb).home.load(Ordering::Relaxed)) };
        match Self::try_here() {
            Some(here) if ptr::eq(Arc::as_ptr(&here.shared), home) => here.ready(tcb),
            _ => {
                // The home may end as soon as it has the thread: its parker stays.
                let parker = home.parker.clone();
                // SAFETY: alive until it has run; in no other queue.
                unsafe { home.inbox.push(tcb.as_ptr()) };
                parker.unpark();
            }
        }
    }

    /// It is ready, and has started here.
    #[inline]
    fn ready(&self, tcb: &Tcb) {
        match tcb.request() {
            None => self.local.push(tcb),
            Some(_) => self.woken.push(tcb),
        }
    }

    /// Takes what others made ready.
    #[inline]
    pub(crate) fn take_in(&self) {
        self.shared.inbox.drain(|tcb| {
            // SAFETY: what is in the inbox has not ended.
            self.ready(unsafe { &*tcb });
        });
    }

    /// Whether others made something ready that was not taken in.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        !self.shared.inbox.is_empty()
    }

    /// A request that was woken: for the engine.
    #[inline]
    pub(crate) fn pop_woken_request(&self) -> Option<&'static Tcb> {
        self.woken.pop()
    }

    /// Whether a request was woken.
    #[inline]
    pub(crate) fn has_woken_requests(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Whether a thread is ready here.
    #[inline]
    pub(crate) fn has_threads(&self) -> bool {
        !self.local.is_empty() || self.shared.stealable() > 0
    }

    /// A thread that has not started is to run, here or wherever there is room.
    #[inline]
    pub(super) fn launch(&self, block: &Block) {
        self.shared.push_fresh(&block.tcb);
        if let Some(seat) = &self.seat {
            seat.wake_idle();
        }
    }

    /// A thread that has not started is to run here and nowhere else.
    pub(super) fn launch_here(&self, block: &Block) {
        self.adopt(&block.tcb);
        self.local.push(&block.tcb);
    }

    /// The next ready thread, marked as started here.
    #[inline]
    fn pick(&self) -> Option<&'static Tcb> {
        let fresh_first = self.fresh_turn.get() || self.local.is_empty();
        let tcb = if fresh_first && let Some(tcb) = self.pick_fresh() {
            self.fresh_turn.set(false);
            tcb
        } else {
            self.fresh_turn.set(true);
            self.local.pop().or_else(|| self.pick_fresh())?
        };
        self.count_pick();
        Some(tcb)
    }

    #[inline]
    fn count_pick(&self) {
        let picks = self.picks.get().wrapping_add(1);
        self.picks.set(picks);
        self.shared.picks.store(picks, Ordering::Relaxed);
    }

    #[inline]
    fn pick_fresh(&self) -> Option<&'static Tcb> {
        if self.shared.overflow.len() > 0 {
            self.refill();
        }
        let tcb = self.shared.fresh.pop();
        // SAFETY: what is in the queue has not started, and so has not ended.
        let tcb = unsafe { tcb.as_ref()? };
        self.adopt(tcb);
        Some(tcb)
    }

    /// A thread that has not started is going to do so here.
    #[inline]
    pub(super) fn adopt(&self, tcb: &Tcb) {
        self.alive.set(self.alive.get() + 1);
        tcb.home.store(Arc::as_ptr(&self.shared).cast_mut(), Ordering::Release);
    }

    #[cold]
    fn refill(&self) {
        let shared = &self.shared;
        shared.overflow.take(usize::MAX, |tcb| shared.fresh.push(tcb.as_ptr()));
    }

    /// Runs ready threads until none is ready or it is time to look around; true: some ran. By the
    /// kthread's own loop.
    pub(crate) fn run_threads(&self, direct: u32) -> bool {
        debug_assert!(self.current.get().is_null());
        let Some(next) = self.pick() else { return false };
        self.direct.set(direct.min(DIRECT));
        self.arm(clock::now());
        self.current.set(next);
        // SAFETY: this is the base; the thread is suspended, or was prepared, and is ours.
        unsafe { switch(&raw const self.base, &raw const next.context, self.safepoint) };
        self.current.set(ptr::null());
        self.disarm();
        self.settle();
        true
    }

    /// What a thread switches to when it leaves the processor.
    #[inline]
    fn next(&self) -> *const Context {
        let left = self.direct.get();
        if left > 0 && !self.has_mail() {
            self.direct.set(left - 1);
            if let Some(next) = self.pick() {
                self.current.set(next);
                return &raw const next.context;
            }
        }
        &raw const self.base
    }

    /// The thread `me`, which calls, leaves the processor; returns when it is its turn again.
    #[inline]
    fn leave(&self, me: &Tcb, next: *const Context) {
        if ptr::eq(next, &raw const me.context) {
            return; // Nothing else was ready.
        }
        let control = ControlWords::put_away();
        // SAFETY: `me` is the calling thread; `next` is suspended, and this kthread's.
        unsafe { switch(&raw const me.context, next, self.safepoint) };
        control.restore();
        self.settle();
    }

    /// After a switch: a thread that ended on the way has left its stack by now.
    #[inline]
    fn settle(&self) {
        let ended = self.ended.get();
        if !ended.is_null() {
            self.ended.set(ptr::null());
            super::spawn::publish_end(ended);
        }
    }

    /// The calling thread or request blocks until something makes it ready.
    #[inline]
    pub(crate) fn block(&self, me: &Tcb) {
        match me.request() {
            None => {
                let next = self.next();
                self.leave(me, next);
            }
            Some(_) => crate::calls::block_request(),
        }
    }

    /// The caller, `me`, sleeps until its node's wait is over, or expires it at the deadline or at
    /// the end of its own limit.
    pub(crate) fn sleep(&self, me: &Tcb, node: &Node<Who>, deadline: Option<Deadline>) {
        let until = me.limit.get().min(deadline.map_or(u64::MAX, |deadline| deadline.0));
        if until == u64::MAX {
            return self.block(me);
        }
        let timer = Timer::new(ptr::from_ref(node));
        // SAFETY: it is cancelled below, or has fired, before this returns.
        unsafe { self.wheel.set(&timer, until) };
        self.block(me);
        self.wheel.cancel(&timer);
    }

    /// The calling thread lets others run that are ready.
    #[inline]
    pub(crate) fn yield_now(&self, me: &Tcb) {
        if me.request().is_some() {
            return crate::calls::yield_request();
        }
        self.local.push(me);
        let next = self.next();
        self.leave(me, next);
    }

    /// Whether the calling thread `me` may run the thread of `block`, which it is going to wait for:
    /// that is next here and has not started. Then it has been taken out of the queue.
    pub(super) fn can_run_child(&self, me: &Tcb, block: &Block) -> bool {
        me.request().is_none()
            && me.limit.get() == super::tcb::NO_LIMIT
            && self.shared.fresh.pop_if(block.tcb.as_ptr())
    }

    /// The calling thread runs `child`, which is about to start, and goes on when that has ended.
    pub(super) fn run_child(&self, me: &Tcb, child: &Block) {
        child.tcb.joiner.set(me);
        self.adopt(&child.tcb);
        self.count_pick();
        self.current.set(&child.tcb);
        self.leave(me, &raw const child.tcb.context);
    }

    /// The calling thread has ended. Its stack is used until the next one has come in.
    pub(super) fn end(&self, block: &Block) -> ! {
        self.alive.set(self.alive.get() - 1);
        let joiner = block.tcb.joiner.get();
        // SAFETY: a joiner waits for this, and for nothing else, so it is alive and suspended.
        let next = match unsafe { joiner.as_ref() } {
            Some(joiner) => {
                self.current.set(joiner);
                &raw const joiner.context
            }
            None => {
                self.ended.set(block);
                match self.seat.as_ref().is_some_and(Seat::is_to_stop) {
                    true => &raw const self.base,
                    false => self.next(),
                }
            }
        };
        // SAFETY: this stack's context, never resumed again; `next` is suspended, and ours.
        unsafe { curtail_fiber::switch_away(&raw const block.tcb.context, next, self.safepoint) }
    }

    /// First thing on a new thread's stack.
    #[inline]
    pub(super) fn started(&self) {
        self.settle();
    }

    /// A stack of `size` bytes, or of the usual size.
    pub(super) fn take_stack(&self, size: Option<usize>) -> Result<FiberStack, StackError> {
        // SAFETY: this kthread's own; the pool calls nothing of ours.
        let (usual, odd) = unsafe { (&mut *self.stacks.get(), &mut *self.odd_stacks.get()) };
        let Some(size) = size else { return usual.take() };
        let wanted = StackPool::new(size)?;
        if usual.usable() == wanted.usable() {
            return usual.take();
        }
        let place = odd.iter().position(|pool| pool.usable() == wanted.usable());
        let place = place.unwrap_or_else(|| {
            odd.push(wanted);
            odd.len() - 1
        });
        odd[place].take()
    }

    /// A stack that nothing runs on any more.
    pub(super) fn give_stack(&self, stack: FiberStack) {
        // SAFETY: as in `take_stack`.
        let (usual, odd) = unsafe { (&mut *self.stacks.get(), &mut *self.odd_stacks.get()) };
        match std::iter::once(usual).chain(odd).find(|pool| pool.fits(&stack)) {
            Some(pool) => pool.give(stack),
            None => drop(stack), // To the reserve.
        }
    }

    /// How many threads have started here and have not ended.
    pub(crate) fn alive(&self) -> usize {
        self.alive.get()
    }

    /// A request that has started here is left where it is, for ever.
    pub(crate) fn abandon_request(&self) {
        self.alive.set(self.alive.get() + 1);
    }

    /// How many threads are ready here.
    pub(super) fn ready_len(&self) -> usize {
        self.local.len() + self.shared.stealable()
    }

    #[inline]
    fn arm(&self, now: u64) {
        if let Some(quanta) = self.quanta.get() {
            self.quantum_pick.set(self.picks.get());
            self.safepoint.arm(quanta.mode, now, now + quanta.cycles);
        }
    }

    #[inline]
    fn disarm(&self) {
        if self.quanta.get().is_some() {
            self.safepoint.disarm();
        }
    }

    /// A safepoint of the running thread found that the quantum is over. The quantum is the
    /// kthread's: switches between threads don't begin a new one, so that they need no clock. A
    /// thread that came in meanwhile gets a whole one now.
    pub(crate) fn expired(&self, me: &Tcb) {
        let now = self.safepoint.last_reading().unwrap_or_else(clock::now);
        let same = self.quantum_pick.get() == self.picks.get();
        self.ticks.set(if same { self.ticks.get() + 1 } else { 0 });
        self.arm(now);
        let ticks = self.quanta.get().and_then(|quanta| quanta.of(me.class.get()));
        if ticks.is_none_or(|ticks| self.ticks.get() < ticks) || std::thread::panicking() {
            return;
        }
        self.look_around(now);
        if self.has_threads() {
            self.local.push(me);
            let next = self.next();
            self.quantum_pick.set(self.picks.get());
            self.ticks.set(0);
            self.leave(me, next);
        }
    }

    /// How its threads are pre-empted. Once, before the first runs.
    pub(super) fn set_quanta(&self, quanta: Option<Quanta>) {
        if let Some(quanta) = quanta {
            self.quanta.set(quanta).expect("set once");
        }
    }

    /// Its place in a runtime.
    pub(super) fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("a kthread of a runtime")
    }

    /// Takes threads that have not started from another kthread's queue: how many.
    pub(super) fn steal_from(&self, victim: &Shared, most: usize) -> usize {
        let stolen = victim.fresh.steal(most, |tcb| {
            // SAFETY: what was in the queue has not started, and is ours now.
            self.shared.push_fresh(unsafe { &*tcb });
        });
        match stolen {
            0 => victim.overflow.take(most, |tcb| self.shared.fresh.push(tcb.as_ptr())),
            stolen => stolen,
        }
    }

    /// Whether others may take some of what it has.
    pub(super) fn has_spare_threads(&self) -> bool {
        self.shared.stealable() > 1
    }

    /// Makes ready what has become so: from elsewhere, by time, by a socket.
    pub(crate) fn look_around(&self, now: u64) {
        self.take_in();
        if !self.wheel.is_empty() {
            self.fire(now);
        }
        if let Some(poller) = self.poller.get() {
            poller.look(now);
        }
    }

    /// Ends the waits whose time is over.
    pub(crate) fn fire(&self, now: u64) {
        self.wheel.advance(now, |timer| {
            // SAFETY: a set timer's node is alive: its owner cancels the timer before it goes.
            let node = unsafe { &*timer.what };
            if node.expire() {
                // SAFETY: it blocks here, and its wait was ended by us.
                unsafe { Self::make_ready(node.who().as_tcb()) };
            }
        });
    }

    /// This kthread's poller, made when the first thread waits for a socket.
    ///
    /// # Errors
    /// What the kernel says: no more descriptors.
    pub(crate) fn poller(&self) -> std::io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let poller = Poller::new()?;
        self.shared.parker.set_bell(poller.bell());
        Ok(self.poller.get_or_init(|| poller))
    }

    /// How long nothing becomes ready by time; `most` at most.
    pub(crate) fn time_left(&self, most: Option<Duration>) -> Option<Duration> {
        let due = self.wheel.next_tsc().map(|tsc| Deadline(tsc).left().unwrap_or_default());
        match (due, most) {
            (Some(due), Some(most)) => Some(due.min(most)),
            (due, most) => due.or(most),
        }
    }

    /// Sleeps until something is ready, a timer is due, or `most` has passed, unless `work`, asked
    /// after the announcement, finds some.
    pub(crate) fn rest(&self, work: impl FnOnce() -> bool, most: Option<Duration>) {
        let most = self.time_left(most);
        if most.is_some_and(|most| most.is_zero()) {
            return;
        }
        let work = || self.has_mail() || work();
        match self.poller.get() {
            Some(poller) => self.shared.parker.sleep(work, || poller.wait(most)),
            None => self.shared.parker.sleep(work, || match most {
                Some(most) => std::thread::park_timeout(most),
                None => std::thread::park(),
            }),
        }
    }
}

impl Drop for KThread {
    /// Threads that have not ended are left behind: see [`super::runtime`].
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.safepoint.disarm();
        HERE.set(ptr::null());
        if self.alive.get() > 0 {
            // Their nodes stay in queues, where wakers ask whether this has ended.
            std::mem::forget(self.shared.clone());
        }
    }
}

/// The floating-point control words are a thread's own (the ABI has callees preserve them); others
/// get the ABI's defaults. A safepoint's stub does the same for pre-emptions.
struct ControlWords {
    mxcsr: u32,
    x87: u16,
    own: bool,
}

impl ControlWords {
    const DEFAULT: Self = Self { mxcsr: 0x1f80, x87: 0x37f, own: false };

    #[inline]
    fn put_away() -> Self {
        let (mut mxcsr, mut x87) = (0_u32, 0_u16);
        // SAFETY: stores two control words to our own variables.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr,
                in(reg) &raw mut x87, options(nostack, preserves_flags));
        }
        // The low six bits are sticky status, not control.
        let own = mxcsr & !0x3f != Self::DEFAULT.mxcsr || x87 != Self::DEFAULT.x87;
        if own {
            Self::DEFAULT.load();
        }
        Self { mxcsr, x87, own }
    }

    #[inline]
    fn restore(&self) {
        if self.own {
            self.load();
        }
    }

    #[cold]
    fn load(&self) {
        // SAFETY: loads values that were in these registers before, or the ABI's defaults.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const self.mxcsr,
                in(reg) &raw const self.x87, options(nostack, preserves_flags, readonly));
        }
    }
}
