//! Waiting for one of several: `poll`, `select`, `epoll_wait` and their kin.
//!
//! Each asks the kernel first, without waiting. A thread that is to wait does so for an epoll: the
//! program's own, or one that is made for the call of what it names; for one descriptor, without.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{errno, word};
use crate::descriptors::{self, Ended, Patience};
use crate::handlers;
use crate::pause::{can_wait, fail, take_turns};
use crate::registry;
use curtail_libc::real;
use curtail_rt::block::{Deadline, Queue, wait_in};
use curtail_rt::kernel::kernel;
use curtail_rt::socket::{Side, Source};
use libc::{c_int, c_long, c_short, epoll_event, nfds_t, pollfd, sigset_t, timespec};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Bytes of the kernel's sets of signals.
const SIGNALS: c_long = 8;
const WRITES: c_short = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;

/// How long a call may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Most {
    Nothing,
    For(Duration),
    Ever,
}

impl Most {
    fn of_millis(millis: c_int) -> Self {
        match u64::try_from(millis) {
            Err(_) => Self::Ever,
            Ok(0) => Self::Nothing,
            Ok(millis) => Self::For(Duration::from_millis(millis)),
        }
    }

    /// `None`: no valid time.
    ///
    /// # Safety
    /// A time, or null.
    pub(crate) unsafe fn of(time: *const timespec) -> Option<Self> {
        // SAFETY: by contract.
        let Some(time) = (unsafe { time.as_ref() }) else { return Some(Self::Ever) };
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
        Some(match Duration::new(seconds, nanos) {
            Duration::ZERO => Self::Nothing,
            duration => Self::For(duration),
        })
    }

    fn deadline(self) -> Option<Deadline> {
        match self {
            Self::Nothing => Deadline::after(Duration::ZERO),
            Self::For(duration) => Deadline::after(duration),
            Self::Ever => None,
        }
    }
}

/// The calling thread sleeps.
pub(crate) fn sleep_until(deadline: Option<Deadline>) {
    let nothing = Queue::new();
    wait_in(&nothing, 0, deadline, || true, || {});
}

/// Waits until `attempt` has an answer other than 0 (nothing is ready) or the time is over.
pub(crate) fn wait_for_any(
    polls: &[pollfd],
    most: Most,
    mut attempt: impl FnMut() -> c_long,
) -> c_long {
    let mut once = || Some(attempt()).filter(|&answer| answer != 0);
    if most == Most::Nothing {
        return once().unwrap_or(0);
    }
    let wanted = || polls.iter().filter(|poll| poll.fd >= 0);
    let result = match (wanted().next(), wanted().nth(1)) {
        (None, _) => Err(handlers::sleep(most.deadline())),
        // In both directions, or for nothing but its end, it takes an epoll.
        (Some(one), None) if (one.events & WRITES != 0) != (one.events & !WRITES != 0) => {
            let side = if one.events & WRITES != 0 { Side::Write } else { Side::Read };
            let patience = Patience { side, any_mode: true, is_epoll: false };
            descriptors::insist(one.fd, patience, || most.deadline(), once)
        }
        _ => wait_by_epoll(polls, most, once),
    };
    match result {
        Ok(answer) => answer,
        Err(Ended::Time) => 0,
        Err(Ended::Interrupted) => fail(libc::EINTR).into(),
        // Something that can't be waited for was not ready either: looks at it from time to time.
        Err(_) => look_repeatedly(most, attempt),
    }
}

fn look_repeatedly(most: Most, mut attempt: impl FnMut() -> c_long) -> c_long {
    let deadline = most.deadline();
    loop {
        let answer = attempt();
        if answer != 0 || deadline.is_some_and(|deadline| deadline.left().is_none()) {
            return answer;
        }
        let left = deadline.and_then(Deadline::left).unwrap_or(crate::pause::LOOK);
        sleep_until(Deadline::after(left.min(crate::pause::LOOK)));
    }
}

/// An epoll of those descriptors; `None`: one can't be in any.
fn gather(polls: &[pollfd]) -> Option<OwnedFd> {
    // SAFETY: a new descriptor, which is ours.
    let epoll = unsafe {
        let fd = kernel(libc::SYS_epoll_create1, [libc::EPOLL_CLOEXEC.into(), 0, 0, 0, 0, 0]);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as c_int))
    }?;
    for (index, poll) in polls.iter().enumerate().filter(|(_, poll)| poll.fd >= 0) {
        let change = |operation: c_int, events: u32| {
            let mut event = epoll_event { events, u64: index as u64 };
            let arguments = [
                epoll.as_raw_fd().into(),
                operation.into(),
                poll.fd.into(),
                word(&raw mut event),
                0,
                0,
            ];
            // SAFETY: our own epoll and event.
            unsafe { kernel(libc::SYS_epoll_ctl, arguments) == 0 }
        };
        let events = |poll: &pollfd| u32::from(poll.events.cast_unsigned());
        if change(libc::EPOLL_CTL_ADD, events(poll)) {
            continue;
        }
        if errno() != libc::EEXIST {
            return None;
        }
        // It is named more than once.
        let all = polls.iter().filter(|other| other.fd == poll.fd);
        change(libc::EPOLL_CTL_MOD, all.fold(0, |all, other| all | events(other)));
    }
    Some(epoll)
}

fn wait_by_epoll(
    polls: &[pollfd],
    most: Most,
    mut once: impl FnMut() -> Option<c_long>,
) -> Result<c_long, Ended> {
    if let Some(answer) = once() {
        return Ok(answer);
    }
    let deadline = most.deadline();
    let source = Source::new(gather(polls).ok_or(Ended::InKernel)?, false);
    loop {
        let ticks = source.ticks(Side::Read);
        if let Some(answer) = once() {
            return Ok(answer);
        }
        let waited = descriptors::wait(&source, Side::Read, ticks, deadline);
        if registry::own().is_some_and(handlers::take_interruption) {
            return once().ok_or(Ended::Interrupted);
        }
        if let Err(error) = waited {
            let over = error.kind() == std::io::ErrorKind::WouldBlock;
            return once().ok_or(if over { Ended::Time } else { Ended::InKernel });
        }
    }
}

/// # Safety
/// So many lie there.
unsafe fn polls<'a>(first: *mut pollfd, count: nfds_t) -> &'a [pollfd] {
    match count {
        0 => &[],
        // SAFETY: by contract.
        _ => unsafe { std::slice::from_raw_parts(first, count as usize) },
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(first: *mut pollfd, count: nfds_t, millis: c_int) -> c_int {
    type Call = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
    take_turns();
    if millis == 0 || !can_wait() {
        return real!(c"poll", new, Call; first, count, millis);
    }
    let now = [word(first), count as c_long, 0, 0, 0, 0];
    // SAFETY: the caller's own call.
    unsafe {
        wait_for_any(polls(first, count), Most::of_millis(millis), || kernel(libc::SYS_poll, now))
            as c_int
    }
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    first: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Call =
        unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    take_turns();
    if !can_wait() {
        return real!(c"ppoll", new, Call; first, count, time, mask);
    }
    // SAFETY: the caller's time.
    let Some(most) = (unsafe { Most::of(time) }) else { return fail(libc::EINVAL) };
    // SAFETY: the caller's own call.
    crate::signals::with_mask(mask, || unsafe {
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        wait_for_any(polls(first, count), most, || {
            let now = word(&raw const now);
            kernel(libc::SYS_ppoll, [word(first), count as c_long, now, 0, SIGNALS, 0])
        }) as c_int
    })
}

/// What programs call that were compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As for `poll`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    first: *mut pollfd,
    count: nfds_t,
    millis: c_int,
    room: usize,
) -> c_int {
    type Checked = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int, usize) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        return real!(c"__poll_chk", new, Checked; first, count, millis, room);
    }
    // SAFETY: by contract.
    unsafe { poll(first, count, millis) }
}

/// # Safety
/// As for `ppoll`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    first: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    type Checked =
        unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, usize) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        return real!(c"__ppoll_chk", new, Checked; first, count, time, mask, room);
    }
    // SAFETY: by contract.
    unsafe { ppoll(first, count, time, mask) }
}

/// Waits for an epoll of the program's.
fn wait_for_epoll(fd: c_int, most: Most, mut attempt: impl FnMut() -> c_long) -> c_int {
    let patience = Patience { side: Side::Read, any_mode: true, is_epoll: true };
    let once = || Some(attempt()).filter(|&answer| answer != 0);
    let result = descriptors::insist(fd, patience, || most.deadline(), once);
    match result {
        Ok(answer) => answer as c_int,
        Err(Ended::Time) => 0,
        Err(Ended::Interrupted) => fail(libc::EINTR),
        Err(_) => look_repeatedly(most, attempt) as c_int,
    }
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    millis: c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    take_turns();
    if millis == 0 || !can_wait() {
        return real!(c"epoll_wait", new, Call; epoll, events, count, millis);
    }
    let now = [epoll.into(), word(events), count.into(), 0, 0, 0];
    // SAFETY: the caller's own call.
    wait_for_epoll(epoll, Most::of_millis(millis), || unsafe { kernel(libc::SYS_epoll_wait, now) })
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    millis: c_int,
    mask: *const sigset_t,
) -> c_int {
    type Call =
        unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    if millis == 0 || !can_wait() {
        return real!(c"epoll_pwait", new, Call; epoll, events, count, millis, mask);
    }
    // SAFETY: the caller's own call.
    crate::signals::with_mask(mask, || unsafe { epoll_wait(epoll, events, count, millis) })
}

/// # Safety
/// As Linux asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut epoll_event,
        c_int,
        *const timespec,
        *const sigset_t,
    ) -> c_int;
    take_turns();
    if !can_wait() {
        return real!(c"epoll_pwait2", new, Call; epoll, events, count, time, mask);
    }
    // SAFETY: the caller's time.
    let Some(most) = (unsafe { Most::of(time) }) else { return fail(libc::EINVAL) };
    let now = [epoll.into(), word(events), count.into(), 0, 0, 0];
    crate::signals::with_mask(mask, || {
        // SAFETY: the caller's own call.
        wait_for_epoll(epoll, most, || unsafe { kernel(libc::SYS_epoll_wait, now) })
    })
}
