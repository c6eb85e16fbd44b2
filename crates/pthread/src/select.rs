//! `select` and `pselect`, by what `poll` waits for.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::word;
use crate::pause::{can_wait, fail};
use crate::ready::{Most, wait_for_any};
use crate::signals;
use curtail_libc::real;
use curtail_rt::kernel::kernel;
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use std::time::{Duration, Instant};

fn is_in(set: &[u64], fd: usize) -> bool {
    set.get(fd / 64).is_some_and(|word| word >> (fd % 64) & 1 != 0)
}

/// The words of a set that a call of so many descriptors reads.
///
/// # Safety
/// The caller's set, or null.
unsafe fn copy(set: *const fd_set, count: c_int) -> Vec<u64> {
    match set.is_null() {
        true => Vec::new(),
        // SAFETY: by contract.
        false => unsafe {
            let words = (count as usize).div_ceil(64);
            std::slice::from_raw_parts(set.cast::<u64>(), words).to_vec()
        },
    }
}

/// # Safety
/// As `select` asks for, on a thread that can wait; `count` is not negative.
unsafe fn as_thread(count: c_int, sets: [*mut fd_set; 3], most: Most) -> c_int {
    // SAFETY: the caller's sets.
    let asked = sets.map(|set| unsafe { copy(set, count) });
    let kinds = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let wanted = (0..count as usize).filter_map(|fd| {
        let named = asked.iter().zip(kinds).filter(|(set, _)| is_in(set, fd));
        let events = named.fold(0, |all, (_, kind)| all | kind);
        (events != 0).then_some(pollfd { fd: fd as c_int, events, revents: 0 })
    });
    let polls: Vec<pollfd> = wanted.collect();
    wait_for_any(&polls, most, || {
        for (set, asked) in sets.iter().zip(&asked).filter(|(set, _)| !set.is_null()) {
            // SAFETY: the caller's set, of which so much was copied.
            unsafe { set.cast::<u64>().copy_from_nonoverlapping(asked.as_ptr(), asked.len()) };
        }
        let [read, write, except] = sets.map(|set| word(set));
        // The kernel may write what is left.
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the caller's own call.
        unsafe {
            let arguments = [count.into(), read, write, except, word(&raw mut now), 0];
            kernel(libc::SYS_pselect6, arguments)
        }
    }) as c_int
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    type Call =
        unsafe extern "C" fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    if count < 0 || !can_wait() {
        return real!(c"select", new, Call; count, read, write, except, time);
    }
    // SAFETY: the caller's time, if there is one.
    let given = unsafe { time.as_ref() }.copied();
    let Some(given) = given else {
        // SAFETY: the caller's own call.
        return unsafe { as_thread(count, [read, write, except], Most::Ever) };
    };
    let (Ok(seconds), Ok(micros)) = (u64::try_from(given.tv_sec), u32::try_from(given.tv_usec))
    else {
        return fail(libc::EINVAL);
    };
    let most = Duration::from_secs(seconds) + Duration::from_micros(micros.into());
    let begun = Instant::now();
    let wanted = if most.is_zero() { Most::Nothing } else { Most::For(most) };
    // SAFETY: the caller's own call.
    let answer = unsafe { as_thread(count, [read, write, except], wanted) };
    let left = most.saturating_sub(begun.elapsed());
    let left =
        timeval { tv_sec: left.as_secs().cast_signed(), tv_usec: left.subsec_micros().into() };
    // SAFETY: the caller's place. As Linux does.
    unsafe { *time = left };
    answer
}

/// # Safety
/// As POSIX asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut fd_set,
        *mut fd_set,
        *mut fd_set,
        *const timespec,
        *const sigset_t,
    ) -> c_int;
    if count < 0 || !can_wait() {
        return real!(c"pselect", new, Call; count, read, write, except, time, mask);
    }
    // SAFETY: the caller's time.
    let Some(most) = (unsafe { Most::of(time) }) else { return fail(libc::EINVAL) };
    // SAFETY: the caller's own call.
    signals::with_mask(mask, || unsafe { as_thread(count, [read, write, except], most) })
}
