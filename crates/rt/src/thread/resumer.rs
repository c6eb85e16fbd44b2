//! Who runs tasks one at a time and waits meanwhile: a worker's engine its requests, and a loop that takes
//! requests in the calls of the application's that may wait.
//!
//! A thread leaves the processor for whichever is next (`kthread::switch`). A task that a resumer runs
//! leaves it for the resumer, which learns why; woken, it lies in the resumer's queue. Resumers nest: a
//! task may be one.
//!
//! **Who touches it.** One kthread. A task that is suspended may be another resumer's next, on another
//! kthread ([`Resumer::adopt`]), if its thread-locals go with it.

use super::kthread::{KThread, Shared};
use super::task::Task;
use super::tcb::{Fifo, Tcb};
use crate::wait;
use curtail_fiber::{Context, FiberStack, Label, switch_back, switch_back_for_good, switch_in};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// A runner of tasks, one at a time, that waits meanwhile. Of one address, and all cells: its tasks
/// refer to it.
pub struct Resumer {
    /// Where it waits.
    back: Context,
    /// Those of its tasks that were woken.
    woken: Fifo,
}

/// Why a task left the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has ended: its stack is free.
    Ended,
    /// A safepoint found that its time was over.
    Preempted,
    /// It asked to let others run.
    Yielded,
    /// It waits for something: it is woken when that has come.
    Blocked,
}

impl Default for Resumer {
    fn default() -> Self {
        Self { back: Context::new(), woken: Fifo::new() }
    }
}

impl Resumer {
    /// Makes a task one that can be run: on the stack that it has had before, or on the one that it is
    /// given.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Safety
    /// [`Task::renew`] was called, and it has not run since.
    #[inline]
    pub unsafe fn begin<E>(
        &self,
        task: &Task,
        stack: impl FnOnce() -> Result<FiberStack, E>,
        label: Label,
    ) -> Result<(), E> {
        if !task.prepare_again(label, main) {
            task.prepare(stack()?, label, main);
        }
        Ok(())
    }

    /// The task is this one's from now on, which runs on that kthread, the caller's.
    ///
    /// # Safety
    /// It does not run, is in no queue, and waits for nothing. It ends before the resumer does, or never
    /// runs again.
    #[inline]
    pub unsafe fn adopt(&self, task: &Task, home: &Arc<Shared>) {
        let tcb = task.tcb();
        tcb.resumer.set(self);
        tcb.come_to(home);
    }

    /// Runs a task of its own that has a stack, until it leaves the processor: why.
    ///
    /// # Safety
    /// The caller is the kthread for which it was adopted last. All that the task refers to is there.
    #[inline]
    pub unsafe fn run(&self, here: &KThread, task: &Task) -> Left {
        let tcb = task.tcb();
        debug_assert!(ptr::eq(tcb.resumer.get(), self));
        self.back.stands_for_caller();
        here.set_current(tcb);
        // SAFETY: `back` becomes the context of this stack, which waits here. The task is suspended, or
        // was prepared, and is this kthread's.
        unsafe { switch_in(&raw const self.back, &raw const tcb.context) };
        here.set_current(ptr::null());
        task.why.get()
    }

    /// A task of its own that was woken.
    #[inline]
    pub fn pop_woken(&self) -> Option<&'static Task> {
        self.woken.pop().and_then(Tcb::task)
    }

    /// Whether there is one.
    #[inline]
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    #[inline(always)]
    fn back_context(&self) -> *const Context {
        &raw const self.back
    }

    /// A task of its own is ready. By its kthread.
    #[inline]
    pub(super) fn push_woken(&self, tcb: &Tcb) {
        self.woken.push(tcb);
    }

    /// Those of its tasks have begun and will not run again. By their kthread, `here`.
    ///
    /// They take no wake-up from others, and one that they have had already and did nothing with goes to
    /// the next waiter. What they wait for refers to them, so they stay where they are.
    pub fn leave_behind<'a>(
        self: &Rc<Self>,
        here: &KThread,
        tasks: impl ExactSizeIterator<Item = &'a Task>,
    ) {
        if tasks.len() == 0 {
            return;
        }
        // Whoever wakes one of them before the kthread has ended finds it.
        std::mem::forget(self.clone());
        let unlinked =
            wait::forget(&here.shared, |tcb| ptr::eq(tcb.resumer.get(), &raw const **self));
        for tcb in tasks.map(Task::tcb) {
            let waited = tcb.waits_for.get();
            if waited != 0 && !unlinked.contains(&ptr::from_ref(tcb)) {
                wait::wake_one(waited);
            }
            here.abandon_request();
        }
    }
}

/// The first function on such a task's stack.
unsafe extern "C" fn main(task: *mut ()) -> ! {
    // SAFETY: `begin` passed it; it stays until its end is known.
    let task = unsafe { &*task.cast::<Task>() };
    task.run();
    task.why.set(Left::Ended);
    // SAFETY: this stack's context, never resumed again; its resumer waits.
    unsafe {
        let back = (*task.tcb().resumer.get()).back_context();
        switch_back_for_good(&raw const task.tcb().context, back)
    }
}

/// The task that calls, `me`, leaves the processor for its resumer; returns when that runs it again,
/// possibly on another kthread: nothing that was formed of thread-locals before is good after it. Blocked,
/// it must not be pre-empted (hold a critical section), so that it is not ready and waiting at once.
#[inline(always)]
pub(super) fn suspend(me: &Task, why: Left) {
    me.why.set(why);
    let tcb = me.tcb();
    // SAFETY: `me` calls, on its stack; its resumer waits. No thread-local is touched after the switch.
    unsafe {
        let back = (*tcb.resumer.get()).back_context();
        switch_back(&raw const tcb.context, back);
    }
}

/// A safepoint of what runs here, `me`, found that its quantum is over.
#[inline]
pub(crate) fn preempted(here: &KThread, me: &Tcb) {
    match me.resumed() {
        None => here.expired(me),
        Some(task) if task.expired() => suspend(task, Left::Preempted),
        Some(_) => {}
    }
}
