//! Times by one of C's clocks at which waits end.

use libc::{clockid_t, timespec};
use std::mem::MaybeUninit;
use std::time::Duration;

/// The end of a wait.
pub type Until = (clockid_t, timespec);

/// Whether POSIX takes it.
#[must_use]
pub fn is_valid((_, until): Until) -> bool {
    (0..1_000_000_000).contains(&until.tv_nsec)
}

/// What is left until then; `None`: nothing.
#[must_use]
pub fn time_left((clock, until): Until) -> Option<Duration> {
    let mut now = MaybeUninit::<timespec>::zeroed();
    // SAFETY: `now` is ours; all zeroes is a time, too, where there is no such clock.
    let now = unsafe {
        libc::clock_gettime(clock, now.as_mut_ptr());
        now.assume_init()
    };
    let seconds = i128::from(until.tv_sec) - i128::from(now.tv_sec);
    let left = seconds * 1_000_000_000 + i128::from(until.tv_nsec - now.tv_nsec);
    (left > 0).then(|| Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
}
