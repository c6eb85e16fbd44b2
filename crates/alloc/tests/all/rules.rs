//! A test for each rule. The driver of these carries out orders as the daemon does, by hand.

use crate::common;

use common::{Driver, RUNNING, batch, critical, us};
use curtail_alloc::{
    Allocator, Class, CoreId, CoreInfo, Detector, HandOver, Holding, KthreadId, KthreadLook,
    Machine, Nanos, Order, Program, Queue, Refusal, Settings,
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
    let busy = KthreadLook { run: Queue { head: 1, tail: 4 }, ..RUNNING };
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
    let busy = KthreadLook { run: Queue { head: 1, tail: 2 }, ..RUNNING };
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

/// Messages wait for this kthread.
const ASKS: KthreadLook = KthreadLook { inbox: Queue { head: 0, tail: 1 }, ..KthreadLook::IDLE };

#[test]
fn started_threads_that_wait_bring_no_other_kthread_a_core() {
    let mut driver = Driver::new(Machine::of(4), Settings::default());
    let program = driver.add(critical(4, 1, 3));
    driver.run(us(0), &program, 0);
    let run = Queue { head: 1, tail: 4 };
    let busy = KthreadLook { run, stranded: 3, oldest_ready: Some(us(0)), ..RUNNING };
    for at in [5, 10, 15, 20] {
        driver.look(us(at), &program, &[(0, busy)]);
    }
    assert_eq!(driver.allocator.cores_of(program.id), 1);
}

#[test]
fn under_processor_sharing_age_counts() {
    let settings =
        Settings { detector: Detector::Age { limit: Nanos(10_000) }, ..Settings::default() };
    let mut driver = Driver::new(Machine::of(4), settings);
    let program = driver.add(critical(4, 1, 3));
    driver.run(us(0), &program, 0);
    // Two threads take turns: each look finds other counters.
    let look = |at: u32| KthreadLook {
        run: Queue { head: at * 3, tail: at * 3 + 1 },
        oldest_ready: Some(us(2)),
        ..RUNNING
    };
    driver.look(us(12), &program, &[(0, look(1))]);
    assert_eq!(driver.allocator.cores_of(program.id), 1);
    driver.look(us(17), &program, &[(0, look(2))]);
    assert_eq!(driver.allocator.cores_of(program.id), 2);
}

#[test]
fn each_parked_kthread_with_work_of_its_own_gets_a_core() {
    let mut driver = Driver::new(Machine::of(8), Settings::default());
    let program = driver.add(critical(6, 1, 5));
    let stranded = KthreadLook { stranded: 1, ..KthreadLook::IDLE };
    let timer = KthreadLook { next_timer: Some(us(3)), ..KthreadLook::IDLE };
    let later = KthreadLook { next_timer: Some(us(9)), ..KthreadLook::IDLE };
    driver.look(us(4), &program, &[(1, ASKS), (2, stranded), (4, timer), (5, later)]);
    let whom: Vec<u32> = driver.orders(us(4)).iter().map(|it| it.kthread().index).collect();
    assert_eq!(whom, [1, 2, 4]);
}

#[test]
fn a_timer_of_a_parked_kthread_is_the_next_wakeup() {
    let settings = Settings { interval: Nanos(1_000_000), ..Settings::default() };
    let mut driver = Driver::new(Machine::of(1), settings);
    assert_eq!(driver.allocator.next_wakeup(us(1)), None, "no program");
    let program = driver.add(critical(1, 1, 0));
    let later = KthreadLook { next_timer: Some(us(300)), ..KthreadLook::IDLE };
    driver.look(us(0), &program, &[(0, later)]);
    assert_eq!(driver.allocator.next_wakeup(us(1)), Some(us(300)));
    assert_eq!(driver.orders(us(299)), []);
    assert_eq!(driver.orders(us(300)).len(), 1, "without another look");
    assert_eq!(driver.allocator.next_wakeup(us(1_001)), Some(us(1_001)), "a look is due");
}

#[test]
fn the_sibling_comes_first_then_the_core_it_had_then_a_free_one() {
    let mut driver = Driver::new(Machine::of_siblings(6), Settings::default());
    let [a, b] = [critical(3, 2, 1), critical(3, 2, 1)].map(|it| driver.add(it));
    driver.run(us(0), &a, 0);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Held(a.kthread(0)));
    // Not beside a stranger while whole cores are free.
    driver.run(us(0), &b, 0);
    assert_eq!(driver.allocator.holding(CoreId(2)), Holding::Held(b.kthread(0)));
    driver.run(us(0), &a, 1);
    assert_eq!(driver.allocator.holding(CoreId(1)), Holding::Held(a.kthread(1)));
    // Both of its own are taken, so a free one; and the same again, to which it is bound by now.
    for repin in [true, false] {
        driver.look(us(10), &a, &[(2, ASKS)]);
        let expected = [grant(a.kthread(2), 4, HandOver::Kernel, repin)];
        assert_eq!(driver.orders(us(10)), expected);
        driver.look(us(10), &a, &[(2, KthreadLook::IDLE)]);
        assert_eq!(driver.allocator.holding(CoreId(4)), Holding::Free);
    }
}

#[test]
fn a_core_without_batch_is_better_and_hand_over_is_by_who_looks() {
    let mut driver = Driver::new(Machine::of(2), Settings { idler: true, ..Settings::default() });
    let looks = driver.add(batch(1));
    let placed = [Order::Place { kthread: looks.kthread(0), core: CoreId(0) }];
    assert_eq!(driver.orders(us(0)), placed);
    let [a, b] = [critical(1, 1, 0), critical(1, 1, 0)].map(|it| driver.add(it));
    driver.look(us(0), &a, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(0)), [grant(a.kthread(0), 1, HandOver::Line, true)]);
    driver.look(us(0), &b, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(0)), [grant(b.kthread(0), 0, HandOver::Line, true)]);
    driver.look(us(1), &b, &[(0, KthreadLook::IDLE)]);
    // One that does not look makes it the kernel's.
    let blind = Program { class: Class::Batch { looks: false }, ..batch(0) };
    let blind = driver.add(blind);
    driver.look(us(2), &b, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(2)), [grant(b.kthread(0), 0, HandOver::Kernel, false)]);
    driver.look(us(3), &b, &[(0, KthreadLook::IDLE)]);
    driver.allocator.remove_program(us(3), blind.id);
    driver.look(us(4), &b, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(4)), [grant(b.kthread(0), 0, HandOver::Line, false)]);
}

#[test]
fn batch_kthreads_are_spread_and_leave_taken_cores() {
    let mut driver = Driver::new(Machine::of(3), Settings::default());
    let jobs = driver.add(batch(2));
    let place = |index, core| Order::Place { kthread: jobs.kthread(index), core: CoreId(core) };
    assert_eq!(driver.orders(us(0)), [place(0, 0), place(1, 1)]);
    let service = driver.add(critical(3, 3, 0));
    driver.run(us(0), &service, 0);
    assert_eq!(driver.allocator.holding(CoreId(2)), Holding::Held(service.kthread(0)));
    driver.run(us(0), &service, 1);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Held(service.kthread(1)));
    // The first gives its core back; in time, batch moves there.
    driver.look(us(500), &service, &[(0, KthreadLook::IDLE)]);
    assert_eq!(driver.orders(us(999)), []);
    assert_eq!(driver.orders(us(1_000)), [place(0, 2)]);
    assert_eq!(driver.orders(us(2_000)), [], "all is well");
}

#[test]
fn a_burstable_core_is_taken_for_a_guaranteed_one_only() {
    let mut driver = Driver::new(Machine::of(3), Settings::default());
    let [a, b] = [critical(3, 1, 2), critical(3, 1, 2)].map(|it| driver.add(it));
    for index in 0..3 {
        driver.run(us(index.into()), &a, index);
    }
    // The last that came goes first.
    driver.look(us(10), &b, &[(0, ASKS)]);
    let orders = driver.orders(us(10));
    assert_eq!(orders, [grant(b.kthread(0), 2, HandOver::Evict(a.kthread(2)), true)]);
    let (victim, heir) = (a.kthread(2), Some(b.kthread(0)));
    assert_eq!(driver.allocator.holding(CoreId(2)), Holding::Leaving(victim, heir));
    let cores = |driver: &Driver| [&a, &b].map(|it| driver.allocator.cores_of(it.id));
    assert_eq!(cores(&driver), [2, 1]);
    // It has what it is guaranteed: no more of others'.
    driver.look(us(11), &b, &[(1, ASKS)]);
    assert_eq!(driver.orders(us(11)), []);
    // The victim parks as the order says, and wakes its heir itself.
    driver.look(us(12), &a, &[(2, KthreadLook::IDLE)]);
    assert_eq!(driver.orders(us(12)), []);
    assert_eq!(driver.allocator.holding(CoreId(2)), Holding::Held(b.kthread(0)));
    // The wish was kept: the next core that comes back is for it.
    driver.look(us(13), &a, &[(1, KthreadLook::IDLE)]);
    assert_eq!(driver.orders(us(13)), [grant(b.kthread(1), 1, HandOver::Kernel, true)]);
    assert_eq!(cores(&driver), [1, 2]);
}

#[test]
fn a_grant_that_is_late_is_woken_by_the_kernel_then_taken_back() {
    let settings = Settings { idler: true, ..Settings::default() };
    let mut driver = Driver::new(Machine::of(1), settings);
    let program = driver.add(critical(1, 1, 0));
    let kthread = program.kthread(0);
    driver.look(us(0), &program, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(0)), [grant(kthread, 0, HandOver::Line, true)]);
    assert_eq!(driver.orders(us(9)), []);
    assert_eq!(driver.orders(us(10)), [Order::Wake { kthread }]);
    assert_eq!(driver.orders(us(1_009)), []);
    assert_eq!(driver.orders(us(1_010)), [Order::Revoke { kthread }]);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Free);
    driver.look(us(1_500), &program, &[]);
    assert_eq!(driver.orders(us(1_500)), [], "it rests");
    driver.look(us(2_010), &program, &[]);
    assert_eq!(driver.orders(us(2_010)), [grant(kthread, 0, HandOver::Line, false)]);
    // A grant that could not be carried out is taken back at once.
    driver.allocator.refused(us(2_011), kthread);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Free);
}

#[test]
fn a_victim_that_stays_is_signalled_then_moved() {
    let mut driver = Driver::new(Machine::of(1), Settings::default());
    let [a, b] = [critical(1, 0, 1), critical(1, 1, 0)].map(|it| driver.add(it));
    driver.run(us(0), &a, 0);
    driver.look(us(1), &b, &[(0, ASKS)]);
    let (victim, heir) = (a.kthread(0), b.kthread(0));
    assert_eq!(driver.orders(us(1)), [grant(heir, 0, HandOver::Evict(victim), true)]);
    assert_eq!(driver.orders(us(10)), []);
    assert_eq!(driver.orders(us(11)), [Order::Signal { kthread: victim }]);
    assert_eq!(driver.orders(us(20)), []);
    let expected = [Order::MoveToShared { kthread: victim }, Order::Wake { kthread: heir }];
    assert_eq!(driver.orders(us(21)), expected);
    driver.look(us(22), &b, &[(0, RUNNING)]);
    driver.look(us(23), &b, &[(0, KthreadLook::IDLE)]);
    // It gets no core before it has parked.
    driver.look(us(24), &a, &[(0, KthreadLook { parked: false, ..ASKS })]);
    assert_eq!(driver.orders(us(24)), []);
    driver.look(us(25), &a, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(25)), [grant(victim, 0, HandOver::Kernel, true)]);
}

#[test]
fn a_victim_that_parked_before_it_saw_the_word_has_woken_no_heir() {
    let mut driver = Driver::new(Machine::of(1), Settings::default());
    let [a, b] = [critical(1, 0, 1), critical(1, 1, 0)].map(|it| driver.add(it));
    driver.run(us(0), &a, 0);
    driver.look(us(1), &b, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(1)).len(), 1);
    let parked = KthreadLook { acknowledged: false, ..KthreadLook::IDLE };
    driver.look(us(2), &a, &[(0, parked)]);
    assert_eq!(driver.orders(us(2)), [Order::Wake { kthread: b.kthread(0) }]);
}

#[test]
fn a_kthread_that_runs_without_a_core_is_moved() {
    let mut driver = Driver::new(Machine::of(2), Settings::default());
    let program = driver.add(critical(2, 1, 1));
    for at in [0, 5, 9] {
        driver.look(us(at), &program, &[(1, RUNNING)]);
        assert_eq!(driver.orders(us(at)), []);
    }
    driver.look(us(10), &program, &[]);
    assert_eq!(driver.orders(us(10)), [Order::MoveToShared { kthread: program.kthread(1) }]);
}

#[test]
fn the_cores_of_the_dead_are_free_at_once() {
    let mut driver = Driver::new(Machine::of(2), Settings::default());
    let [a, b] = [critical(2, 1, 1), critical(1, 1, 0)].map(|it| driver.add(it));
    driver.run(us(0), &a, 0);
    driver.run(us(0), &a, 1);
    driver.look(us(1), &b, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(1)).len(), 1, "an eviction");
    driver.allocator.remove_program(us(2), a.id);
    assert_eq!(driver.orders(us(2)), [Order::Wake { kthread: b.kthread(0) }]);
    assert_eq!(driver.allocator.cores_of(a.id), 0);
    assert_eq!(driver.allocator.unpromised(), 1);
    // An heir that dies leaves its victim, which has the order to park, without one.
    let c = driver.add(critical(2, 0, 2));
    driver.run(us(3), &c, 0);
    driver.look(us(4), &b, &[(0, RUNNING)]);
    let d = driver.add(critical(1, 1, 0));
    driver.look(us(5), &d, &[(0, ASKS)]);
    assert_eq!(driver.orders(us(5)).len(), 1);
    driver.allocator.remove_program(us(6), d.id);
    let leaving = driver.allocator.holding(CoreId(1));
    assert_eq!(leaving, Holding::Leaving(c.kthread(0), None));
    driver.look(us(7), &c, &[(0, KthreadLook::IDLE)]);
    assert_eq!(driver.orders(us(7)), []);
    assert_eq!(driver.allocator.holding(CoreId(1)), Holding::Free);
}

#[test]
fn a_victim_keeps_its_core_where_the_heir_dies_before_the_order_is_taken() {
    let mut driver = Driver::new(Machine::of(1), Settings::default());
    let [a, b] = [critical(1, 0, 1), critical(1, 1, 0)].map(|it| driver.add(it));
    driver.run(us(0), &a, 0);
    driver.look(us(1), &b, &[(0, ASKS)]);
    driver.allocator.remove_program(us(1), b.id);
    assert_eq!(driver.orders(us(1)), []);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Held(a.kthread(0)));
    assert_eq!(driver.allocator.cores_of(a.id), 1);
    driver.look(us(2), &a, &[]);
    assert_eq!(driver.orders(us(50)), [], "it runs as before");
}

#[test]
fn a_look_before_an_order_is_taken_is_no_answer_to_it() {
    let mut driver = Driver::new(Machine::of(1), Settings::default());
    let program = driver.add(critical(1, 1, 0));
    driver.look(us(0), &program, &[(0, ASKS)]);
    // It is parked and has seen its word: that of before the grant.
    driver.look(us(0), &program, &[]);
    assert_eq!(driver.allocator.holding(CoreId(0)), Holding::Held(program.kthread(0)));
    assert_eq!(driver.orders(us(0)).len(), 1);
}

#[test]
fn what_can_not_be_is_refused() {
    let mut allocator = Allocator::new(Machine::of(4), Settings::default()).unwrap();
    let mut add = |program| allocator.add_program(Nanos(0), program).map(|_| ());
    assert_eq!(add(critical(4, 3, 1)), Ok(()));
    for (program, refusal) in [
        (critical(4, 2, 1), Refusal::Promised { asked: 2, left: 1 }),
        (critical(0, 0, 1), Refusal::Kthreads { asked: 0, most: 1024 }),
        (critical(1_025, 0, 1), Refusal::Kthreads { asked: 1_025, most: 1024 }),
        (critical(1, 2, 0), Refusal::MoreThanKthreads { guaranteed: 2, kthreads: 1 }),
        (critical(1, 0, 0), Refusal::NoCores),
        (Program { guaranteed: 1, ..batch(1) }, Refusal::BatchGuarantee),
    ] {
        assert_eq!(add(program), Err(refusal));
    }
    // Nothing is guaranteed to a liar, and that can be promised to others.
    let first = curtail_alloc::ProgramId(0);
    allocator.demote(Nanos(1), first);
    assert_eq!(allocator.unpromised(), 4);
    for siblings in [&[Some(0)][..], &[Some(1), None], &[Some(7)], &[]] {
        let core = |sibling: &Option<u32>| CoreInfo { sibling: sibling.map(CoreId) };
        let machine = Machine { cores: siblings.iter().map(core).collect() };
        assert!(Allocator::new(machine, Settings::default()).is_err(), "{siblings:?}");
    }
}
