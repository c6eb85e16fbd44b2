//! Sockets: `recv`, `send` and their kin wait as threads.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{conclude, unless_waiting, word};
use crate::descriptors::{self, Entry, Patience, entry};
use crate::pause::{can_wait, take_turns};
use curtail_libc::real;
use curtail_rt::block::Deadline;
use curtail_rt::kernel::kernel;
use curtail_rt::socket::Side;
use libc::{c_int, c_long, c_uint, c_void, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::time::Duration;

/// How long a wait for that descriptor may take, if the program has said so (`SO_RCVTIMEO`).
pub(crate) fn limit(fd: c_int, entry: &Entry, side: Side) -> Option<Deadline> {
    if !entry.has_timeout() {
        return None;
    }
    let option = match side {
        Side::Read => libc::SO_RCVTIMEO,
        Side::Write => libc::SO_SNDTIMEO,
    };
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut bytes = size_of::<libc::timeval>() as socklen_t;
    let places = [word(&raw mut time), word(&raw mut bytes)];
    let level = libc::SOL_SOCKET.into();
    // SAFETY: our own places, of that size.
    unsafe {
        let arguments = [fd.into(), level, option.into(), places[0], places[1], 0];
        kernel(libc::SYS_getsockopt, arguments);
    }
    let limit = Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    (!limit.is_zero()).then(|| Deadline::after(limit)).flatten()
}

/// Whether the caller waits for it as a thread.
pub(crate) fn waits(fd: c_int, flags: c_int) -> Option<&'static Entry> {
    take_turns();
    if flags & libc::MSG_DONTWAIT != 0 || !can_wait() {
        return None;
    }
    let entry = entry(fd)?;
    entry.may_wait(fd).map(|_| entry)
}

/// A call that has the flags as its fourth or third argument, without waiting, until it has an answer.
///
/// # Safety
/// The caller's own call.
unsafe fn insist(
    (number, mut arguments): (c_long, [c_long; 6]),
    flags: usize,
    entry: &Entry,
    side: Side,
) -> c_long {
    let fd = arguments[0] as c_int;
    let in_kernel = arguments;
    arguments[flags] |= c_long::from(libc::MSG_DONTWAIT);
    let patience = Patience { side, any_mode: false, is_epoll: false };
    let until = || limit(fd, entry, side);
    // SAFETY: by contract.
    let result = descriptors::insist(fd, patience, until, || unsafe {
        unless_waiting(kernel(number, arguments))
    });
    // SAFETY: as above.
    conclude(result, || unsafe { kernel(number, in_kernel) })
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, to: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own call.
    unsafe { recvfrom(fd, to, bytes, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    bytes: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t;
    let Some(entry) = waits(fd, flags) else {
        return real!(c"recvfrom", new, Call; fd, to, bytes, flags, from, length);
    };
    let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
    let mut got = 0;
    loop {
        let to = to.wrapping_byte_add(got);
        let left = (bytes - got) as c_long;
        let call = [fd.into(), word(to), left, flags.into(), word(from), word(length)];
        // SAFETY: the caller's own call, of what is left of the buffer.
        let answer = unsafe { insist((libc::SYS_recvfrom, call), 3, entry, Side::Read) };
        if answer <= 0 {
            return if got > 0 { got as ssize_t } else { answer as ssize_t };
        }
        got += answer as usize;
        if !all || got >= bytes {
            return got as ssize_t;
        }
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    type Call = unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    let Some(entry) = waits(fd, flags) else {
        return real!(c"recvmsg", new, Call; fd, message, flags);
    };
    let call = [fd.into(), word(message), flags.into(), 0, 0, 0];
    // SAFETY: the caller's own call.
    unsafe { insist((libc::SYS_recvmsg, call), 2, entry, Side::Read) as ssize_t }
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    type Call =
        unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int, *mut libc::timespec) -> c_int;
    let Some(entry) = waits(fd, flags).filter(|_| timeout.is_null()) else {
        return real!(c"recvmmsg", new, Call; fd, messages, count, flags, timeout);
    };
    let mut got = 0;
    loop {
        let next = messages.wrapping_add(got as usize);
        let call = [fd.into(), word(next), (count - got).into(), flags.into(), 0, 0];
        // SAFETY: the caller's own call, of the messages that are left.
        let answer = unsafe { insist((libc::SYS_recvmmsg, call), 3, entry, Side::Read) };
        if answer <= 0 {
            return if got > 0 { got as c_int } else { answer as c_int };
        }
        got += answer as c_uint;
        if got >= count || flags & libc::MSG_WAITFORONE != 0 {
            return got as c_int;
        }
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    from: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's own call.
    unsafe { sendto(fd, from, bytes, flags, std::ptr::null(), 0) }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    from: *const c_void,
    bytes: size_t,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    type Call = unsafe extern "C" fn(
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t;
    let Some(entry) = waits(fd, flags) else {
        return real!(c"sendto", new, Call; fd, from, bytes, flags, to, length);
    };
    let mut sent = 0;
    loop {
        let from = from.wrapping_byte_add(sent);
        let left = (bytes - sent) as c_long;
        let call = [fd.into(), word(from), left, flags.into(), word(to), length.into()];
        // SAFETY: the caller's own call, of what is left of the buffer.
        let answer = unsafe { insist((libc::SYS_sendto, call), 3, entry, Side::Write) };
        if answer < 0 {
            return if sent > 0 { sent as ssize_t } else { answer as ssize_t };
        }
        sent += answer as usize;
        if sent >= bytes || answer == 0 {
            return sent as ssize_t;
        }
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    type Call = unsafe extern "C" fn(c_int, *const msghdr, c_int) -> ssize_t;
    let Some(entry) = waits(fd, flags) else {
        return real!(c"sendmsg", new, Call; fd, message, flags);
    };
    // SAFETY: the caller's message, and the buffers that it names.
    let (mut rest, all) = unsafe {
        let message = *message;
        (message, crate::call::buffers(message.msg_iov, message.msg_iovlen as c_int))
    };
    let total: usize = all.iter().map(|buffer| buffer.iov_len).sum();
    let mut left = Vec::new();
    let mut sent = 0;
    loop {
        if sent > 0 {
            left = crate::call::skip(all, sent);
            (rest.msg_iov, rest.msg_iovlen) = (left.as_mut_ptr(), left.len());
            // Descriptors go once.
            (rest.msg_control, rest.msg_controllen) = (std::ptr::null_mut(), 0);
        }
        let call = [fd.into(), word(&raw const rest), flags.into(), 0, 0, 0];
        // SAFETY: the caller's own call, of what is left.
        let answer = unsafe { insist((libc::SYS_sendmsg, call), 2, entry, Side::Write) };
        if answer < 0 {
            return if sent > 0 { sent as ssize_t } else { answer as ssize_t };
        }
        sent += answer as usize;
        if sent >= total || answer == 0 {
            return sent as ssize_t;
        }
        left.clear();
    }
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    if waits(fd, flags).is_none() {
        return real!(c"sendmmsg", new, Call; fd, messages, count, flags);
    }
    for index in 0..count {
        // SAFETY: the caller's messages.
        unsafe {
            let message = messages.add(index as usize);
            let sent = sendmsg(fd, &raw const (*message).msg_hdr, flags);
            if sent < 0 {
                return if index > 0 { index as c_int } else { -1 };
            }
            (*message).msg_len = sent as c_uint;
        }
    }
    count as c_int
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if level == libc::SOL_SOCKET
        && matches!(option, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
        && let Some(entry) = entry(fd)
    {
        entry.note_timeout();
    }
    let call = [fd.into(), level.into(), option.into(), word(value), length.into(), 0];
    // SAFETY: the caller's own call.
    unsafe { kernel(libc::SYS_setsockopt, call) as c_int }
}

/// # Safety
/// As for `recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    type Checked = unsafe extern "C" fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    if bytes > room {
        return real!(c"__recv_chk", new, Checked; fd, to, bytes, room, flags);
    }
    // SAFETY: by contract.
    unsafe { recv(fd, to, bytes, flags) }
}

/// # Safety
/// As for `recvfrom`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    type Checked = unsafe extern "C" fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    if bytes > room {
        return real!(c"__recv_chk", new, Checked; fd, to, bytes, room, flags);
    }
    // SAFETY: by contract.
    unsafe { recvfrom(fd, to, bytes, flags, from, length) }
}
