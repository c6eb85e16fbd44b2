//! DARC by the examples that Perséphone's text gives, and by small ones that can be checked by
//! hand. Histories too long to write by hand are in `darc_histories.rs`.

use curtail_policy::*;
use std::ops::Range;

const NOW: Nanos = Nanos::ZERO;

/// `(service in ns, occurrence)` of each class.
type Mix = [(u64, u32)];

const HIGH_BIMODAL: &Mix = &[(1_000, 50), (100_000, 50)];
const EXTREME_BIMODAL: &Mix = &[(500, 995), (500_000, 5)];
const ROCKSDB: &Mix = &[(1_500, 50), (635_000, 50)];
/// Payment, OrderStatus, NewOrder, Delivery, StockLevel.
const TPCC: &Mix = &[(5_700, 44), (6_000, 4), (20_000, 44), (88_000, 4), (100_000, 4)];

fn knowing(name: &str, mix: &Mix) -> Spec {
    let mut spec = Spec::preset(name).unwrap();
    for (class, &(ns, occurrence)) in mix.iter().enumerate() {
        let plan = spec.plan_mut(class);
        (plan.service, plan.occurrence) = (Some(Nanos(ns)), Some(occurrence));
    }
    spec
}

fn darc(policy: &AnyPolicy) -> &Darc {
    let AnyPolicy::Darc(darc) = policy else { panic!("it is DARC") };
    darc
}

/// Group, reserved and stealable workers of each class, in the order in which they are served.
fn plan(spec: &Spec, workers: usize) -> Vec<(u16, u16, Range<usize>, Range<usize>)> {
    let policy = spec.build(workers, 4, 0);
    let all = darc(&policy).reservations();
    all.map(|it| (it.class.0, it.group, it.reserved, it.stealable)).collect()
}

fn job(id: u32, class: u16) -> Job {
    Job::new(JobId(id), ClassId(class), NOW)
}

fn arrive(policy: &mut AnyPolicy, jobs: &[(u32, u16)]) {
    jobs.iter().for_each(|&(id, class)| policy.arrive(NOW, job(id, class)).unwrap());
}

/// All decisions: which job where.
fn all(policy: &mut AnyPolicy) -> Vec<(u32, u16)> {
    let next = || match policy.decide(NOW) {
        Decision::Run { job, on, .. } => Some((job.id.0, on.0)),
        Decision::Idle => None,
        Decision::Preempt { .. } => panic!("it pre-empts by quanta only"),
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn tpcc_on_14_workers() {
    // §5.4.3: group A has workers 1 and 2 and steals from 3–14, B has 3–8 and steals from 9–14, and
    // C has 9–14 and does not steal.
    assert_eq!(
        plan(&knowing("darc", TPCC), 14),
        [
            (0, 0, 0..2, 2..14),
            (1, 0, 0..2, 2..14),
            (2, 1, 2..8, 8..14),
            (3, 2, 8..14, 14..14),
            (4, 2, 8..14, 14..14),
        ]
    );
}

#[test]
fn the_bimodal_mixes_on_14_workers() {
    // §5.2: one core, §5.4.2: two, §5.4.4: one; the long ones have the others (§5.5: 13 of 14).
    for (mix, short) in [(HIGH_BIMODAL, 1), (EXTREME_BIMODAL, 2), (ROCKSDB, 1)] {
        let expected = [(0, 0, 0..short, short..14), (1, 1, short..14, 14..14)];
        assert_eq!(plan(&knowing("persephone", mix), 14), expected);
    }
}

#[test]
fn the_waste_that_the_paper_states() {
    // §5.2: 0.86 of a core with high-bimodal, §5.4.4: 0.96 with RocksDB.
    for (mix, hundredths) in [(HIGH_BIMODAL, 86.0), (ROCKSDB, 96.0)] {
        let policy = knowing("darc", mix).build(14, 1, 0);
        let short = darc(&policy).reservations().next().unwrap();
        let waste = short.reserved.len() as f64 - short.share * 14.0;
        assert!((waste * 100.0 - hundredths).abs() < 1.5, "{waste}");
    }
}

#[test]
fn delta_makes_the_groups() {
    let groups = |percent| {
        let mut spec = knowing("darc", TPCC);
        spec.darc.delta_percent = percent;
        plan(&spec, 14).into_iter().map(|(_, group, ..)| group).collect::<Vec<_>>()
    };
    assert_eq!(groups(100), [0, 1, 2, 3, 4]);
    assert_eq!(groups(106), [0, 0, 1, 2, 3]);
    assert_eq!(groups(200), [0, 0, 1, 2, 2]);
    assert_eq!(groups(400), [0, 0, 0, 1, 1]);
    assert_eq!(groups(2_000), [0; 5]);
}

#[test]
fn who_finds_no_free_worker_has_the_spillway() {
    // Demands of 0.3, 1.7 and 1 of three workers, rounded up to 1, 2 and 1.
    let mix = &[(1_000, 300), (10_000, 170), (100_000, 10)];
    let expected = [(0, 0, 0..1, 1..3), (1, 1, 1..3, 3..3), (2, 2, 2..3, 3..3)];
    assert_eq!(plan(&knowing("darc", mix), 3), expected);
    // More groups than workers, and a single worker.
    let expected = [(0, 0, 0..1, 1..2), (1, 1, 1..2, 2..2), (2, 2, 1..2, 2..2)];
    assert_eq!(plan(&knowing("darc", mix), 2), expected);
    assert!(
        plan(&knowing("darc", TPCC), 1)
            .iter()
            .all(|(.., own, more)| { *own == (0..1) && more.is_empty() })
    );
}

#[test]
fn two_spillway_workers() {
    let mut spec = knowing("darc", TPCC);
    spec.darc.spillway = 2;
    let expected: [Range<usize>; 5] = [0..1, 0..1, 1..2, 2..3, 2..3];
    let reserved: Vec<_> = plan(&spec, 3).into_iter().map(|(_, _, own, _)| own).collect();
    assert_eq!(reserved, expected);
    let second: Vec<_> = plan(&spec, 2).into_iter().map(|(_, _, own, _)| own).collect();
    assert_eq!(second, [0..1, 0..1, 1..2, 0..1, 0..1], "all are spillway, and it starts over");
    spec.darc.spillway = 9;
    assert_eq!(darc(&spec.build(3, 1, 0)).spillway(), 0..3, "no more than there are");
}

#[test]
fn darc_static_reserves_what_it_is_told_to() {
    for (reserved, short, long) in [(0, 0..0, 0..14), (3, 0..3, 3..14), (13, 0..13, 13..14)] {
        let spec = knowing("darc-static", HIGH_BIMODAL).with_reserved(reserved).unwrap();
        let plan = plan(&spec, 14);
        assert_eq!((&plan[0].2, &plan[1].2), (&short, &long));
        assert_eq!(plan[0].3, usize::from(reserved)..14, "short ones go anywhere");
    }
    let spec = knowing("darc-static", TPCC).with_reserved(4).unwrap();
    let own: Vec<_> = plan(&spec, 14).into_iter().map(|(_, _, own, _)| own).collect();
    assert_eq!(own, [0..4, 4..14, 4..14, 4..14, 4..14]);
    assert_eq!(plan(&knowing("darc-static", HIGH_BIMODAL), 1)[1].2, 0..1, "one serves all");
}

#[test]
fn darc_ps_reserves_what_is_kept_busy() {
    let own = |spec: &Spec, workers| -> Vec<_> {
        plan(spec, workers).into_iter().map(|(_, _, own, _)| own).collect()
    };
    // A demand of 0.14, less its root, is none; of 2.65 and 9.7, 1 and 6.
    assert_eq!(own(&knowing("darc-ps", HIGH_BIMODAL), 14), [0..0, 0..14]);
    let extreme = knowing("darc-ps", EXTREME_BIMODAL);
    assert_eq!(own(&extreme, 16), [0..1, 1..16]);
    assert_eq!(own(&extreme, 58), [0..6, 6..58]);
    for workers in [1, 2] {
        assert_eq!(own(&extreme, workers), [0..0, 0..workers], "a pre-emptive priority");
    }
    let tpcc = knowing("darc-ps", TPCC);
    assert_eq!(own(&tpcc, 14), [0..0, 0..0, 0..0, 0..14, 0..14], "all longer than a quantum");
    let coarse = tpcc.with_quantum(Nanos(10_000)).unwrap();
    assert_eq!(own(&coarse, 28), [0..2, 0..2, 2..2, 2..28, 2..28]);
}

#[test]
fn a_new_quantum_is_a_new_plan() {
    let mut policy = knowing("darc-ps", EXTREME_BIMODAL).build(16, 4, 0);
    let own = |policy: &AnyPolicy| darc(policy).reservations().next().unwrap().reserved;
    assert_eq!(own(&policy), 0..1);
    policy.set_quantum(Some(Nanos(400)));
    assert_eq!(own(&policy), 0..0);
    policy.set_quantum(Some(Nanos(600)));
    assert_eq!(own(&policy), 0..1);
}

#[test]
fn short_ones_go_first_and_steal() {
    let mut policy = knowing("darc", HIGH_BIMODAL).build(3, 16, 0);
    arrive(&mut policy, &[(0, 1), (1, 1), (2, 1), (3, 0), (4, 0)]);
    // Worker 0 is theirs, worker 1 is stolen, and worker 2 is left for a long one.
    assert_eq!(all(&mut policy), [(3, 0), (4, 1), (0, 2)]);
    policy.completed(NOW, WorkerId(0), JobId(3), Nanos(1_000));
    assert_eq!(all(&mut policy), [], "worker 0 stays idle although two wait");
    policy.completed(NOW, WorkerId(1), JobId(4), Nanos(1_000));
    assert_eq!(all(&mut policy), [(1, 1)]);
    assert_eq!(policy.waiting(), 1);
}

#[test]
fn classes_of_a_group_share_workers_and_the_shorter_goes_first() {
    let mut policy = knowing("darc", TPCC).build(14, 32, 0);
    // Fourteen StockLevels on six workers, and one Delivery.
    (0..14).for_each(|id| arrive(&mut policy, &[(id, 4)]));
    let on: Vec<u16> = all(&mut policy).into_iter().map(|(_, on)| on).collect();
    assert_eq!(on, (8..14).collect::<Vec<u16>>());
    arrive(&mut policy, &[(20, 3)]);
    policy.completed(NOW, WorkerId(11), JobId(3), Nanos(100_000));
    assert_eq!(all(&mut policy), [(20, 11)]);
}

#[test]
fn unknown_and_unexpected_ones_have_the_spillway_after_all_others() {
    let mut spec = knowing("darc", EXTREME_BIMODAL);
    spec.plan_mut(2).name = Some("never seen".into());
    let mut policy = spec.build(4, 16, 0);
    arrive(&mut policy, &[(0, ClassId::UNKNOWN.0), (1, 2), (2, 77), (3, 0)]);
    assert_eq!(all(&mut policy), [(3, 0), (0, 3)], "worker 3, and nowhere else");
    arrive(&mut policy, &[(4, 1), (5, 1), (6, 1), (7, 1)]);
    assert_eq!(all(&mut policy), [(4, 1), (5, 2)]);
    policy.completed(NOW, WorkerId(3), JobId(0), Nanos(10));
    assert_eq!(all(&mut policy), [(6, 3)], "long, but known");
    policy.completed(NOW, WorkerId(1), JobId(4), Nanos(500_000));
    policy.completed(NOW, WorkerId(3), JobId(6), Nanos(500_000));
    assert_eq!(all(&mut policy), [(7, 1), (1, 3)], "in the order of arrival");
}

#[test]
fn c_fcfs_until_the_first_profile() {
    let mut spec = Spec::preset("darc").unwrap();
    spec.darc.window = 4;
    let mut policy = spec.build(2, 16, 0);
    arrive(&mut policy, &[(0, 1), (1, 1), (2, 1), (3, 0), (4, 5), (5, 0)]);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1)]);
    let name = |class: ClassId| format!("c{}", class.0);
    assert_eq!(darc(&policy).explain(name), "c-fcfs until the first profile (0 of 4 samples)");
    for (id, on, ns, next) in [(0, 0, 90_000, 2), (1, 1, 90_000, 3), (3, 1, 1_000, 4)] {
        policy.completed(NOW, WorkerId(on), JobId(id), Nanos(ns));
        assert_eq!(all(&mut policy), [(next, on)]);
    }
    assert_eq!(darc(&policy).updates(), 0);
    policy.completed(NOW, WorkerId(0), JobId(2), Nanos(90_000));
    assert_eq!(
        darc(&policy).explain(name),
        "c0 (demand 0.01): workers 0, steals 1; c1 (demand 1.99): workers 1; spillway 1; 1 updates"
    );
    arrive(&mut policy, &[(6, 1)]);
    assert_eq!(all(&mut policy), [(5, 0)], "a long one may not have worker 0 any more");
}

#[test]
fn a_workload_that_swaps_gets_new_reservations() {
    let mut spec = knowing("darc", HIGH_BIMODAL);
    spec.darc.window = 100;
    let mut policy = spec.build(14, 4, 0);
    let mut serve = |n: usize, delay: u64, times: [u64; 2]| {
        for id in 0..n as u32 {
            let class = (id % 2) as u16;
            let arrived = Nanos(1_000_000);
            let now = arrived + Nanos(delay);
            policy.arrive(arrived, Job { arrived, ..job(0, class) }).unwrap();
            let Decision::Run { on, .. } = policy.decide(now) else { panic!("all are idle") };
            policy.completed(now, on, JobId(0), Nanos(times[usize::from(class)]));
        }
        let order: Vec<u16> = darc(&policy).reservations().map(|it| it.class.0).collect();
        (darc(&policy).updates(), order)
    };
    assert_eq!(serve(1_000, 0, [100_000, 1_000]), (0, vec![0, 1]), "no request waits");
    // A window begins when the first request waits, and deviates.
    let (updates, order) = serve(300, 11_000, [100_000, 1_000]);
    assert_eq!((updates, order), (1, vec![1, 0]));
    assert_eq!(serve(1_000, 11_000, [100_000, 1_000]).0, updates, "what fits stays");
}

#[test]
fn an_inbox_behind_another_job_is_for_the_group_itself() {
    let mut policy = knowing("darc", HIGH_BIMODAL).with_jbsq(2).unwrap().build(3, 16, 0);
    (0..8).for_each(|id| arrive(&mut policy, &[(id, 1)]));
    assert_eq!(all(&mut policy), [(0, 1), (1, 2), (2, 1), (3, 2)]);
    (8..12).for_each(|id| arrive(&mut policy, &[(id, 0)]));
    assert_eq!(all(&mut policy), [(8, 0), (9, 0)], "not behind long ones");
    policy.completed(NOW, WorkerId(2), JobId(1), Nanos(100_000));
    assert_eq!(all(&mut policy), [(4, 2)]);
    policy.completed(NOW, WorkerId(1), JobId(0), Nanos(100_000));
    policy.completed(NOW, WorkerId(1), JobId(2), Nanos(100_000));
    assert_eq!(all(&mut policy), [(10, 1), (5, 1)], "an idle worker may be stolen");
}

/// `darc-ps` with one worker, which knows high-bimodal from so many completions of each class.
fn measured(times: [[u64; 4]; 2]) -> AnyPolicy {
    let mut spec = Spec::preset("darc-ps").unwrap();
    spec.darc.window = 8;
    let mut policy = spec.build(1, 16, 0);
    for (class, ns) in (0..).zip(times).flat_map(|(class, times)| times.map(|ns| (class, ns))) {
        arrive(&mut policy, &[(9, class)]);
        assert_eq!(all(&mut policy), [(9, 0)]);
        policy.completed(NOW, WorkerId(0), JobId(9), Nanos(ns));
    }
    assert_eq!(darc(&policy).updates(), 1);
    policy
}

const ALIKE: [[u64; 4]; 2] = [[1_000; 4], [100_000; 4]];

/// A measured policy whose worker runs job 0 of class 1.
fn pre_empting() -> AnyPolicy {
    let mut policy = measured(ALIKE);
    arrive(&mut policy, &[(0, 1)]);
    assert_eq!(all(&mut policy), [(0, 0)]);
    policy
}

#[test]
fn a_long_one_yields_to_short_ones_and_not_to_its_like() {
    let mut policy = pre_empting();
    let on = WorkerId(0);
    arrive(&mut policy, &[(1, 1)]);
    assert!(!policy.wants_place(NOW, on), "service times hardly vary");
    arrive(&mut policy, &[(2, 0), (3, 0)]);
    assert!(policy.wants_place(NOW, on));
    let attained = Nanos(2_000);
    policy.yielded(NOW, on, Job { attained, pinned: Some(on), ..job(0, 1) });
    for id in [2, 3] {
        assert_eq!(all(&mut policy), [(id, 0)]);
        assert!(!policy.wants_place(NOW, on), "only longer ones wait");
        policy.completed(NOW, on, JobId(id), Nanos(1_000));
    }
    assert_eq!(all(&mut policy), [(0, 0)], "who has started goes on before those like it");
    policy.completed(NOW, on, JobId(0), Nanos(100_000));
    assert_eq!(all(&mut policy), [(1, 0)]);
}

#[test]
fn who_turns_out_to_be_long_goes_on_among_the_long() {
    let mut policy = measured(ALIKE);
    arrive(&mut policy, &[(0, 0), (1, 1)]);
    assert_eq!(all(&mut policy), [(0, 0)]);
    arrive(&mut policy, &[(2, 0)]);
    let later = Nanos(49_000);
    assert!(!policy.wants_place(later, WorkerId(0)), "like its own class");
    let later = Nanos(50_000);
    assert!(policy.wants_place(later, WorkerId(0)), "half as long as the long");
    policy.yielded(later, WorkerId(0), Job { attained: later, ..job(0, 0) });
    assert_eq!(all(&mut policy), [(2, 0)]);
    policy.completed(later, WorkerId(0), JobId(2), Nanos(1_000));
    assert_eq!(all(&mut policy), [(0, 0)], "among them it is the one that has started");
}

#[test]
fn where_service_times_vary_new_ones_go_first_and_others_take_turns() {
    let mut policy = measured([[100, 100, 100, 5_000], [50_000, 50_000, 50_000, 250_000]]);
    let on = WorkerId(0);
    arrive(&mut policy, &[(0, 0), (1, 0)]);
    assert_eq!(all(&mut policy), [(0, 0)]);
    let mut yields = |id, ids: &[u32]| {
        assert!(policy.wants_place(NOW, on));
        policy.yielded(NOW, on, Job { attained: Nanos(2_000), ..job(id, 0) });
        ids.iter().for_each(|&id| arrive(&mut policy, &[(id, 0)]));
        all(&mut policy)
    };
    assert_eq!(yields(0, &[]), [(1, 0)]);
    assert_eq!(yields(1, &[2, 3]), [(2, 0)]);
    assert_eq!(yields(2, &[]), [(3, 0)]);
    for (runs, next) in [(3, 0), (0, 1), (1, 2), (2, 3)] {
        assert_eq!(yields(runs, &[]), [(next, 0)]);
    }
}

#[test]
fn a_pinned_long_one_goes_on_where_it_is() {
    // Reservations change while a long job is blocked on a worker that is not its group's any more.
    let mut spec = Spec::preset("darc").unwrap();
    spec.darc.window = 2;
    let mut policy = spec.build(2, 16, 0);
    let on = WorkerId(0);
    arrive(&mut policy, &[(0, 1), (1, 1), (2, 0)]);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1)]);
    policy.blocked(NOW, on, JobId(0));
    assert_eq!(all(&mut policy), [(2, 0)]);
    policy.completed(NOW, on, JobId(2), Nanos(1_000));
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos(100_000));
    assert_eq!(darc(&policy).updates(), 1);
    let attained = Nanos(2_000);
    policy.woken(NOW, on, Job { attained, pinned: Some(on), ..job(0, 1) });
    arrive(&mut policy, &[(3, 1), (4, 1)]);
    assert_eq!(all(&mut policy), [(0, 0), (3, 1)]);
    policy.completed(NOW, on, JobId(0), Nanos(100_000));
    assert_eq!(all(&mut policy), [], "4 has no business there");
}
