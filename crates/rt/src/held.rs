//! What puts off the ends of quanta: the lock that the running code took last, for reports of stalls, and
//! the time that critical sections went on beyond their quanta.

use curtail_fiber::safepoint::Safepoint;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A lock that was taken: its address, and where that was; null: in C.
type Taken = (usize, *const Location<'static>);

thread_local! {
    static LAST: Cell<Taken> = const { Cell::new((0, ptr::null())) };
}

/// In nanoseconds, of all kthreads. Written where a quantum has ended late.
static PUT_OFF: AtomicU64 = AtomicU64::new(0);

/// The running code has taken a lock.
#[inline(always)]
pub fn took<T: ?Sized>(lock: *const T, place: Option<&'static Location<'static>>) {
    LAST.set((lock.addr(), place.map_or(ptr::null(), ptr::from_ref)));
}

/// What the running code holds, as words: see [`say`].
pub(crate) fn words() -> [u64; 3] {
    let (lock, place) = LAST.get();
    [u64::from(Safepoint::this_thread().depth()), lock as u64, place.expose_provenance() as u64]
}

/// In words for people; `None`: nothing. As it was in another thread, whose [`words`] these are.
pub(crate) fn say([depth, lock, place]: [u64; 3]) -> Option<String> {
    let place: *const Location<'static> = ptr::with_exposed_provenance(place as usize);
    // SAFETY: null, or of a place in the program, which `took` was told.
    let place = unsafe { place.as_ref() };
    let last = match place {
        Some(place) => format!("taken at {place}"),
        None => format!("at {lock:#x}"),
    };
    match depth >> 16 {
        0 => (depth > 0).then(|| "a critical section".to_owned()),
        1 => Some(format!("a lock {last}")),
        locks => Some(format!("{locks} locks, the last {last}")),
    }
}

/// A quantum that should have ended then ends now, since a critical section or a lock's grace put it off
/// (TSC).
pub fn note_put_off(deadline: u64, now: u64) {
    let ns = crate::clock::Clock::get().ns(now.saturating_sub(deadline));
    PUT_OFF.fetch_add(ns, Ordering::Relaxed);
}

/// How long critical sections and locks of this process went on beyond the quanta in which they began,
/// all together. Where safepoints keep the time themselves.
#[must_use]
pub fn critical_time() -> Duration {
    Duration::from_nanos(PUT_OFF.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_said() {
        let here = Location::caller();
        let place = ptr::from_ref(here).expose_provenance() as u64;
        assert_eq!(say([0, 7, place]), None);
        assert_eq!(say([2, 7, place]).unwrap(), "a critical section");
        assert_eq!(say([1 << 16, 0x70, 0]).unwrap(), "a lock at 0x70");
        let two = say([2 << 16 | 1, 7, place]).unwrap();
        assert!(two.starts_with("2 locks, the last taken at ") && two.contains("held.rs"), "{two}");
    }
}
