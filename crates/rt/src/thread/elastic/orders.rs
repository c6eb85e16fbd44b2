//! A batch program's kthreads follow the orders for the cores that they are on, as programs under
//! `curtail batch` do (`native/batch.c` of `curtail-fiber`, for threads that the runtime knows nothing of).
//!
//! All kthreads of the program share what is here. Each looks at its heartbeat, and between two rounds of
//! threads. The first that sees an order wakes the heir, which outranks it and gets the core.

use crate::clock::{self, Clock};
use curtail_fiber::safepoint::{Kind, kind};
use curtail_shm::{BoardView, CoreIndex, Order};
use rustix::thread::{Timespec, nanosleep, sched_getcpu};
use std::sync::atomic::{AtomicU64, Ordering};

/// A wake-up that took less time has not let the heir run, which looks for work for 2 µs at least.
const AT_ONCE_NS: u64 = 1_500;
/// The kernel's numbers of cores are smaller.
const MOST_CPUS: u32 = 1024;

/// Whether the safepoints of this program look often enough.
pub(super) fn are_followed() -> bool {
    kind() == Kind::Clock
}

/// The orders for the cores on which a batch program's kthreads run.
pub(super) struct Orders {
    /// Where on the board a core is, by its number.
    places: Box<[Option<CoreIndex>]>,
    /// By place: the order that was followed last.
    followed: Box<[AtomicU64]>,
}

/// 0: there was none.
fn number(order: Option<Order>) -> u64 {
    order.map_or(0, |order| u64::from(order.generation) << 32 | (u64::from(order.heir.0) + 1))
}

impl Orders {
    /// From now on: an order from before is none for this program.
    pub(super) fn of(board: &BoardView) -> Self {
        let all = || (0..board.cores()).map(CoreIndex);
        let mut places = Vec::new();
        for core in all() {
            let Some(cpu) = board.cpu(core).filter(|&cpu| cpu < MOST_CPUS) else { continue };
            let cpu = cpu as usize;
            if places.len() <= cpu {
                places.resize(cpu + 1, None);
            }
            places[cpu] = Some(core);
        }
        Self {
            places: places.into_boxed_slice(),
            followed: all().map(|core| AtomicU64::new(number(board.order(core)))).collect(),
        }
    }

    /// The cores that are managed, by their numbers.
    pub(super) fn cpus(&self) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(|(_, place)| place.is_some()).map(|(cpu, _)| cpu)
    }

    /// Follows the order for the core that the caller is on, if there is a new one.
    #[inline]
    pub(super) fn follow(&self, board: &BoardView) {
        let Some(&Some(core)) = self.places.get(sched_getcpu()) else { return };
        let Some(order) = board.order(core) else { return };
        let (followed, number) = (&self.followed[core.0 as usize], number(Some(order)));
        if followed.load(Ordering::Relaxed) != number
            && followed.swap(number, Ordering::Relaxed) != number
        {
            give_core(board, order);
        }
    }
}

/// The kernel mostly gives the heir the core before the call is over. Where it does not, the heir would
/// wait for its next tick: then a nap leaves the core to it.
#[cold]
fn give_core(board: &BoardView, order: Order) {
    let begun = clock::now();
    if board.wake(order.heir) && Clock::get().ns(clock::now() - begun) < AT_ONCE_NS {
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_shm::{Board, Slot};
    use std::time::Duration;

    #[test]
    fn an_order_is_followed_once_and_only_on_its_core() {
        let here = sched_getcpu() as u32;
        // Wherever the test runs meanwhile, it is on a managed core.
        let cpus: Vec<u32> = (0..=here.max(63)).collect();
        let board = Board::create(&cpus, 2, Duration::from_micros(5)).unwrap();
        let view = BoardView::map(board.fd().try_clone_to_owned().unwrap()).unwrap();
        board.order(CoreIndex(here), Slot(1));
        let orders = Orders::of(&view);
        assert!(orders.cpus().eq(0..cpus.len()));
        let done = |core: u32| orders.followed[core as usize].load(Ordering::Relaxed);
        let before = done(here);
        orders.follow(&view);
        assert_eq!(done(here), before, "that was before its time");
        cpus.iter().for_each(|&core| _ = board.order(CoreIndex(core), Slot(0)));
        orders.follow(&view);
        let followed = |core: &&u32| done(**core) == number(view.order(CoreIndex(**core)));
        assert_eq!(cpus.iter().filter(followed).count(), 1, "of the core that it was on");
    }
}
