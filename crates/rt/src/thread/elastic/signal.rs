//! The second rung of an eviction: a signal ([`curtail_shm::kthreads::EVICT_SIGNAL`]).
//!
//! Its handler makes the thread that it interrupts yield at its next safepoint, where the kthread
//! looks at its word. In a loop that keeps its budget in a register, that write may be lost; then the
//! end of the heartbeat comes first, or the daemon's next rung.

use curtail_fiber::safepoint::Safepoint;
use curtail_shm::kthreads::EVICT_SIGNAL;
use std::sync::Once;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::elastic::signal";

extern "C" fn on_signal(_: i32) {
    // Two stores to the calling thread's own block, and nothing else.
    Safepoint::this_thread().ask_from_handler();
}

/// Installs the handler, unless the program has one of its own: then evictions by signal do nothing.
pub(super) fn handle() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zeroes are a valid `sigaction`: no flags, the default handler, an empty mask.
        let (mut before, mut ours): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_RESTART;
        // SAFETY: both live during the calls; the handler is safe at any moment.
        unsafe {
            libc::sigaction(EVICT_SIGNAL, std::ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(EVICT_SIGNAL, &raw const ours, std::ptr::null_mut());
            } else {
                tracing::warn!(target: LOG, "the program handles SIGURG: no eviction by signal");
            }
        }
    });
}
