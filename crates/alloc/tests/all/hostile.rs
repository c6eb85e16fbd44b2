//! Programs that write anything: nothing breaks, and an honest program beside them gets what it is
//! guaranteed in bounded time.

use crate::common;

use common::chaos::Chaos;
use common::critical;
use curtail_alloc::{
    Allocator, Detector, HandOver, KthreadId, KthreadLook, Machine, Nanos, Order, ProgramId, Queue,
    Settings,
};

fn settings(seed: u64) -> Settings {
    let detector = match seed % 3 {
        0 => Detector::Queues,
        1 => Detector::Age { limit: Nanos(10_000) },
        _ => Detector::Either { limit: Nanos(10_000) },
    };
    Settings { detector, idler: seed.is_multiple_of(2), ..Settings::default() }
}

/// Miri takes a thousand times as long, and looks for something else.
fn times(count: u32) -> u32 {
    if cfg!(miri) { count / 1_000 } else { count }
}

#[test]
fn a_million_random_looks_break_nothing() {
    for seed in 1..=10 {
        let cores = 1 + seed as u32 % 8;
        let allocator = Allocator::new(Machine::of_siblings(cores), settings(seed)).unwrap();
        let mut chaos = Chaos::new(allocator, cores, seed);
        for _ in 0..times(150_000) {
            chaos.step(None);
        }
    }
}

/// One honest kthread of a program with one guaranteed core.
struct Honest {
    id: ProgramId,
    look: KthreadLook,
    /// Woken, and when it asked for a core.
    woken: bool,
    asked: Nanos,
    longest: Nanos,
    rounds: u32,
}

impl Honest {
    /// It does what the orders say.
    fn follow(&mut self, now: Nanos, orders: &[Order]) {
        let me = KthreadId { program: self.id, index: 0 };
        for order in orders {
            match *order {
                Order::Grant { kthread, by, .. } if kthread == me => {
                    self.look.acknowledged = false;
                    // An heir waits for its victim, which may never wake it.
                    self.woken = !matches!(by, HandOver::Evict(_));
                }
                Order::Wake { kthread } if kthread == me => self.woken = true,
                Order::Revoke { kthread } | Order::Signal { kthread } if kthread == me => {
                    panic!("{order:?} although it came in time and has no more than its guarantee")
                }
                Order::Grant { by: HandOver::Evict(victim), .. } if victim == me => {
                    panic!("evicted although it has no more than its guarantee")
                }
                _ => {}
            }
        }
        if self.woken && self.look.parked {
            self.longest = self.longest.max(now.since(self.asked));
            self.look = KthreadLook { parked: false, acknowledged: true, ..self.look };
            self.look.inbox.head = self.look.inbox.tail;
            self.rounds += 1;
        }
    }

    /// It gives its core back, and a message comes.
    fn ask_again(&mut self, now: Nanos) {
        self.woken = false;
        self.asked = now;
        self.look.parked = true;
        self.look.inbox.tail = self.look.inbox.tail.wrapping_add(1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "it takes too long there")]
fn an_honest_program_beside_liars_gets_its_guaranteed_core_in_time() {
    for seed in 1..=8 {
        let cores = 1 + seed as u32 % 4;
        let settings = settings(seed);
        let allocator = Allocator::new(Machine::of_siblings(cores), settings).unwrap();
        let mut chaos = Chaos::new(allocator, cores, seed);
        let id = chaos.add(critical(1, 1, 0)).unwrap();
        let queue = Queue { head: 0, tail: 1 };
        let look = KthreadLook { inbox: queue, ..KthreadLook::IDLE };
        let (zero, woken) = (Nanos(0), false);
        let mut honest = Honest { id, look, woken, asked: zero, longest: zero, rounds: 0 };
        chaos.jumps = false;
        for _ in 0..40_000 {
            chaos.step(Some(id));
            honest.follow(chaos.now, &chaos.orders);
            chaos.allocator.look(chaos.now, id, &[honest.look]);
            chaos.drain();
            honest.follow(chaos.now, &chaos.orders);
            if !honest.look.parked && chaos.random.one_in(4) {
                honest.ask_again(chaos.now);
                chaos.allocator.look(chaos.now, id, &[honest.look]);
                chaos.drain();
                honest.follow(chaos.now, &chaos.orders);
            }
        }
        // Two rungs of grace; at each, and before the first, a step of this test may pass.
        let bound = settings.grace.0 * 2 + 3 * 4_000;
        assert!(honest.rounds > 1_000, "it ran {} times", honest.rounds);
        assert!(honest.longest.0 <= bound, "it waited for {:?}", honest.longest);
    }
}

#[test]
fn a_kthread_that_lies_about_work_is_granted_less_and_less() {
    let settings = Settings::default();
    let mut allocator = Allocator::new(Machine::of(1), settings).unwrap();
    let id = allocator.add_program(Nanos(0), critical(1, 1, 0)).unwrap();
    let lie = KthreadLook { inbox: Queue { head: 0, tail: 7 }, ..KthreadLook::IDLE };
    let mut grants = 0;
    let looks = times(100_000);
    for at in 0..looks {
        let now = Nanos(u64::from(at) * 5_000);
        // It always says that it has parked, and that it has work.
        allocator.look(now, id, &[lie]);
        while let Some(order) = allocator.poll_order(now) {
            grants += u64::from(matches!(order, Order::Grant { .. }));
        }
    }
    assert!((4..250).contains(&grants), "{grants} of {looks}");
}
