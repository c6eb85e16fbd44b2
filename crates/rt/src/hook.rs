//! What safepoints call when a quantum is over, on the stack that they interrupt; and what becomes of it
//! in a fork's child.

use crate::thread::{KThread, preempted};
use curtail_fiber::safepoint::{Block, Safepoint};
use std::sync::Once;

#[cfg(not(test))]
unsafe extern "Rust" {
    /// Of `curtail-libc`, which uses this crate: readies the functions of C that it interposes, for this
    /// kthread.
    safe fn curtail_libc_prepare_kthread();
}

/// This crate's own tests do without.
#[cfg(test)]
fn curtail_libc_prepare_kthread() {}

/// Of a fork's child, which has the thread that forked, in the middle of a job, and no other: nothing
/// yields or waits on fibers there, or it would go on with this thread's other jobs, which are its
/// parent's.
fn keep_to_one_job_in_children() {
    extern "C" fn in_child() {
        crate::forked::note_child();
        // SAFETY: this handler runs on the one thread that the child has, before anything else.
        unsafe {
            crate::blocking::begin_anew();
            crate::wait::begin_anew();
        }
        // The block of a kthread's safepoints may lie in such memory.
        Safepoint::this_thread().keep_block(curtail_shm::leave_to_parent);
        if KThread::try_here().is_some() {
            KThread::forget_here();
            // SAFETY: as above; nothing is switched to.
            unsafe { curtail_fiber::image::leave_kthreads_locals() };
            Safepoint::this_thread().set_hook(None);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler touches the calling thread's own words, and makes system calls.
        let error = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(error, 0, "no memory for a handler of forks");
    });
}

/// Has this thread's safepoints call [`on_safepoint`].
pub(crate) fn hook_safepoints() {
    curtail_libc_prepare_kthread();
    Safepoint::this_thread().set_hook(Some(on_safepoint));
    keep_to_one_job_in_children();
    crate::panics::install();
}

/// Called by a safepoint of this thread when its time is over, on the interrupted stack.
pub(crate) unsafe extern "C" fn on_safepoint(_: *mut Block) {
    let Some(tcb) = KThread::current_tcb() else { return };
    // Between a failed call and a look at why it failed, others may run.
    let errno = errno();
    preempted(KThread::here(), tcb);
    set_errno(errno);
}

#[inline(never)]
fn errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Of whatever thread calls: after a suspension that may be another one.
#[inline(never)]
fn set_errno(errno: i32) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}
