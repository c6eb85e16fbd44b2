//! Waiting for something at an address, until a time by one of C's clocks.

use curtail_rt::block::{self, Deadline, Place, Wait};
use curtail_rt::thread::KThread;
use curtail_rt::wait;
use libc::{c_int, clockid_t, timespec};
use std::mem::MaybeUninit;
use std::time::Duration;

/// How often something is looked at that another process may change. Doubles each time, up to [`LONGEST`].
pub(crate) const LOOK: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// The end of a wait.
pub(crate) type Until = (clockid_t, timespec);

/// Whether the caller is a thread of Curtail's.
#[inline]
pub(crate) fn is_ours() -> bool {
    KThread::current_tcb().is_some()
}

/// Whether the caller can wait without its kthread.
#[inline]
pub(crate) fn can_wait() -> bool {
    is_ours() && block::may_wait()
}

pub(crate) fn is_valid(time: timespec) -> bool {
    (0..1_000_000_000).contains(&time.tv_nsec)
}

/// What is left until then; `None`: nothing.
pub(crate) fn time_left((clock, until): Until) -> Option<Duration> {
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

/// Waits at `address` until `once` says so, asked again after each wake-up there; `shared`: another
/// process may change what it looks at.
///
/// # Errors
/// `ETIMEDOUT`; `EINVAL`: no valid time.
pub(crate) fn insist(
    address: usize,
    mut once: impl FnMut() -> bool,
    until: Option<Until>,
    shared: bool,
) -> Result<(), c_int> {
    if once() {
        return Ok(());
    }
    if until.is_some_and(|(_, time)| !is_valid(time)) {
        return Err(libc::EINVAL);
    }
    let (mut place, mut look) = (Place::Last, LOOK);
    loop {
        let left = match until {
            None => None,
            Some(until) => match time_left(until) {
                Some(left) => Some(left),
                None => return if once() { Ok(()) } else { Err(libc::ETIMEDOUT) },
            },
        };
        let most = match (left, shared) {
            (left, false) => left,
            (left, true) => Some(left.map_or(look, |left| left.min(look))),
        };
        let deadline = most.and_then(Deadline::after);
        match wait::wait(address, place, deadline, || !once(), || {}) {
            Wait::NotNeeded => return Ok(()),
            // Woken, and perhaps too late: then it waits in front.
            Wait::Woken(_) => (place, look) = (Place::First, LOOK),
            Wait::Expired => look = (2 * look).min(LONGEST),
        }
        if once() {
            return Ok(());
        }
    }
}

/// Leaves the error in `errno`, and answers as C does then.
pub(crate) fn fail(error: c_int) -> c_int {
    curtail_rt::kernel::fail(error) as c_int
}
