//! A kthread: the kernel's thread that runs threads, and on a server's worker requests as well.
//!
//! **Who touches it.** Its own kernel thread, through [`KThread::here`]; others reach [`Shared`]
//! alone. All fields are cells, so that a thread which blocks, the kthread's own loop and the hook of
//! the safepoints may each hold a reference to it.
//!
//! **Two ways to the next thread.** A thread that blocks, yields or ends switches to the next one
//! directly, for a round of up to [`DIRECT`]; then, or where none is ready, it switches to `base`, the
//! kthread's own stack, whose loop looks into the inbox, at timers and sockets, steals, and sleeps.
//!
//! **Ready threads** lie in two queues: `local`, of those that have started here and stay here, and
//! `fresh`, of those that others may take: threads that have not started, and those that move
//! (`moving`). Both are first in, first out; where both have some, they take turns. Batch threads have
//! queues of their own (`batch`).

mod batch;
mod budget;
mod cancelled;
mod gaps;
mod look;
pub(super) mod moving;
mod progress;
mod quanta;
mod queues;
mod shared;
#[cfg(all(test, curtail_virtual_time))]
mod simulation;
mod stacks;
mod switch;

use super::elastic::AllocatorClient;
use super::grace::TaskSettings;
use super::scheduler::KthreadScheduler;
use super::serving::RunQueue;
use super::task::Task;
use super::tcb::{Block, Fifo, Tcb};
use crate::block::{Expiry, Wheel};
use crate::clock::{self, Clock};
use crate::signal::Owner as Signals;
use crate::socket::Poller;
use crate::socket::uring::IoPlan;
use crate::timeline::{self, EventKind};
use batch::Batch;
pub use cancelled::InProgress;
use curtail_fiber::safepoint::{self, Safepoint};
use curtail_fiber::{Context, StackError};
pub use gaps::GapCounts;
use gaps::Gaps;
pub use quanta::Quanta;
pub use shared::Shared;
use stacks::Stacks;
use std::cell::{Cell, OnceCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Switches from thread to thread, at most, before the kthread's own loop looks around: a round.
const DIRECT: u32 = 63;
/// A round is to be no longer than that.
const ROUND_NS: u64 = 20_000;

/// A kthread: the kernel's thread that runs threads and requests.
pub struct KThread {
    pub shared: Arc<Shared>,
    /// What runs here; null: the kthread's own loop.
    current: Cell<*const Tcb>,
    base: Context,
    safepoint: Safepoint,
    pub(super) local: Fifo,
    pub(super) batch: Batch,
    /// Threads of requests in progress here: a list.
    in_progress: Cell<*const Task>,
    /// Their deadlines; made for the first.
    deadlines: OnceCell<Wheel<*const Tcb>>,
    /// A notice has come and was not attended to.
    noticed: Cell<bool>,
    /// A thread that has ended and whose stack was still in use until the next one came in.
    ended: Cell<*const Tcb>,
    /// Switches left in this round, and how many a round has.
    direct: Cell<u32>,
    round: Cell<u32>,
    round_cycles: u64,
    fresh_turn: Cell<bool>,
    /// There were other kthreads when this round began, which may take threads from here.
    shares: Cell<bool>,
    /// `picks` when the present quantum began.
    quantum_pick: Cell<u32>,
    /// Ticks that the same thread has had, one after the other.
    ticks: Cell<u32>,
    gaps: Gaps,
    quanta: OnceCell<Quanta>,
    /// Where signals end them.
    signals: OnceCell<Signals>,
    pub(crate) wheel: Wheel<Expiry>,
    /// Blocks of threads that have ended, for new ones: linked, and how many.
    warm: Cell<*const Block>,
    warm_count: Cell<u32>,
    stacks: Stacks,
    /// Requests that a dispatcher sends; none: there is no such dispatcher.
    pub run_queue: Cell<Option<RunQueue>>,
    /// What serves here without one: see `server::threads::context`.
    pub post: Cell<*const ()>,
    /// What is recorded of it.
    pub(crate) timeline: timeline::OfKthread,
    /// As a reader: see `crate::sync::rcu`.
    pub(crate) rcu: crate::sync::rcu::OfKthread,
    poller: OnceCell<Poller>,
    /// Made at the start, while there are descriptors, for the first thread that waits for a socket.
    spare_poller: Cell<Option<Poller>>,
    /// How it asks the kernel.
    pub(super) io: Cell<IoPlan>,
    budget: budget::Budget,
    pub(super) scheduler: Option<KthreadScheduler>,
    /// Under a core allocator.
    pub(super) client: Option<AllocatorClient>,
}

impl KThread {
    /// This kernel thread's, from now on and until it is dropped. `scheduler`: its place among the
    /// kthreads of a runtime.
    pub fn new(
        shared: Arc<Shared>,
        tasks: TaskSettings,
        scheduler: Option<KthreadScheduler>,
        client: Option<AllocatorClient>,
    ) -> Result<Box<Self>, StackError> {
        assert!(safepoint::kthread().is_null(), "this thread is a kthread already");
        curtail_fiber::prepare_thread();
        curtail_fiber::name_threads_by(Tcb::name_running);
        let kthread = Box::new(Self {
            shared,
            current: Cell::new(ptr::null()),
            base: Context::new(),
            safepoint: Safepoint::this_thread(),
            local: Fifo::new(),
            batch: Batch::new(),
            in_progress: Cell::new(ptr::null()),
            deadlines: OnceCell::new(),
            noticed: Cell::new(false),
            ended: Cell::new(ptr::null()),
            direct: Cell::new(0),
            round: Cell::new(DIRECT),
            round_cycles: Clock::get().cycles(ROUND_NS),
            fresh_turn: Cell::new(false),
            shares: Cell::new(false),
            quantum_pick: Cell::new(0),
            ticks: Cell::new(0),
            gaps: Gaps::new(),
            quanta: OnceCell::new(),
            signals: OnceCell::new(),
            wheel: Wheel::new(clock::now()),
            warm: Cell::new(ptr::null()),
            warm_count: Cell::new(0),
            stacks: Stacks::new(tasks.stack_size, tasks.locals)?,
            run_queue: Cell::new(None),
            post: Cell::new(ptr::null()),
            timeline: timeline::OfKthread::default(),
            rcu: crate::sync::rcu::OfKthread::default(),
            poller: OnceCell::new(),
            spare_poller: Cell::new(Poller::new().ok()),
            io: Cell::default(),
            budget: budget::Budget::default(),
            scheduler,
            client,
        });
        kthread.shared.set_lives(true);
        tasks.grace.apply();
        safepoint::set_kthread((&raw const *kthread).cast());
        crate::hook::hook_safepoints();
        Ok(kthread)
    }

    /// This kernel thread's, if it is one.
    #[inline]
    pub fn try_here() -> Option<&'static Self> {
        // SAFETY: set while the kthread is alive, by `new` or by the switch to what runs. What borrows it
        // does not outlive the call that asked for it.
        unsafe { safepoint::kthread().cast::<Self>().as_ref() }
    }

    /// This kernel thread's.
    #[inline]
    pub fn here() -> &'static Self {
        Self::try_here().expect("not on a kthread")
    }

    /// The thread or request that calls; `None`: a plain thread, or a kthread's own loop.
    #[inline]
    pub fn current_tcb() -> Option<&'static Tcb> {
        // SAFETY: what runs is alive.
        Self::try_here().and_then(|here| unsafe { here.current.get().as_ref() })
    }

    /// Whether what runs here has thread-locals of its own.
    #[inline]
    pub fn has_own_locals() -> bool {
        let context = curtail_fiber::current();
        // SAFETY: that of what runs, which is alive.
        unsafe { context.as_ref() }.is_some_and(curtail_fiber::Context::has_own_locals)
    }

    /// In the child of a fork: it has one thread, and goes on with that alone.
    pub(crate) fn forget_here() {
        if let Some(client) = Self::try_here().and_then(|here| here.client.as_ref()) {
            client.run_anywhere();
        }
        safepoint::set_kthread(ptr::null());
    }

    /// Calls `f` as if nothing of Curtail's ran here: what waits in it waits in the kernel, and
    /// nothing is pre-empted.
    pub(crate) fn as_plain_thread(&self, f: impl FnOnce()) {
        let current = self.current.replace(ptr::null());
        f();
        self.current.set(current);
    }

    /// That runs here from now on; null: nothing does, as far as waiting goes.
    #[inline]
    pub fn set_current(&self, tcb: *const Tcb) {
        self.current.set(tcb);
    }

    /// Makes a thread or request ready whose wait the caller has ended.
    ///
    /// # Safety
    /// It is blocked (or about to leave the processor), and no other call makes it ready.
    #[inline]
    pub(crate) unsafe fn make_ready(tcb: *const Tcb) {
        // SAFETY: alive, since it has not ended; its home is too.
        let (tcb, home) = unsafe { (&*tcb, (*tcb).home.load(Ordering::Relaxed)) };
        match Self::try_here() {
            Some(here) if ptr::eq(Arc::as_ptr(&here.shared), home) => here.ready(tcb),
            here => {
                // SAFETY: a thread's home is what an `Arc` points to, and is alive here; it is counted
                // once more, since it may end as soon as it has the thread.
                let home = unsafe {
                    Arc::increment_strong_count(home);
                    Arc::from_raw(home)
                };
                // SAFETY: by contract, the thread is in no queue; alive until it has run.
                unsafe { moving::wake(here, tcb, &home) };
            }
        }
    }

    /// It is ready, and has started here.
    #[inline]
    fn ready(&self, tcb: &Tcb) {
        let timer = tcb.timer.get();
        if !timer.is_null() {
            // Here and now: a request may go on on another kthread.
            tcb.timer.set(ptr::null());
            // SAFETY: on the stack of `tcb`, which has not run since it set it.
            self.wheel.cancel(unsafe { &*timer });
        }
        // SAFETY: a task's resumer is alive while the task can be woken.
        if let Some(resumer) = unsafe { tcb.resumer.get().as_ref() } {
            resumer.push_woken(tcb);
            return self.batch.note_own(&self.shared);
        }
        if self.shared.take_notice(tcb) {
            return self.noticed.set(true);
        }
        if timeline::is_on() {
            let (job, class) = (tcb.number(), tcb.class.get());
            timeline::note(EventKind::Woken, (clock::now(), 0), job, class);
        }
        self.push_started(tcb);
    }

    /// A thread that has started here is ready.
    #[inline(always)]
    fn push_started(&self, tcb: &Tcb) {
        match tcb.is_batch() {
            false => {
                if !self.shares.get() || !moving::offer(self, tcb) {
                    self.local.push(tcb);
                }
                self.batch.note_own(&self.shared);
            }
            true => self.batch.push(tcb),
        }
    }

    /// Takes what others made ready.
    #[inline]
    pub(crate) fn drain_inbox(&self) {
        let mut count = 0;
        self.shared.inbox.drain(|tcb| {
            count += 1;
            // SAFETY: what is in the inbox has not ended.
            self.ready(unsafe { &*tcb });
        });
        if count > 0
            && let Some(line) = &self.shared.line
        {
            line.count_taken_in(count);
        }
        // SAFETY: as above.
        self.shared.batch.take_mail(|tcb| self.ready(unsafe { &*tcb }));
    }

    /// Whether others made something ready that was not taken in.
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.shared.inbox.is_empty()
    }

    /// Whether others made something ready that was not taken in, batch threads included.
    #[inline]
    pub(in crate::thread) fn has_any_mail(&self) -> bool {
        self.has_mail() || self.shared.batch.has_mail()
    }

    /// Its side of a core allocator.
    #[inline]
    pub fn client(&self) -> Option<&AllocatorClient> {
        self.client.as_ref()
    }

    /// Whether a thread is ready here.
    #[inline]
    pub fn has_threads(&self) -> bool {
        !self.local.is_empty() || self.shared.stealable() > 0
    }
}

impl Drop for KThread {
    /// Threads that have not ended are left behind: see [`super::runtime`].
    fn drop(&mut self) {
        while let Some(block) = self.take_warm() {
            // SAFETY: it is this kthread's, and its thread has ended.
            unsafe { super::spawn::free_cold(block, Some(self)) };
        }
        self.shared.set_lives(false);
        self.safepoint.disarm();
        safepoint::set_kthread(ptr::null());
        if self.shared.alive() + self.shared.abandoned() > 0 {
            // Their nodes stay in queues, where wakers ask whether this has ended.
            std::mem::forget(self.shared.clone());
        }
    }
}
