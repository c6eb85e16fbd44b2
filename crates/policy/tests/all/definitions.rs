//! The policies by small examples that can be checked by hand. Histories too long to write by hand
//! are in `properties.rs`.

use curtail_policy::*;

const NOW: Nanos = Nanos::ZERO;
const HERE: WorkerId = WorkerId::DISPATCHER;

fn preset(name: &str) -> Spec {
    Spec::preset(name).unwrap()
}

fn job(id: u32) -> Job {
    Job::new(JobId(id), ClassId(0), NOW)
}

/// `job` after it has run on `on`, where it stays.
fn started(id: u32, on: WorkerId) -> Job {
    Job { attained: Nanos(2_000), pinned: Some(on), ..job(id) }
}

fn arrive(policy: &mut AnyPolicy, ids: std::ops::Range<u32>) {
    ids.for_each(|id| policy.arrive(NOW, job(id)).unwrap());
}

/// The next decision: which job where.
fn next(policy: &mut AnyPolicy) -> Option<(u32, WorkerId)> {
    match policy.decide(NOW) {
        Decision::Run { job, on, .. } => Some((job.id.0, on)),
        Decision::Idle => None,
        Decision::Preempt { .. } => panic!("none of these asks for it"),
    }
}

/// All decisions up to the first that concerns the dispatcher itself, or to do nothing.
fn all(policy: &mut AnyPolicy) -> Vec<(u32, u16)> {
    std::iter::from_fn(|| next(policy)).map(|(id, on)| (id, on.0)).collect()
}

#[test]
fn c_fcfs_serves_in_the_order_of_arrival() {
    let mut policy = preset("fcfs").build(2, 8, 0);
    arrive(&mut policy, 0..5);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1)]);
    assert_eq!(policy.waiting(), 3);
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos::ZERO);
    assert_eq!(all(&mut policy), [(2, 1)]);
    assert!(!policy.wants_place(NOW, WorkerId(0)));
    policy.completed(NOW, WorkerId(0), JobId(0), Nanos::ZERO);
    policy.completed(NOW, WorkerId(1), JobId(2), Nanos::ZERO);
    assert_eq!(all(&mut policy), [(3, 0), (4, 1)]);
}

#[test]
fn jbsq_fills_the_shortest_inbox_up_to_k() {
    let mut policy = preset("jbsq").build(3, 16, 0);
    arrive(&mut policy, 0..8);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]);
    policy.completed(NOW, WorkerId(2), JobId(2), Nanos::ZERO);
    policy.completed(NOW, WorkerId(2), JobId(5), Nanos::ZERO);
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos::ZERO);
    assert_eq!(all(&mut policy), [(6, 2), (7, 1)]);
}

#[test]
fn a_blocked_job_leaves_its_place_and_queues_again() {
    let mut policy = preset("fcfs").build(1, 4, 0);
    arrive(&mut policy, 0..3);
    assert_eq!(all(&mut policy), [(0, 0)]);
    policy.blocked(NOW, WorkerId(0), JobId(0));
    assert_eq!(all(&mut policy), [(1, 0)]);
    policy.woken(NOW, WorkerId(0), started(0, WorkerId(0)));
    assert_eq!(policy.waiting(), 2);
    policy.completed(NOW, WorkerId(0), JobId(1), Nanos::ZERO);
    assert_eq!(all(&mut policy), [(2, 0)]);
    policy.completed(NOW, WorkerId(0), JobId(2), Nanos::ZERO);
    assert_eq!(all(&mut policy), [(0, 0)]);
}

#[test]
fn central_ps_gives_the_place_to_whoever_waits() {
    let mut policy = preset("ps").build(1, 4, 0);
    arrive(&mut policy, 0..1);
    assert_eq!(all(&mut policy), [(0, 0)]);
    assert!(!policy.wants_place(NOW, WorkerId(0)), "no job waits");
    arrive(&mut policy, 1..2);
    assert!(policy.wants_place(NOW, WorkerId(0)));
    policy.yielded(NOW, WorkerId(0), started(0, WorkerId(0)));
    arrive(&mut policy, 2..3);
    let mut order = Vec::new();
    for _ in 0..6 {
        let (id, on) = next(&mut policy).unwrap();
        order.push(id);
        policy.yielded(NOW, on, started(id, on));
    }
    assert_eq!(order, [1, 0, 2, 1, 0, 2]);
}

#[test]
fn a_job_in_the_inbox_is_reason_enough_to_yield() {
    let mut policy = preset("concord").build(1, 4, 0);
    arrive(&mut policy, 0..2);
    assert_eq!(all(&mut policy), [(0, 0), (1, 0)]);
    assert!(policy.wants_place(NOW, WorkerId(0)));
}

#[test]
fn others_pinned_jobs_are_none() {
    let mut policy = preset("ps").build(2, 4, 0);
    arrive(&mut policy, 0..3);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1)]);
    policy.yielded(NOW, WorkerId(0), started(0, WorkerId(0)));
    assert_eq!(all(&mut policy), [(2, 0)]);
    assert!(!policy.wants_place(NOW, WorkerId(1)), "0 may not come here");
    assert!(policy.wants_place(NOW, WorkerId(0)));
}

#[test]
fn the_older_of_pinned_and_unpinned_goes_first() {
    let mut policy = preset("ps").build(1, 8, 0);
    arrive(&mut policy, 0..2);
    assert_eq!(all(&mut policy), [(0, 0)]);
    policy.yielded(NOW, WorkerId(0), started(0, WorkerId(0)));
    arrive(&mut policy, 2..3);
    let order = std::array::from_fn(|_| {
        let (id, on) = next(&mut policy).unwrap();
        policy.completed(NOW, on, JobId(id), Nanos::ZERO);
        id
    });
    assert_eq!(order, [1, 0, 2]);
}

#[test]
fn what_may_run_anywhere_leaves_the_only_place_of_others() {
    let mut policy = preset("ps").build(2, 8, 0);
    arrive(&mut policy, 0..3);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1)]);
    policy.yielded(NOW, WorkerId(0), started(0, WorkerId(0)));
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos::ZERO);
    // 2 is older than 0, but would keep worker 1 idle on worker 0.
    assert_eq!(all(&mut policy), [(2, 1), (0, 0)]);
}

#[test]
fn the_dispatcher_works_when_all_inboxes_are_full() {
    let mut policy = preset("concord").build(2, 16, 0);
    arrive(&mut policy, 0..6);
    for expected in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        assert_eq!(next(&mut policy).map(|(id, on)| (id, on.0)), Some(expected));
    }
    assert_eq!(next(&mut policy), Some((4, HERE)));
    policy.yielded(NOW, HERE, started(4, HERE));
    // Its own job first, a place for others before that.
    assert_eq!(next(&mut policy), Some((4, HERE)));
    policy.yielded(NOW, HERE, started(4, HERE));
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos::ZERO);
    assert_eq!(next(&mut policy), Some((5, WorkerId(1))));
    // Nothing else to dispatch: its own job does not starve, although places are free.
    for (id, on) in [(0, 0), (2, 0), (3, 1)] {
        policy.completed(NOW, WorkerId(on), JobId(id), Nanos::ZERO);
    }
    assert_eq!(next(&mut policy), Some((4, HERE)));
    policy.completed(NOW, HERE, JobId(4), Nanos::ZERO);
    assert_eq!(next(&mut policy), None);
}

#[test]
fn the_dispatcher_takes_no_started_job() {
    let mut policy = preset("concord").with_jbsq(1).unwrap().build(1, 4, 0);
    arrive(&mut policy, 0..2);
    assert_eq!(next(&mut policy), Some((0, WorkerId(0))));
    assert_eq!(next(&mut policy), Some((1, HERE)));
    policy.completed(NOW, HERE, JobId(1), Nanos::ZERO);
    policy.yielded(NOW, WorkerId(0), Job { pinned: None, ..started(0, WorkerId(0)) });
    arrive(&mut policy, 2..3);
    assert_eq!(next(&mut policy), Some((0, WorkerId(0))));
    policy.yielded(NOW, WorkerId(0), Job { pinned: None, ..started(0, WorkerId(0)) });
    assert_eq!(next(&mut policy), Some((2, WorkerId(0))));
    assert_eq!(next(&mut policy), None, "0 may run anywhere, but here only from the start");
}

#[test]
fn the_dispatcher_always_has_a_quantum() {
    let spec = preset("jbsq").with_work_conserving(true).unwrap().with_jbsq(1).unwrap();
    let mut policy = spec.build(1, 4, 0);
    arrive(&mut policy, 0..2);
    let Decision::Run { quantum: None, .. } = policy.decide(NOW) else { panic!("to completion") };
    let Decision::Run { on: HERE, quantum: Some(_), .. } = policy.decide(NOW) else {
        panic!("the dispatcher must come back")
    };
}

#[test]
fn msq_breaks_ties_by_quanta_then_by_number() {
    let mut policy = preset("tq").build(4, 16, 0);
    arrive(&mut policy, 0..4);
    assert_eq!(all(&mut policy), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    for (worker, quanta) in [(1, 7), (2, 9), (3, 9)] {
        policy.serviced(WorkerId(worker), quanta);
    }
    arrive(&mut policy, 4..8);
    assert_eq!(all(&mut policy), [(4, 2), (5, 3), (6, 1), (7, 0)]);
    // Fewer jobs count for more than any number of quanta; a blocked job counts.
    policy.completed(NOW, WorkerId(0), JobId(0), Nanos::ZERO);
    policy.blocked(NOW, WorkerId(0), JobId(7));
    policy.completed(NOW, WorkerId(1), JobId(1), Nanos::ZERO);
    arrive(&mut policy, 8..10);
    assert_eq!(all(&mut policy), [(8, 1), (9, 0)]);
}

/// How often each of four workers gets the next job, when they hold 1, 1, 1 and 2.
fn picks(spec: &Spec) -> [u32; 4] {
    let mut policy = spec.build(4, 16, 42);
    for (id, worker) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)] {
        policy.adopt(NOW, WorkerId(worker), job(id));
    }
    let mut picks = [0; 4];
    for _ in 0..6_000 {
        arrive(&mut policy, 5..6);
        let (id, on) = next(&mut policy).unwrap();
        picks[on.index()] += 1;
        policy.completed(NOW, on, JobId(id), Nanos::ZERO);
    }
    picks
}

fn near(picks: [u32; 4], expected: [u32; 4]) -> bool {
    picks.iter().zip(expected).all(|(&got, want)| got.abs_diff(want) <= want / 8)
}

#[test]
fn random_choices_are_uniform_where_they_should_be() {
    let tq = preset("tq");
    let random = picks(&tq.clone().with_ties(Ties::Random).unwrap());
    assert!(near(random, [2_000, 2_000, 2_000, 0]), "{random:?}");
    // The longest is in half of the six pairs, and never the better one.
    let of_two = picks(&tq.clone().with_ties(Ties::PowerOfTwo).unwrap());
    assert!(near(of_two, [2_000, 2_000, 2_000, 0]), "{of_two:?}");
    assert_eq!(picks(&tq), [6_000, 0, 0, 0]);
    let blind = picks(&preset("dfcfs"));
    assert!(near(blind, [1_500; 4]), "{blind:?}");
    let in_turn = picks(&Spec { dispatch: Dispatch::RoundRobin, ..preset("dfcfs") });
    assert_eq!(in_turn, [1_500; 4]);
}

#[test]
fn power_of_two_differs_from_the_shortest_queue() {
    let mut policy = preset("tq").with_ties(Ties::PowerOfTwo).unwrap().build(8, 64, 1);
    (0..7).for_each(|id| policy.adopt(NOW, WorkerId(id), job(u32::from(id))));
    arrive(&mut policy, 8..9);
    let shortest = |policy: &mut AnyPolicy| {
        let (id, on) = next(policy).unwrap();
        policy.completed(NOW, on, JobId(id), Nanos::ZERO);
        on == WorkerId(7)
    };
    let mut hits = u32::from(shortest(&mut policy));
    for _ in 1..4_000 {
        arrive(&mut policy, 8..9);
        hits += u32::from(shortest(&mut policy));
    }
    // The empty one is drawn in 7 of 28 pairs.
    assert!((900..1_100).contains(&hits), "{hits}");
}

#[test]
fn a_seed_repeats_a_run() {
    let run = |seed| {
        let mut policy = preset("dfcfs").build(16, 64, seed);
        arrive(&mut policy, 0..64);
        all(&mut policy)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn cores_keep_their_order() {
    let order = |core: CoreKind, quanta: usize| {
        let mut core = preset("tq").with_core(core).unwrap().build_core(8);
        let attained = [3_000, 1_000, 1_000];
        for (id, attained) in (0..).zip(attained) {
            core.ready(NOW, Job { attained: Nanos(attained), ..job(id) });
        }
        let picks = (0..quanta).map_while(|_| {
            let (job, quantum) = core.pick(NOW)?;
            if let Some(quantum) = quantum {
                core.ready(NOW, Job { attained: job.attained + quantum, ..job });
            }
            Some(job.id.0)
        });
        picks.collect::<Vec<_>>()
    };
    assert_eq!(order(CoreKind::Fcfs, 9), [0, 1, 2]);
    assert_eq!(order(CoreKind::Ps, 7), [0, 1, 2, 0, 1, 2, 0]);
    // At 3000, 1000, 1000; then 3000, 3000, 1000; then all at 3000, in the order of readiness.
    assert_eq!(order(CoreKind::Las, 6), [1, 2, 0, 1, 2, 0]);
}

#[test]
fn run_to_completion_it_is_whatever_quantum_is_set() {
    let mut core = preset("dfcfs").build_core(1);
    core.set_quantum(Some(Nanos(1)));
    core.ready(NOW, job(0));
    assert_eq!(core.pick(NOW), Some((job(0), None)));
    let mut core = preset("ps").build_core(1);
    core.set_quantum(Some(Nanos(1)));
    core.ready(NOW, job(0));
    assert_eq!(core.pick(NOW), Some((job(0), Some(Nanos(1)))));
}

/// A worker that took over more jobs than the new policy's k gets none until they are fewer.
#[test]
fn an_overfull_inbox_drains_first() {
    let mut policy = preset("fcfs").build(1, 8, 0);
    (0..3).for_each(|id| policy.adopt(NOW, WorkerId(0), job(id)));
    arrive(&mut policy, 3..4);
    for id in 0..3 {
        assert_eq!(next(&mut policy), None);
        policy.completed(NOW, WorkerId(0), JobId(id), Nanos::ZERO);
    }
    assert_eq!(next(&mut policy), Some((3, WorkerId(0))));
}

#[test]
fn what_stays_after_an_eviction_is_served() {
    for spec in dispatched().map(|entry| preset(entry.name)) {
        if spec.is_two_level() {
            continue;
        }
        let mut policy = spec.build(2, 8, 0);
        let places = [None, Some(HERE), Some(WorkerId(1)), None];
        for (id, pinned) in (0..).zip(places) {
            let attained = Nanos(u64::from(pinned.is_some()));
            policy.arrive(NOW, Job { pinned, attained, ..job(id) }).unwrap();
        }
        let evicted: Vec<_> = (0..3).map(|_| policy.evict().unwrap().id.0).collect();
        assert_eq!(evicted, [0, 1, 2], "{}: oldest first, wherever they wait", spec.name);
        assert_eq!(policy.waiting(), 1);
        assert!(matches!(all(&mut policy)[..], [(3, 0 | 1)]), "{}", spec.name);
        assert_eq!((policy.waiting(), policy.evict()), (0, None));
    }
}

#[test]
fn no_room_gives_the_job_back() {
    for entry in dispatched() {
        let mut policy = preset(entry.name).build(1, 2, 0);
        assert_eq!(policy.arrive(NOW, job(2)), Err(Refused(job(2))));
        assert_eq!((policy.waiting(), next(&mut policy)), (0, None));
    }
}

#[test]
#[should_panic(expected = "job 0 is not in the policy; the event reported is for one that is on")]
fn a_job_completes_once() {
    let mut policy = preset("fcfs").build(1, 2, 0);
    arrive(&mut policy, 0..1);
    assert_eq!(next(&mut policy), Some((0, WorkerId(0))));
    policy.completed(NOW, WorkerId(0), JobId(0), Nanos::ZERO);
    policy.completed(NOW, WorkerId(0), JobId(0), Nanos::ZERO);
}

#[test]
#[should_panic(expected = "job 0 is waiting in the policy")]
fn a_job_arrives_once() {
    let mut policy = preset("tq").build(1, 2, 0);
    arrive(&mut policy, 0..1);
    let _ = policy.arrive(NOW, job(0));
}
