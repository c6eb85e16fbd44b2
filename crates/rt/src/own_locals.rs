//! Thread-local variables of a thread's or request's own: whether there are any here.

use curtail_fiber::image;

/// Whether threads and requests have thread-local variables of their own in this process.
///
/// # Errors
/// Why not (the C library is not glibc, for example). Then they share their kthread's, and nothing is
/// pre-empted.
pub fn own_thread_locals() -> Result<(), &'static str> {
    image::support()
}

/// Whether a switch between own thread-locals is an instruction here, and not a system call: Linux 5.9, on a
/// processor with FSGSBASE.
#[must_use]
pub fn switches_by_instruction() -> bool {
    image::is_quick()
}
