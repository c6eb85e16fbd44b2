//! `--idle poll`: a thread on each managed core that keeps it awake while it has nothing to do.
//!
//! The threads are of the lowest class (SCHED_IDLE): the kernel runs them when nothing else wants
//! the core. They look at the core's order, as batch threads do at their safepoints, and wake the
//! heir on its own core. The daemon lets them rest while no program is served, and while batch
//! programs are there, which would have to share the core with them.

use curtail_shm::{BoardView, CoreIndex, kthreads};
use rustix::thread::futex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK: u32 = 0;
const REST: u32 = 1;
const END: u32 = 2;
/// A wake-up that took less time did not let the heir run.
const AT_ONCE: Duration = Duration::from_nanos(1_500);
/// From one look to the next; after more, something else has had the core.
const GAP: Duration = Duration::from_micros(6);
/// What runs for longer on a core that a kthread has was given it by the kernel, at a tick.
const STOLEN: Duration = Duration::from_micros(30);
/// A nap that was over sooner left the core to no other thread.
const ALONE: Duration = Duration::from_micros(150);

struct Shared {
    board: BoardView,
    /// What they are to do: written by the daemon's thread; the futex that they rest on.
    what: AtomicU32,
    /// Heirs that they woke.
    woken: AtomicU64,
}

/// The threads; they end with it.
pub(crate) struct Idlers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Idlers {
    /// One for each core of the board. They rest at first.
    pub(crate) fn start(board: BoardView) -> io::Result<Self> {
        let (cores, what) = (board.cores(), AtomicU32::new(REST));
        let shared = Arc::new(Shared { board, what, woken: AtomicU64::new(0) });
        let mut idlers = Self { shared, threads: Vec::new() };
        for core in (0..cores).map(CoreIndex) {
            let shared = idlers.shared.clone();
            let name = format!("curtaild-idle-{}", core.0);
            let thread = std::thread::Builder::new().name(name).spawn(move || shared.run(core))?;
            idlers.threads.push(thread);
        }
        Ok(idlers)
    }

    /// Whether they look or rest.
    pub(crate) fn set(&self, look: bool) {
        let what = if look { LOOK } else { REST };
        if self.shared.what.swap(what, Ordering::Relaxed) != what && look {
            self.shared.wake_all();
        }
    }

    /// Whether they look.
    pub(crate) fn look(&self) -> bool {
        self.shared.what.load(Ordering::Relaxed) == LOOK
    }

    /// How many kthreads they have woken.
    pub(crate) fn woken(&self) -> u64 {
        self.shared.woken.load(Ordering::Relaxed)
    }
}

impl Drop for Idlers {
    fn drop(&mut self) {
        self.shared.what.store(END, Ordering::Relaxed);
        self.shared.wake_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake_all(&self) {
        let _ = futex::wake(&self.what, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    fn run(&self, core: CoreIndex) {
        let Some(cpu) = self.board.cpu(core) else { return };
        // Of another class or on another core it would be in the way.
        if kthreads::rank_last().is_err() || kthreads::pin_this_thread(&[cpu]).is_err() {
            return;
        }
        let mut seen = self.board.order(core);
        let mut beside = Beside::default();
        loop {
            match self.what.load(Ordering::Relaxed) {
                END => return,
                REST => {
                    let _ = futex::wait(&self.what, futex::Flags::PRIVATE, REST, None);
                    continue;
                }
                _ => {}
            }
            let order = self.board.order(core);
            if order == seen {
                if beside.steals(self.board.holder(core).is_some(), Instant::now()) {
                    nap();
                    beside.has_napped(Instant::now());
                }
                std::hint::spin_loop();
                continue;
            }
            seen = order;
            beside = Beside::default();
            let begun = Instant::now();
            if order.is_some_and(|order| self.board.wake(order.heir)) {
                self.woken.fetch_add(1, Ordering::Relaxed);
                // The kernel does not always give the heir the core at once; its next tick is far off.
                if begun.elapsed() < AT_ONCE {
                    nap();
                }
            }
        }
    }
}

fn nap() {
    std::thread::sleep(Duration::from_nanos(1));
}

/// Whether a thread of the lowest class runs on a core that a kthread has: for some microseconds after
/// each park, and for a whole tick where the kernel gives it the core. See `native/batch.c` of the
/// crate for fibers, which does the same at safepoints.
#[derive(Default)]
struct Beside {
    /// Since when, and when it looked last.
    times: Option<(Instant, Instant)>,
    /// The holder waits in the kernel, as the last nap has shown.
    absent: bool,
}

impl Beside {
    /// Whether it is to leave the core to the holder.
    fn steals(&mut self, held: bool, now: Instant) -> bool {
        if !held || self.absent {
            self.times = None;
            return false;
        }
        let known = self.times.filter(|(_, looked)| now - *looked <= GAP);
        let since = known.map_or(now, |(since, _)| since);
        self.times = Some((since, now));
        now - since >= STOLEN
    }

    fn has_napped(&mut self, now: Instant) {
        self.absent = self.times.is_some_and(|(_, looked)| now - looked < ALONE);
        self.times = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_a_kthread_has_is_left_to_it_at_last() {
        let begin = Instant::now();
        let at = |us| begin + Duration::from_micros(us);
        let mut beside = Beside::default();
        let looks = |beside: &mut Beside, span: std::ops::Range<u64>| {
            span.step_by(3).filter(|&us| beside.steals(true, at(us))).count()
        };
        assert_eq!(looks(&mut beside, 0..30), 0, "the daemon has not seen the park yet");
        assert!(!beside.steals(false, at(30)), "the core is free");
        assert_eq!(looks(&mut beside, 31..60), 0);
        // The kthread ran from 60 to 200.
        assert_eq!(looks(&mut beside, 200..230), 0);
        assert!(beside.steals(true, at(231)));
        // It ran while this one napped; then it has gone into the kernel.
        beside.has_napped(at(500));
        assert_eq!(looks(&mut beside, 500..530), 0);
        assert!(beside.steals(true, at(531)));
        beside.has_napped(at(590));
        assert_eq!(looks(&mut beside, 590..1_000), 0, "no kthread wants it");
    }
}
