//! `read`, `write` and their kin: what would wait in the kernel waits as a thread.
//!
//! The mode of a descriptor stays the program's. A socket is asked by `MSG_DONTWAIT`; a pipe, or what else
//! can't be asked so, by `RWF_NOWAIT`, or after a look whether it is ready.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{buffers, conclude, is_ready, skip, unless_waiting, word};
use crate::descriptors::{self, Class, Entry, Patience, entry};
use crate::pause::{can_wait, take_turns};
use crate::socket::limit;
use curtail_libc::real;
use curtail_rt::kernel::{fail, kernel};
use curtail_rt::socket::Side;
use libc::{c_int, c_long, c_void, iovec, size_t, ssize_t};

type Read = unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t;
type Write = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
type Vector = unsafe extern "C" fn(c_int, *const iovec, c_int) -> ssize_t;

/// Bytes for which a pipe that is ready has room.
const PIECE: usize = 4_096;
const RWF_NOWAIT: c_long = 8;
/// Of `preadv2`: the file's own place.
const IN_TURN: c_long = -1;

/// What the caller may wait for; `None`: the kernel answers without waiting, or the kthread is to.
fn waits(fd: c_int) -> Option<(&'static Entry, Class)> {
    take_turns();
    if !can_wait() {
        return None;
    }
    let entry = entry(fd)?;
    Some((entry, entry.may_wait(fd)?))
}

/// One read into those buffers, without waiting.
///
/// # Safety
/// The caller's buffers.
unsafe fn read_now(fd: c_int, entry: &Entry, class: Class, to: &[iovec]) -> Option<c_long> {
    let (first, count) = (word(to.as_ptr()), to.len() as c_long);
    // SAFETY: by contract.
    unsafe {
        if class == Class::Socket {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = to.as_ptr().cast_mut();
            message.msg_iovlen = to.len();
            let flags = libc::MSG_DONTWAIT.into();
            let answer = match to {
                [one] => kernel(
                    libc::SYS_recvfrom,
                    [fd.into(), word(one.iov_base), one.iov_len as c_long, flags, 0, 0],
                ),
                _ => {
                    kernel(libc::SYS_recvmsg, [fd.into(), word(&raw const message), flags, 0, 0, 0])
                }
            };
            return unless_waiting(answer);
        }
        if entry.has_nowait() {
            let arguments = [fd.into(), first, count, IN_TURN, IN_TURN, RWF_NOWAIT];
            let answer = kernel(libc::SYS_preadv2, arguments);
            if answer >= 0 || crate::call::errno() != libc::EOPNOTSUPP {
                return unless_waiting(answer);
            }
            entry.note_no_nowait();
        }
        is_ready(fd, libc::POLLIN)
            .then(|| kernel(libc::SYS_readv, [fd.into(), first, count, 0, 0, 0]))
    }
}

/// # Safety
/// The caller's buffers.
unsafe fn read_into(fd: c_int, (entry, class): (&Entry, Class), to: &[iovec]) -> c_long {
    let mut class = class;
    let patience = Patience { side: Side::Read, any_mode: false, is_epoll: false };
    let until = || limit(fd, entry, Side::Read);
    let result = descriptors::insist(fd, patience, until, || {
        // SAFETY: by contract.
        let answer = unsafe { read_now(fd, entry, class, to) };
        if answer == Some(-1) && class == Class::Socket && crate::call::errno() == libc::ENOTSOCK {
            class = entry.reclassify(fd).unwrap_or(Class::Other);
            // SAFETY: as above.
            return unsafe { read_now(fd, entry, class, to) };
        }
        answer
    });
    // SAFETY: as above.
    conclude(result, || unsafe {
        kernel(libc::SYS_readv, [fd.into(), word(to.as_ptr()), to.len() as c_long, 0, 0, 0])
    })
}

/// One write of those buffers, or of a part, without waiting.
///
/// # Safety
/// The caller's buffers.
unsafe fn write_now(fd: c_int, entry: &Entry, class: Class, from: &[iovec]) -> Option<c_long> {
    let (first, count) = (word(from.as_ptr()), from.len() as c_long);
    // SAFETY: by contract.
    unsafe {
        if class == Class::Socket {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = from.as_ptr().cast_mut();
            message.msg_iovlen = from.len();
            let flags = libc::MSG_DONTWAIT.into();
            let answer = match from {
                [one] => kernel(
                    libc::SYS_sendto,
                    [fd.into(), word(one.iov_base), one.iov_len as c_long, flags, 0, 0],
                ),
                _ => {
                    kernel(libc::SYS_sendmsg, [fd.into(), word(&raw const message), flags, 0, 0, 0])
                }
            };
            return unless_waiting(answer);
        }
        if entry.has_nowait() {
            let arguments = [fd.into(), first, count, IN_TURN, IN_TURN, RWF_NOWAIT];
            let answer = kernel(libc::SYS_pwritev2, arguments);
            if answer >= 0 || crate::call::errno() != libc::EOPNOTSUPP {
                return unless_waiting(answer);
            }
            entry.note_no_nowait();
        }
        if !is_ready(fd, libc::POLLOUT) {
            return None;
        }
        Some(match from.iter().find(|buffer| buffer.iov_len > PIECE) {
            // No more than there is room for; what is before it comes first.
            Some(_) => {
                let one = from.iter().find(|buffer| buffer.iov_len > 0).copied();
                let one = one.unwrap_or(iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
                let bytes = one.iov_len.min(PIECE) as c_long;
                kernel(libc::SYS_write, [fd.into(), word(one.iov_base), bytes, 0, 0, 0])
            }
            None => kernel(libc::SYS_writev, [fd.into(), first, count.min(1), 0, 0, 0]),
        })
    }
}

/// Writes all of it, as a descriptor in blocking mode does.
///
/// # Safety
/// The caller's buffers.
unsafe fn write_all(fd: c_int, (entry, class): (&Entry, Class), all: &[iovec]) -> c_long {
    let mut class = class;
    let total: usize = all.iter().map(|buffer| buffer.iov_len).sum();
    let patience = Patience { side: Side::Write, any_mode: false, is_epoll: false };
    let mut left = Vec::new();
    let mut written = 0;
    loop {
        let from = if written == 0 { all } else { &left[..] };
        let until = || limit(fd, entry, Side::Write);
        let result = descriptors::insist(fd, patience, until, || {
            // SAFETY: by contract.
            let answer = unsafe { write_now(fd, entry, class, from) };
            let changed = answer == Some(-1) && class == Class::Socket;
            if changed && crate::call::errno() == libc::ENOTSOCK {
                class = entry.reclassify(fd).unwrap_or(Class::Other);
                // SAFETY: as above.
                return unsafe { write_now(fd, entry, class, from) };
            }
            answer
        });
        // SAFETY: as above.
        let answer = conclude(result, || unsafe {
            kernel(
                libc::SYS_writev,
                [fd.into(), word(from.as_ptr()), from.len() as c_long, 0, 0, 0],
            )
        });
        if answer < 0 {
            return if written > 0 { written as c_long } else { answer };
        }
        written += answer as usize;
        if written >= total || answer == 0 {
            return written as c_long;
        }
        left = skip(all, written);
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, bytes: size_t) -> ssize_t {
    match waits(fd) {
        // SAFETY: the caller's buffer.
        Some(known) => unsafe {
            read_into(fd, known, &[iovec { iov_base: to, iov_len: bytes }]) as ssize_t
        },
        None => real!(c"read", new, Read; fd, to, bytes),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t {
    match waits(fd) {
        Some(_) if !(1..=1024).contains(&count) => fail(libc::EINVAL) as ssize_t,
        // SAFETY: the caller's buffers.
        Some(known) => unsafe { read_into(fd, known, buffers(to, count)) as ssize_t },
        None => real!(c"readv", new, Vector; fd, to, count),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, bytes: size_t) -> ssize_t {
    match waits(fd) {
        // SAFETY: the caller's buffer.
        Some(known) => unsafe {
            write_all(fd, known, &[iovec { iov_base: from.cast_mut(), iov_len: bytes }]) as ssize_t
        },
        None => real!(c"write", new, Write; fd, from, bytes),
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t {
    match waits(fd) {
        Some(_) if !(1..=1024).contains(&count) => fail(libc::EINVAL) as ssize_t,
        // SAFETY: the caller's buffers.
        Some(known) => unsafe { write_all(fd, known, buffers(from, count)) as ssize_t },
        None => real!(c"writev", new, Vector; fd, from, count),
    }
}

/// What programs call that were compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As for `read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    to: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    type Checked = unsafe extern "C" fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    if bytes > room {
        return real!(c"__read_chk", new, Checked; fd, to, bytes, room);
    }
    // SAFETY: by contract.
    unsafe { read(fd, to, bytes) }
}
