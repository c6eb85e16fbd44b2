//! Whether the daemon is alive: it writes the time into its board each millisecond at least, while a
//! program that it grants cores is registered.

use std::time::Duration;

/// From one look to the next.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// A look that comes later than this says nothing: the machine was busy, and not only for the daemon.
const ON_TIME: Duration = Duration::from_millis(30);
/// After so many looks that found the same it is taken for stopped.
const STILL: u32 = 3;

/// What the looks have found so far. A daemon that never wrote a time is not judged by it.
#[derive(Default)]
pub(super) struct Pulse {
    beat_ns: u64,
    still: u32,
}

impl Pulse {
    /// One more look found this time, so long after the look before; true: the daemon has stopped.
    pub(super) fn has_stopped(&mut self, beat_ns: u64, since: Duration) -> bool {
        if beat_ns != self.beat_ns {
            *self = Self { beat_ns, still: 0 };
        } else if beat_ns != 0 && since <= ON_TIME {
            self.still += 1;
        }
        self.still >= STILL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_still_for_three_looks_has_stopped() {
        let mut pulse = Pulse::default();
        let found = [7, 8, 8, 8, 9, 9, 9, 9].map(|beat_ns| pulse.has_stopped(beat_ns, LOOK));
        assert_eq!(found, [false, false, false, false, false, false, false, true]);
        assert!(!pulse.has_stopped(10, LOOK), "it goes on");
    }

    #[test]
    fn looks_that_come_late_and_daemons_that_never_beat_are_not_judged() {
        let mut pulse = Pulse::default();
        assert!((0..9).all(|_| !pulse.has_stopped(0, LOOK)));
        assert!((0..9).all(|_| !pulse.has_stopped(5, Duration::from_millis(31))));
    }
}
