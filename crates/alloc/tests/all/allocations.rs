//! Once the programs are there, nothing allocates.

use crate::common;

use common::chaos::Random;
use common::{batch, critical};
use curtail_alloc::{Allocator, KthreadLook, Machine, Nanos, Settings};

#[test]
fn looks_and_orders_allocate_nothing() {
    let mut allocator = Allocator::new(Machine::of_siblings(8), Settings::default()).unwrap();
    let ids = [critical(8, 2, 6), critical(8, 2, 6), critical(4, 4, 0), batch(8)]
        .map(|program| allocator.add_program(Nanos(0), program).unwrap());
    let mut random = Random::new(3);
    let (mut looks, mut orders, mut now) = ([KthreadLook::IDLE; 8], 0, Nanos(0));
    let info = allocation_counter::measure(|| {
        for _ in 0..100_000 {
            now = now.plus(Nanos(random.below(5_000)));
            let id = ids[random.below(4) as usize];
            looks.fill_with(|| random.look(now));
            allocator.look(now, id, &looks);
            while allocator.poll_order(now).is_some() {
                orders += 1;
            }
        }
    });
    assert!(orders > 10_000, "{orders}");
    assert_eq!(info.count_total, 0);
}
