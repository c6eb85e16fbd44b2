//! Fences of which one side is dear and the other free.
//!
//! Two threads that each write a word and read the other's need a fence between the two on both sides.
//! Where one side does that all the time and the other rarely, the rare one makes all running
//! threads of the process execute a fence, by the system call `membarrier`; the frequent one then
//! only keeps the compiler from moving things. Where the system refuses that, both execute one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// The frequent side executes a fence: until it is known that it need not.
static BOTH: AtomicBool = AtomicBool::new(true);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: a system call that touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether the system makes other threads execute fences. Registers the process for it.
fn has_membarrier() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    })
}

/// From now on [`frequent`] is as cheap as it can be.
pub fn prepare() {
    BOTH.store(!has_membarrier(), Ordering::Relaxed);
}

/// On the frequent side, between the store and the load.
#[inline]
pub fn frequent() {
    if BOTH.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    }
    compiler_fence(Ordering::SeqCst);
}

/// On the rare side.
pub fn rare() {
    fence(Ordering::SeqCst);
    if has_membarrier() {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
}
