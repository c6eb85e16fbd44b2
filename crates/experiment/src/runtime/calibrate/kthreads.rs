//! What it costs a kthread to steal from another, and to sleep: two plain threads on two cores, which
//! touch the cache lines that a theft touches, and sleep as kthreads do, in a futex.
//!
//! A theft reads the victim's published load, moves the head of its queue by compare-and-swap, reads
//! the entry, and the first line of the thread that it finds there: four lines that the victim wrote
//! last. The clock does not wait for what is read before it, so thefts are timed in chains, in which
//! each waits for what the one before has read.
//!
//! A wake-up is timed from before the waker's call until the sleeper reads the clock. What it takes to
//! fall asleep is half of the processor time of a sleep and a wake-up.
//!
//! The one that waits for the other spins and now and then lets others run, so that one core does,
//! too.

use super::figures::Trials;
use crate::Error;
use curtail::clock::{Clock, now};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// In one round: so many chains of so many thefts.
const CHAINS: u64 = 100;
const THEFTS: usize = 32;
const SLEEPS: u64 = 40;
/// A kthread that said so long ago that it goes to sleep is asleep.
const ASLEEP_NS: u64 = 30_000;

/// What was measured, in nanoseconds.
#[derive(Default)]
pub(super) struct Kthreads {
    pub(super) steal: Trials,
    pub(super) park: Trials,
    pub(super) wake: Trials,
}

/// A word with two cache lines to itself, as lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

impl Line {
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn wait_for(&self, value: u64) {
        let mut looks = 0_u32;
        while self.get() != value {
            looks += 1;
            if looks.is_multiple_of(4_096) {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

impl Kthreads {
    /// A round more, on these two cores; without them, wherever the kernel puts the threads.
    pub(super) fn round(&mut self, cores: Option<[usize; 2]>) -> Result<(), Error> {
        let victim = Victim::default();
        self.steal.extend(on_two(cores, || victim.fill(), || victim.rob())?);
        let bed = Bed::default();
        let (wake, park_ns) = on_two(cores, || bed.wake(), || bed.sleep())?;
        self.wake.extend(wake);
        self.park.add(park_ns);
        Ok(())
    }
}

/// Runs one on the first core and the other on the second, and gives what the other found.
fn on_two<R: Send>(
    cores: Option<[usize; 2]>,
    one: impl FnOnce() + Send,
    other: impl FnOnce() -> R + Send,
) -> Result<R, Error> {
    let pin = |index: usize| match cores {
        Some(cores) => {
            let mut set = CpuSet::new();
            set.set(cores[index]);
            sched_setaffinity(None, &set)
        }
        None => Ok(()),
    };
    thread::scope(|scope| {
        // Neither waits for one that could not be pinned: both run anyway, and the failure is told.
        let one = scope.spawn(move || {
            let pinned = pin(0);
            one();
            pinned
        });
        let other = scope.spawn(move || {
            let pinned = pin(1);
            (other(), pinned)
        });
        let panicked = |_| Error::failed("a thread of the calibration panicked");
        let refused = |error| Error::failed(format!("cannot pin a thread: {error}"));
        one.join().map_err(panicked)?.map_err(refused)?;
        let (found, pinned) = other.join().map_err(panicked)?;
        pinned.map_err(refused)?;
        Ok(found)
    })
}

/// What a theft touches.
#[derive(Default)]
struct Queue {
    load: Line,
    head: Line,
    entry: Line,
    thread: Line,
}

/// The queues of a chain, and whose turn it is.
#[derive(Default)]
struct Victim {
    queues: [Queue; THEFTS],
    filled: Line,
    robbed: Line,
}

impl Victim {
    fn fill(&self) {
        for round in 1..=CHAINS {
            for Queue { load, head, entry, thread } in &self.queues {
                [thread, entry, head, load].iter().for_each(|line| line.set(round));
            }
            self.filled.set(round);
            self.robbed.wait_for(round);
        }
    }

    /// The time of a theft, chain by chain.
    fn rob(&self) -> Trials {
        let clock = Clock::get();
        let mut trials = Trials::default();
        for round in 1..=CHAINS {
            self.filled.wait_for(round);
            let start = now();
            let mut at = 0;
            let mut stolen = 0;
            for _ in 0..THEFTS {
                let Queue { load, head, entry, thread } = &self.queues[at];
                let seen = load.get();
                let (taken, failed) = (Ordering::AcqRel, Ordering::Acquire);
                stolen += u64::from(head.0.compare_exchange(seen, 0, taken, failed).is_ok());
                // The next one is one further, which is known only after both are read.
                let both_the_same = entry.get() ^ thread.get();
                at = (at + 1 + both_the_same as usize) % THEFTS;
            }
            let cycles = now() - start;
            assert_eq!((at, stolen), (0, THEFTS as u64), "no other kthread steals here");
            trials.add(clock.ns(cycles) as f64 / THEFTS as f64);
            self.robbed.set(round);
        }
        trials
    }
}

/// Where one sleeps and another wakes it.
#[derive(Default)]
struct Bed {
    sleeper: OnceLock<thread::Thread>,
    tired: Line,
    /// The round in which it was woken, and at what time.
    called: Line,
    called_at: Line,
}

impl Bed {
    fn wake(&self) {
        let asleep = Clock::get().cycles(ASLEEP_NS);
        for round in 1..=SLEEPS {
            self.tired.wait_for(round);
            let since = now();
            while now() - since < asleep {
                std::hint::spin_loop();
            }
            self.called_at.set(now());
            self.called.set(round);
            self.sleeper.wait().unpark();
        }
    }

    /// How long each wake-up took, and half of the processor time of a sleep.
    fn sleep(&self) -> (Trials, f64) {
        let clock = Clock::get();
        let _ = self.sleeper.set(thread::current());
        let mut trials = Trials::default();
        let before = on_core_ns();
        for round in 1..=SLEEPS {
            self.tired.set(round);
            while self.called.get() != round {
                thread::park();
            }
            trials.add(clock.ns(now().saturating_sub(self.called_at.get())) as f64);
        }
        (trials, (on_core_ns() - before) / SLEEPS as f64 / 2.0)
    }
}

/// Processor time of this thread so far.
fn on_core_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_a_trial() {
        let mut kthreads = Kthreads::default();
        (0..2).for_each(|_| kthreads.round(None).unwrap());
        let Kthreads { steal, park, wake } = &kthreads;
        assert_eq!(steal.len(), 2 * CHAINS as usize);
        assert_eq!((park.len(), wake.len()), (2, 2 * SLEEPS as usize));
        assert!([steal, park, wake].iter().all(|trials| trials.quantile(1.0) > Some(0.0)));
    }

    #[test]
    fn a_core_that_is_not_there_is_told() {
        assert!(Kthreads::default().round(Some([0, 1_000])).is_err());
    }
}
