//! Connections: `accept`, `connect` and their kin wait as threads.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{conclude, errno, is_ready, set_errno, unless_waiting, word};
use crate::descriptors::{self, Ended, Entry, Patience, entry};
use crate::pause::is_ours;
use crate::socket::{limit, waits};
use curtail_libc::real;
use curtail_rt::kernel::kernel;
use curtail_rt::socket::Side;
use libc::{c_int, c_long, sockaddr, socklen_t};
use std::time::Duration;

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { accept4(fd, from, length, 0) }
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    let Some(listener) = waits(fd, 0) else {
        let accepted = real!(c"accept4", new, Call; fd, from, length, flags);
        note_accepted(accepted, flags, entry(fd));
        return accepted;
    };
    let call = [fd.into(), word(from), word(length), flags.into(), 0, 0];
    let patience = Patience { side: Side::Read, any_mode: false, is_epoll: false };
    let until = || limit(fd, listener, Side::Read);
    let result = descriptors::insist(fd, patience, until, || {
        // Between look and call no other thread of this process takes the connection.
        listener.accepting.with(|()| {
            // SAFETY: the caller's own call.
            is_ready(fd, libc::POLLIN)
                .then(|| unsafe { kernel(libc::SYS_accept4, call) })
                .and_then(unless_waiting)
        })
    });
    // SAFETY: as above.
    let accepted = conclude(result, || unsafe { kernel(libc::SYS_accept4, call) }) as c_int;
    note_accepted(accepted, flags, Some(listener));
    accepted
}

/// A new connection has its listener's limits.
fn note_accepted(accepted: c_int, flags: c_int, listener: Option<&Entry>) {
    if is_ours()
        && let Some(entry) = entry(accepted)
    {
        descriptors::forget(accepted);
        let has_timeout = listener.is_some_and(Entry::has_timeout);
        entry.note_connection(flags & libc::SOCK_NONBLOCK != 0, has_timeout);
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, length: socklen_t) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    let Some(entry) = waits(fd, 0) else {
        return real!(c"connect", new, Call; fd, to, length);
    };
    // SAFETY: numbers.
    let mode = unsafe { kernel(libc::SYS_fcntl, [fd.into(), libc::F_GETFL.into(), 0, 0, 0, 0]) };
    let set = |mode: c_long| {
        // SAFETY: as above.
        unsafe { kernel(libc::SYS_fcntl, [fd.into(), libc::F_SETFL.into(), mode, 0, 0, 0]) }
    };
    if mode < 0 || mode & c_long::from(libc::O_NONBLOCK) != 0 {
        return real!(c"connect", new, Call; fd, to, length);
    }
    // For the length of this call: a connection can't be begun otherwise without waiting.
    let call = [fd.into(), word(to), length.into(), 0, 0, 0];
    let mut pause = Duration::from_micros(200);
    loop {
        set(mode | c_long::from(libc::O_NONBLOCK));
        // SAFETY: the caller's own call.
        let answer = unsafe { kernel(libc::SYS_connect, call) };
        let error = errno();
        set(mode);
        match error {
            _ if answer == 0 => return 0,
            libc::EINPROGRESS => return wait_for_connection(fd, entry),
            // Of a Unix socket: its listener has no room, and nothing tells when it has.
            libc::EAGAIN => {
                curtail_rt::thread::without_limit(|| curtail_rt::time::sleep(pause));
                pause = (2 * pause).min(Duration::from_millis(10));
            }
            _ => {
                set_errno(error);
                return -1;
            }
        }
    }
}

fn wait_for_connection(fd: c_int, entry: &Entry) -> c_int {
    let patience = Patience { side: Side::Write, any_mode: true, is_epoll: false };
    let until = || limit(fd, entry, Side::Write);
    let result =
        descriptors::insist(fd, patience, until, || is_ready(fd, libc::POLLOUT).then_some(0));
    match result {
        Ok(_) => {}
        Err(Ended::Time) => return crate::pause::fail(libc::EINPROGRESS),
        Err(_) => {
            let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            // SAFETY: our own word.
            unsafe { kernel(libc::SYS_poll, [word(&raw mut poll), 1, -1, 0, 0, 0]) };
        }
    }
    let (mut error, mut bytes) = (0_i32, size_of::<c_int>() as socklen_t);
    let places = [word(&raw mut error), word(&raw mut bytes)];
    let (level, option) = (libc::SOL_SOCKET.into(), libc::SO_ERROR.into());
    // SAFETY: our own places.
    unsafe {
        kernel(libc::SYS_getsockopt, [fd.into(), level, option, places[0], places[1], 0]);
    }
    if error == 0 { 0 } else { crate::pause::fail(error) }
}
