//! The result of a thread: waiting for it, taking it, giving it up.
//!
//! A handle is the right to take the result, and the duty to give the thread's memory back.

use super::kthread::KThread;
use super::park::Thread;
use super::spawn::{free, free_packet};
use super::tcb::{Block, DETACHED, DONE, RUNNING};
use crate::block::{self, Place, Wait};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A spawned thread's result, to come. As [`std::thread::JoinHandle`].
#[derive(Debug)]
pub struct JoinHandle<T> {
    block: NonNull<Block>,
    result: PhantomData<T>,
}

// SAFETY: a handle is the right to take the result, which may move between threads; the block's
// shared fields are atomics, or under the lock of `joiners`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above: by reference it only looks at atomics.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(super) fn of(block: NonNull<Block>) -> Self {
        Self { block, result: PhantomData }
    }

    pub(super) fn block(&self) -> &Block {
        // SAFETY: it lives until its handle has freed it, or was dropped.
        unsafe { self.block.as_ref() }
    }

    /// Waits for the thread to end. A plain thread may wait, too.
    ///
    /// # Errors
    /// The thread's panic.
    pub fn join(self) -> std::thread::Result<T> {
        wait_for_end(self.block());
        let this = ManuallyDrop::new(self);
        // SAFETY: it has ended, so the packet holds its result; this handle alone takes that.
        unsafe {
            let block = this.block.as_ptr();
            let result = take_result::<T>(&*block);
            free(block);
            result
        }
    }

    /// Whether it has ended, so that [`JoinHandle::join`] does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.block().progress.load(Ordering::Acquire) == DONE
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> Thread {
        Thread::of(self.block().tcb.identity())
    }
}

/// # Safety
/// The packet holds a result of this type, and no other call takes it.
unsafe fn take_result<T>(block: &Block) -> std::thread::Result<T> {
    let packet: *mut std::thread::Result<T> = block.packet.get().cast();
    // SAFETY: by contract.
    let result = unsafe { packet.read() };
    free_packet(block);
    result
}

impl<T> Drop for JoinHandle<T> {
    /// The thread goes on by itself.
    fn drop(&mut self) {
        if detach(self.block()) {
            return;
        }
        // SAFETY: it has ended, and this handle was the only one.
        unsafe {
            drop(take_result::<T>(self.block()));
            free(self.block.as_ptr());
        }
    }
}

/// Leaves a thread to itself; false: it has ended already.
fn detach(block: &Block) -> bool {
    let mut running = false;
    block::with_queue(&block.joiners, |_| {
        running = block.progress.load(Ordering::Relaxed) == RUNNING;
        if running {
            block.progress.store(DETACHED, Ordering::Relaxed);
        }
        None
    });
    if !running {
        // It may be on its way off its stack.
        let still = || block.progress.load(Ordering::Acquire) != DONE;
        while still() {
            match block::may_wait() {
                true => _ = block::wait_at(&block.joiners, Place::Last, 0, None, still, || {}),
                // A panic goes on through a read of RCU. The end is a few instructions away, on
                // another kthread.
                false => std::hint::spin_loop(),
            }
        }
    }
    running
}

/// Waits until the end of a thread has been published, or runs it here and now if it is next.
fn wait_for_end(block: &Block) {
    if let Some(here) = KThread::try_here()
        && let Some(me) = KThread::current_tcb()
        && here.can_run_child(me, block)
    {
        here.run_child(me, block);
        return;
    }
    let still = || block.progress.load(Ordering::Acquire) != DONE;
    if block::wait_in(&block.joiners, 0, None, still, || {}) == Wait::Expired {
        block::end_by_limit();
    }
}
