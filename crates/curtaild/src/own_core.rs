//! Whether the daemon has its core for itself: only then it spins there.
//!
//! Where another program runs on that core, too, a thread that spins and the other take turns of
//! milliseconds, and both come late by as much. A daemon that sleeps between its looks comes late by a tenth
//! of a millisecond, and the other program by less.
//!
//! So the daemon asks now and then how long it waited for the core. Where that was more than a thirtieth of
//! the time, it sleeps between looks for a second, and then spins to see; each time that it finds another
//! program again, four times as long.

use std::time::Duration;

/// Time from one question to the next, while the daemon spins.
const PERIOD_NS: u64 = 100_000_000;
/// Time to the first question after the daemon has begun to spin.
const TRIAL_NS: u64 = 10_000_000;
/// Share of the time, one part in so many, that the daemon may wait for its core and still call it its own.
const PART: u64 = 30;
/// Time for which the daemon sleeps between looks, first and at most.
const FIRST_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 64_000_000_000;

/// Path at which the kernel says how long this thread ran, and how long it waited for a core: nanoseconds.
const WAITED: &str = "/proc/thread-self/schedstat";

/// Knowledge of the daemon's core, and when to ask again.
#[derive(Debug)]
pub(crate) struct OwnCore {
    /// Whether there is a core that is none of those the daemon manages.
    exists: bool,
    spins: bool,
    /// Time of the next question, or of spinning again.
    next_ns: u64,
    asked_ns: u64,
    /// Wait for the core until the last question; `None`: there was none.
    waited_ns: Option<u64>,
    sleep_ns: u64,
    /// Time since which the daemon spins.
    since_ns: u64,
}

impl OwnCore {
    pub(crate) fn new(exists: bool, now_ns: u64) -> Self {
        Self {
            exists,
            spins: exists,
            next_ns: now_ns,
            asked_ns: now_ns,
            waited_ns: None,
            sleep_ns: FIRST_NS,
            since_ns: now_ns,
        }
    }

    /// Whether the daemon may spin now.
    pub(crate) fn spins(&self) -> bool {
        self.spins
    }

    /// What the daemon waited for so far is not another program's doing.
    pub(crate) fn forget(&mut self) {
        self.waited_ns = None;
    }

    /// Whether another program is on the core that was not there before; asks the kernel where it is time to.
    pub(crate) fn ask(&mut self, now_ns: u64) -> bool {
        if !self.exists || now_ns < self.next_ns {
            return false;
        }
        match waited_ns() {
            Some(waited_ns) => self.decide(now_ns, waited_ns),
            None => {
                self.next_ns = now_ns + PERIOD_NS;
                false
            }
        }
    }

    fn decide(&mut self, now_ns: u64, waited_ns: u64) -> bool {
        let before = self.waited_ns.replace(waited_ns).unwrap_or(waited_ns);
        let waited = waited_ns.saturating_sub(before);
        let passed = now_ns - std::mem::replace(&mut self.asked_ns, now_ns);
        self.next_ns = now_ns + PERIOD_NS;
        let mut is_new = false;
        if !self.spins {
            (self.spins, self.since_ns) = (true, now_ns);
            self.next_ns = now_ns + TRIAL_NS;
        } else if waited > passed / PART {
            is_new = self.sleep_ns == FIRST_NS;
            self.spins = false;
            self.next_ns = now_ns + self.sleep_ns;
            self.sleep_ns = (4 * self.sleep_ns).min(LONGEST_NS);
        } else if now_ns - self.since_ns > self.sleep_ns {
            self.sleep_ns = FIRST_NS;
        }
        is_new
    }
}

/// Time for which this thread has waited for a core so far; `None`: the kernel does not say.
fn waited_ns() -> Option<u64> {
    let text = std::fs::read_to_string(WAITED).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The line that the daemon prints where it finds another program.
pub(crate) fn message() -> String {
    let period = Duration::from_nanos(LONGEST_NS).as_secs();
    format!(
        "another program runs on the daemon's core: it sleeps between looks, which come late, for up to \
         {period} s at a time"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_beside_another_and_longer_each_time() {
        let mut core = OwnCore::new(true, 0);
        // What it waited before it asked first is not counted.
        let (mut now, mut waited) = (0, 1_000_000_000);
        let mut step = |core: &mut OwnCore, percent: u64| {
            let passed = core.next_ns - now;
            now = core.next_ns;
            waited += passed * percent / 100;
            core.decide(now, waited)
        };
        assert!(!step(&mut core, 0) && core.spins());
        for seconds in [1, 4, 16, 64, 64] {
            let before = core.next_ns;
            assert_eq!((step(&mut core, 50), core.spins()), (seconds == 1, false));
            assert_eq!(core.next_ns - before, seconds * 1_000_000_000);
            assert!(!step(&mut core, 50) && core.spins());
        }
        // Alone for longer than it slept.
        while core.sleep_ns != FIRST_NS {
            assert!(!step(&mut core, 1) && core.spins());
        }
        assert!(step(&mut core, 50));
    }

    #[test]
    fn what_is_forgotten_does_not_count() {
        let mut core = OwnCore::new(true, 0);
        assert!(!core.decide(0, 0));
        core.forget();
        assert!(!core.decide(100, 100) && core.spins());
        assert!(core.decide(200, 150) && !core.spins());
    }

    #[test]
    fn a_core_that_is_not_there_is_not_asked_for() {
        let mut core = OwnCore::new(false, 0);
        assert!(!core.ask(u64::MAX) && !core.spins());
    }

    #[test]
    fn the_kernel_says_how_long_a_thread_waited() {
        let Some(before) = waited_ns() else {
            return eprintln!("skipped: the kernel does not say it: no {WAITED}");
        };
        std::thread::yield_now();
        assert!(waited_ns().is_some_and(|after| after >= before));
    }
}
