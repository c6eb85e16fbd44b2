//! The kernel's own waits: system calls that no function of C's is asked for, since those are
//! interposed (`curtail-libc`).
//!
//! From any thread.

use libc::{c_int, c_long, timespec};
use rustix::event::Timespec;
use rustix::event::epoll::Event;
use std::arch::asm;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A call's arguments after the operation's number.
pub type Arguments = [c_long; 6];

/// The system call itself, with C's convention for errors.
///
/// # Safety
/// As for the call.
pub unsafe fn kernel(number: c_long, [a, b, c, d, e, f]: Arguments) -> c_long {
    let answer: c_long;
    // SAFETY: Linux's convention on x86-64; what the call does is the caller's responsibility.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    if (-4095..0).contains(&answer) { fail(-answer as c_int) } else { answer }
}

/// Sleeps in the kernel while `*word` is `value`, for `most` at most. May return for nothing. For
/// plain threads, and for a kthread's own loop.
pub(crate) fn wait_in_kernel(word: &AtomicU32, value: u32, most: Option<Duration>) {
    let time = most.map(|most| timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(most.subsec_nanos()),
    });
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        ptr::from_ref(word) as c_long,
        c_long::from(operation),
        c_long::from(value),
        time as c_long,
        0,
        0,
    ];
    // SAFETY: a live word, and a time of ours or none.
    unsafe { kernel(libc::SYS_futex, arguments) };
}

/// Wakes one that sleeps in [`wait_in_kernel`] at this address, at which there need be nothing now.
pub(crate) fn wake_in_kernel(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel takes a private futex's address as a key and does not read there.
    unsafe { kernel(libc::SYS_futex, [word as c_long, c_long::from(operation), 1, 0, 0, 0]) };
}

/// Sleeps until an epoll has events, for that time at most, which need not be whole milliseconds; how many
/// events there are, at the beginning of `room`, 0 where a signal's handler ran. `None`: this kernel has
/// no such call (Linux has it from 5.11 on), or a filter forbids it.
pub(crate) fn wait_for_events(
    epoll: BorrowedFd<'_>,
    room: &mut [MaybeUninit<Event>],
    time: &Timespec,
) -> Option<usize> {
    const { assert!(size_of::<Event>() == size_of::<libc::epoll_event>()) };
    static LACKING: AtomicBool = AtomicBool::new(false);
    if LACKING.load(Ordering::Relaxed) {
        return None;
    }
    let time = timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec };
    let (events, count) = (room.as_mut_ptr() as c_long, room.len() as c_long);
    let epoll = c_long::from(epoll.as_raw_fd());
    // SAFETY: room for so many events, and a time of ours.
    let answer = unsafe {
        kernel(libc::SYS_epoll_pwait2, [epoll, events, count, (&raw const time) as c_long, 0, 0])
    };
    match usize::try_from(answer) {
        Ok(count) => Some(count),
        // SAFETY: this thread's own variable.
        Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => Some(0),
        Err(_) => {
            LACKING.store(true, Ordering::Relaxed);
            None
        }
    }
}

/// Leaves the error in `errno`, and answers as C does then.
pub fn fail(error: c_int) -> c_long {
    // SAFETY: this thread's own variable.
    unsafe { *libc::__errno_location() = error };
    -1
}
