//! A test for each rule. The driver of these carries out orders as the daemon does, by hand.

mod common;

use common::{Driver, critical, us};
use curtail_alloc::{
    CoreId, Detector, HandOver, Holding, KthreadId, KthreadLook, Machine, Order, Queue, Settings,
};

fn grant(kthread: KthreadId, core: u32, by: HandOver, repin: bool) -> Order {
    Order::Grant { kthread, core: CoreId(core), by, repin }
}

#[test]
fn packets_for_a_program_without_a_core_bring_one_at_once() {
    let mut driver = Driver::new(Machine::of(2), Settings::default());
    let program = driver.add(critical(2, 1, 1));
    driver.allocator.packets_waiting(us(1), program.id);
    assert_eq!(driver.orders(us(1)), [grant(program.kthread(0), 0, HandOver::Kernel, true)]);
    // One core is on its way: no second one for the same packets.
    driver.allocator.packets_waiting(us(2), program.id);
    assert_eq!(driver.orders(us(2)), []);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Held(program.kthread(0)));
}

#[test]
fn what_is_seen_waiting_twice_brings_one_core_more() {
    let settings = Settings { detector: Detector::Queues, ..Settings::default() };
    let mut driver = Driver::new(Machine::of(4), settings);
    let program = driver.add(critical(4, 1, 3));
    driver.run(us(0), &program, 0);
    // Three threads wait on kthread 0: seen once, then again.
    let busy = KthreadLook { run: Queue { head: 1, tail: 4 }, ..common::RUNNING };
    driver.look(us(5), &program, &[(0, busy)]);
    assert_eq!(driver.orders(us(5)), []);
    driver.look(us(7), &program, &[(0, busy)]);
    assert_eq!(driver.orders(us(7)), [], "less than an interval has passed");
    driver.look(us(10), &program, &[(0, busy)]);
    assert_eq!(driver.orders(us(10)).len(), 1, "one a look");
    driver.look(us(15), &program, &[(0, busy)]);
    assert_eq!(driver.orders(us(15)).len(), 1, "more wait than are on their way");
    assert_eq!(driver.allocator.cores_of(program.id), 3);
}

#[test]
fn as_many_on_their_way_as_wait_are_enough() {
    let settings = Settings { detector: Detector::Queues, ..Settings::default() };
    let mut driver = Driver::new(Machine::of(4), settings);
    let program = driver.add(critical(4, 1, 3));
    driver.run(us(0), &program, 0);
    let busy = KthreadLook { run: Queue { head: 1, tail: 2 }, ..common::RUNNING };
    for at in [5, 10, 15, 20] {
        driver.look(us(at), &program, &[(0, busy)]);
    }
    assert_eq!(driver.allocator.cores_of(program.id), 2);
}

#[test]
fn batch_threads_that_float_are_trusted_to_look_only_where_all_of_them_do() {
    let mut driver = Driver::new(Machine::of(1), Settings::default());
    let program = driver.add(critical(1, 1, 0));
    let by = |driver: &mut Driver, at: u64| {
        driver.allocator.packets_waiting(us(at), program.id);
        let orders = driver.orders(us(at));
        let [Order::Grant { by, .. }] = orders[..] else { panic!("{orders:?}") };
        driver.allocator.refused(us(at), program.kthread(0));
        by
    };
    assert_eq!(by(&mut driver, 0), HandOver::Kernel);
    let looking = driver.add(common::batch(0));
    assert_eq!(by(&mut driver, 10_000), HandOver::Line);
    let class = curtail_alloc::Class::Batch { looks: false };
    let blind = driver.add(curtail_alloc::Program { class, ..common::batch(0) });
    assert_eq!(by(&mut driver, 20_000), HandOver::Kernel);
    driver.allocator.remove_program(us(25_000), blind.id);
    assert_eq!(by(&mut driver, 30_000), HandOver::Line);
    driver.allocator.remove_program(us(35_000), looking.id);
    assert_eq!(by(&mut driver, 40_000), HandOver::Kernel);
}
