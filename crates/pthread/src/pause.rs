//! Waiting for something at an address, until a time by one of C's clocks.

use curtail_libc::until::{Until, is_valid, time_left};
use curtail_rt::block::{self, Deadline, Place, Wait};
use curtail_rt::thread::KThread;
use curtail_rt::wait;
use libc::c_int;
use std::time::Duration;

/// How often something is looked at that another process may change. Doubles each time, up to [`LONGEST`].
pub(crate) const LOOK: Duration = Duration::from_millis(1);
pub(crate) const LONGEST: Duration = Duration::from_millis(16);

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

/// The calling thread asks the kernel for something that it may answer at once: after so many in a row it
/// lets others run. Ticks seldom find a thread outside of the kernel that asks often.
#[inline]
pub(crate) fn take_turns() {
    KThread::spend();
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
    if until.is_some_and(|until| !is_valid(until)) {
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
