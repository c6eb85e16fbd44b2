//! System calls as they are, and their answers in C's words.

use crate::descriptors::Ended;
use curtail_rt::kernel::kernel;
use libc::{c_int, c_long};
use std::ptr;

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

/// An answer, where it is one; `None`: the call would wait.
pub(crate) fn unless_waiting(answer: c_long) -> Option<c_long> {
    (answer >= 0 || errno() != libc::EAGAIN).then_some(answer)
}

/// Whether `fd` is ready for `events` now.
pub(crate) fn is_ready(fd: c_int, events: i16) -> bool {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [&raw mut poll as c_long, 1, &raw const now as c_long, 0, 8, 0];
    // SAFETY: our own words.
    unsafe { kernel(libc::SYS_ppoll, arguments) > 0 }
}

/// An answer to the program. `in_kernel`: the call as it is, where only the kthread can wait.
pub(crate) fn conclude(
    result: Result<c_long, Ended>,
    in_kernel: impl FnOnce() -> c_long,
) -> c_long {
    match result {
        Ok(answer) => answer,
        Err(Ended::InKernel) => in_kernel(),
        Err(Ended::Interrupted) => {
            set_errno(libc::EINTR);
            -1
        }
        Err(Ended::Time | Ended::Nonblocking) => {
            set_errno(libc::EAGAIN);
            -1
        }
    }
}

/// A pointer as an argument of a system call.
pub(crate) fn word<T: ?Sized>(pointer: *const T) -> c_long {
    pointer.cast::<()>().expose_provenance() as c_long
}

/// The buffers of a vector that are left after so many bytes of it.
pub(crate) fn skip(buffers: &[libc::iovec], mut bytes: usize) -> Vec<libc::iovec> {
    let mut left = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let taken = bytes.min(buffer.iov_len);
        bytes -= taken;
        if taken < buffer.iov_len {
            let base = buffer.iov_base.wrapping_byte_add(taken);
            left.push(libc::iovec { iov_base: base, iov_len: buffer.iov_len - taken });
        }
    }
    left
}

/// The caller's buffers.
///
/// # Safety
/// So many lie there.
pub(crate) unsafe fn buffers<'a>(first: *const libc::iovec, count: c_int) -> &'a [libc::iovec] {
    let first = if count <= 0 { ptr::NonNull::dangling().as_ptr() } else { first.cast_mut() };
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(first, usize::try_from(count).unwrap_or(0)) }
}
