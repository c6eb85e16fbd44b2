//! The control block of a thread, and of a request: what a switch, a wait and a wake-up need.
//!
//! **Who touches what.** `link` belongs to the queue that holds the block. `home` is written by its
//! kthread when the thread starts there, and read by wakers, who have ended a wait of the thread
//! and so come after that.
//!
//! All other cells are its home's alone: the thread itself, and the kthread while the thread does
//! not run. A waker on another kthread puts it into its home's inbox, and need not know whether it has
//! left the processor yet: its home looks into the inbox only between two threads.
//!
//! **Threads that move** (`moves`): one that is ready and may move lies where other kthreads can take it
//! (`kthread::moving`). Who takes it out of there is its home from then on, and its cells are the new
//! home's.

pub(super) use super::fifo::Fifo;
use super::kthread::Shared;
use super::resumer::Resumer;
use super::task::Task;
use crate::block::{Deadline, Expiry, Node, Queue, Timer, Who};
use crate::cancel::Cancel;
use crate::context::CaseCell;
use curtail_fiber::{Context, FiberStack};
use curtail_ring::Linked;
use std::alloc::Layout;
use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// The control block of a thread, and of a request.
#[repr(C)]
pub struct Tcb {
    /// First, for [`super::suspended`].
    pub(super) context: Context,
    link: AtomicPtr<Tcb>,
    /// Where it has started; null: nowhere yet.
    pub(super) home: AtomicPtr<Shared>,
    /// Who runs it, one task at a time; null: the kthread, from its queues.
    pub(super) resumer: Cell<*const Resumer>,
    pub(crate) class: Cell<u16>,
    /// It runs where nothing else is ready. Written before it is launched.
    pub(super) batch: AtomicBool,
    /// Another kthread may go on with it. Written before it is launched.
    pub(super) moves: Cell<bool>,
    /// The block's thread was switched in by a thread that joins it and waits for nothing else.
    pub(super) joiner: Cell<*const Tcb>,
    /// When the innermost [`crate::time::timeout`] around the caller ends (TSC).
    pub(crate) limit: Cell<Deadline>,
    /// The address that it waits for, from the entry into the table of waits until it runs again; 0:
    /// none.
    pub waits_for: Cell<usize>,
    /// Of a request: whether it is cancelled.
    pub cancel: Cancel,
    /// The node of the wait that it is in, if cancellation ends that; null: none.
    pub(super) waits: Cell<*const Node<Who>>,
    /// The request that it works for, if that was asked for here or where it was spawned.
    pub(crate) case: CaseCell,
    /// In the home's wheel, while it sleeps for a limited time; null: none.
    pub(super) timer: Cell<*const Timer<Expiry>>,
    pub(super) handle: Handle,
    /// What it is a part of, if it gets its stack when it starts.
    pub(super) task: Cell<*const Task>,
}

// SAFETY: `link` is the same cell each time; a block is in one queue at a time.
unsafe impl Linked for Tcb {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

impl Tcb {
    /// A thread's, made in place.
    ///
    /// # Safety
    /// `place` is memory of the caller's that nothing uses.
    #[inline]
    pub(super) unsafe fn make_at(place: *mut Self, class: u16) {
        // SAFETY: by contract; each field is written.
        unsafe {
            (&raw mut (*place).context).write(Context::new());
            (&raw mut (*place).link).write(AtomicPtr::new(ptr::null_mut()));
            (&raw mut (*place).home).write(AtomicPtr::new(ptr::null_mut()));
            (&raw mut (*place).resumer).write(Cell::new(ptr::null()));
            (&raw mut (*place).class).write(Cell::new(class));
            (&raw mut (*place).batch).write(AtomicBool::new(false));
            (&raw mut (*place).moves).write(Cell::new(false));
            (&raw mut (*place).joiner).write(Cell::new(ptr::null()));
            (&raw mut (*place).limit).write(Cell::new(Deadline::NEVER));
            (&raw mut (*place).timer).write(Cell::new(ptr::null()));
            (&raw mut (*place).waits_for).write(Cell::new(0));
            (&raw mut (*place).cancel).write(Cancel::new());
            (&raw mut (*place).waits).write(Cell::new(ptr::null()));
            (&raw mut (*place).case).write(CaseCell::new());
            (&raw mut (*place).handle).write(Handle::default());
            (&raw mut (*place).task).write(Cell::new(ptr::null()));
        }
    }

    /// A thread's, as a value.
    pub(super) fn new() -> Self {
        let mut tcb = MaybeUninit::<Self>::uninit();
        // SAFETY: our own variable, which `make_at` fills in.
        unsafe {
            Self::make_at(tcb.as_mut_ptr(), 0);
            tcb.assume_init()
        }
    }

    /// The thread has ended: as new, for another one on the same stack.
    #[inline]
    pub(super) fn renew(&self) {
        self.context.renew();
        self.home.store(ptr::null_mut(), Ordering::Relaxed);
        self.joiner.set(ptr::null());
        self.limit.set(Deadline::NEVER);
        self.handle.take();
        self.case.clear();
    }

    /// The request has ended.
    #[inline]
    pub(super) fn end_request(&self) {
        self.handle.take();
        self.case.clear();
    }

    /// The request goes on on this kthread, which may be another one than before.
    #[inline]
    pub(super) fn come_to(&self, home: &Arc<Shared>) {
        self.home.store(Arc::as_ptr(home).cast_mut(), Ordering::Relaxed);
    }

    /// A thread's number, for recordings: from its address, so it is used again.
    pub(super) fn number(&self) -> u32 {
        Self::number_at(ptr::from_ref(self).addr())
    }

    pub(super) fn number_at(address: usize) -> u32 {
        (address >> 6) as u32
    }

    /// The task, if a resumer runs it.
    #[inline]
    pub(crate) fn resumed(&self) -> Option<&Task> {
        if self.resumer.get().is_null() { None } else { self.task() }
    }

    /// Whether it is a thread's, and no task's of a server.
    #[inline]
    pub(crate) fn is_thread(&self) -> bool {
        self.task.get().is_null()
    }

    /// Whether it runs only where nothing else is ready.
    #[inline]
    pub(super) fn is_batch(&self) -> bool {
        self.batch.load(Ordering::Relaxed)
    }

    /// It is one, or none, when it is put into a queue the next time.
    #[inline]
    pub(super) fn set_batch(&self, batch: bool) {
        self.batch.store(batch, Ordering::Relaxed);
    }

    /// The thread's identity, for others.
    pub(super) fn identity(&self) -> Arc<super::park::Inner> {
        self.handle.get(|| super::park::Inner::new(self.name()))
    }

    fn name(&self) -> Option<Arc<str>> {
        if !self.is_thread() {
            return None;
        }
        // SAFETY: any other thread's control block is the first field of its block.
        unsafe { (*ptr::from_ref(self).cast::<Block>()).name.clone() }
    }

    /// The name of the thread that runs here, for the message of an overflow.
    pub(super) fn name_running(tell: &mut dyn FnMut(&str)) {
        if let Some(tcb) = super::KThread::current_tcb().filter(|tcb| tcb.is_thread()) {
            // SAFETY: as in `name`; it runs, below us.
            let block = unsafe { &*ptr::from_ref(tcb).cast::<Block>() };
            if let Some(name) = &block.name {
                tell(name);
            }
        }
    }

    /// Whether it has started.
    #[inline]
    pub(super) fn has_started(&self) -> bool {
        !self.home.load(Ordering::Relaxed).is_null()
    }

    /// Whether it is at home on that kthread.
    pub(crate) fn is_at(&self, home: &Arc<Shared>) -> bool {
        ptr::eq(self.home.load(Ordering::Relaxed), Arc::as_ptr(home))
    }

    /// Its kthread has ended without it: it will never run again.
    pub(crate) fn is_abandoned(&self) -> bool {
        // SAFETY: not null since it started; a kthread that leaves threads behind leaks its shared
        // part, and one that has not ended is alive.
        unsafe { self.home.load(Ordering::Relaxed).as_ref() }.is_some_and(Shared::has_ended)
    }

    /// What it is a part of, if it gets its stack when it starts.
    #[inline]
    pub(crate) fn task(&self) -> Option<&Task> {
        // SAFETY: null, or that of which this is the first field.
        unsafe { self.task.get().as_ref() }
    }

    #[inline]
    pub(super) fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut Self {
        ptr::from_ref(self).cast_mut()
    }
}

/// What a [`super::Thread`] refers to: made when it is first asked for.
#[derive(Default)]
pub(super) struct Handle(AtomicPtr<super::park::Inner>);

impl Handle {
    /// The thread's identity for others.
    pub(super) fn get(
        &self,
        make: impl FnOnce() -> Arc<super::park::Inner>,
    ) -> Arc<super::park::Inner> {
        let mut found = self.0.load(Ordering::Acquire);
        if found.is_null() {
            let made = Arc::into_raw(make()).cast_mut();
            match self.0.compare_exchange(
                ptr::null_mut(),
                made,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => found = made,
                Err(other) => {
                    // SAFETY: made above, and never published: this thread alone has the pointer.
                    drop(unsafe { Arc::from_raw(made) });
                    found = other;
                }
            }
        }
        // SAFETY: the block holds one count until `take`, which comes after every `get`.
        unsafe {
            Arc::increment_strong_count(found);
            Arc::from_raw(found)
        }
    }

    /// Gives the block's own count up.
    pub(super) fn take(&self) {
        // It is not asked for any more: the caller is the last that refers to the block.
        let found = self.0.load(Ordering::Acquire);
        if !found.is_null() {
            self.0.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: the count that `get` left here.
            drop(unsafe { Arc::from_raw(found) });
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.take();
    }
}

/// How far a thread is: for those who join it.
pub(super) const RUNNING: u32 = 0;
pub(super) const DETACHED: u32 = 1;
/// Its result is there, its stack still in use.
pub(super) const LEAVING: u32 = 2;
pub(super) const DONE: u32 = 3;

/// What is done with a packet.
pub(super) struct Calls {
    /// Runs the closure, and leaves the result in its place.
    pub run: unsafe fn(*mut ()),
    /// Drops the result.
    pub discard: unsafe fn(*mut ()),
}

/// A spawned thread: its control block, at the top of its own stack. Below it lies the packet: the
/// closure, and in its place the result.
#[repr(C)]
pub(super) struct Block {
    pub tcb: Tcb,
    pub stack: ManuallyDrop<FiberStack>,
    pub calls: Cell<&'static Calls>,
    pub packet: Cell<*mut ()>,
    /// The packet lies on the heap, by this layout.
    pub heap: Cell<Option<Layout>>,
    pub name: Option<Arc<str>>,
    /// Where the name's bytes lie, and how many there are, for [`super::suspended`].
    pub named: [usize; 2],
    /// Changes under the lock of `joiners`; [`DONE`] once the stack is no longer used.
    pub progress: AtomicU32,
    pub joiners: Queue,
}

impl Block {
    /// It has no name and no class, and nothing of it is on the heap.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.name.is_none() && self.tcb.class.get() == 0
    }
}
