//! The policies with a queue for each class, and stealing, by small examples that can be checked by hand.

use crate::by_hand;

use by_hand::{NOW, W0, all, arrive, job, preset, serve, us};
use curtail_policy::*;

fn weights(name: &str, weights: &[u32]) -> Spec {
    let mut spec = preset(name);
    for (class, &weight) in weights.iter().enumerate() {
        spec.plan_mut(class).weight = weight;
    }
    spec
}

#[test]
fn weighted_round_robin_counts_jobs() {
    let mut policy = weights("wrr", &[3, 1, 2]).build(1, 32, 0);
    let class = |id: u32| [0, 1, 2, ClassId::UNKNOWN.0][id as usize / 8];
    let jobs: Vec<_> = (0..28).map(|id| (id, class(id))).collect();
    arrive(&mut policy, &jobs);
    let order = serve(&mut policy, |_| us(1));
    let classes: Vec<u32> = order.iter().map(|id| id / 8).collect();
    assert_eq!(classes[..18], [0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2, 0, 0, 1, 2, 2, 1]);
    assert_eq!(classes[18..24], [2, 2, 1, 1, 1, 1]);
    assert_eq!(classes[24..], [3; 4], "unknown ones when no other class wants the place");
}

/// Two classes that always have jobs waiting, on one worker: the share of the service that the first
/// class gets.
fn first_share(policy: &mut AnyPolicy, services: [u64; 2]) -> f64 {
    let mut had = [0; 2];
    let class = |id: u32| id / 2;
    arrive(policy, &[(0, 0), (1, 0), (2, 1), (3, 1)]);
    for _ in 0..20_000 {
        let [(id, 0)] = all(policy, NOW)[..] else { panic!("one worker, and jobs that wait") };
        let service = services[class(id) as usize];
        had[class(id) as usize] += service;
        policy.completed(NOW, W0, JobId(id), us(service));
        arrive(policy, &[(id, class(id) as u16)]);
    }
    had[0] as f64 / (had[0] + had[1]) as f64
}

#[test]
fn deficit_round_robin_counts_service() {
    for (services, weight, expected) in
        [([40, 1], [2, 1], 2.0 / 3.0), ([1, 300], [1, 1], 0.5), ([7, 7], [1, 9], 0.1)]
    {
        let share = first_share(&mut weights("drr", &weight).build(1, 8, 0), services);
        assert!((share - expected).abs() < 0.01, "{services:?} {weight:?}: {share}");
        let jobs = first_share(&mut weights("wrr", &weight).build(1, 8, 0), services);
        let work = |class: usize| f64::from(weight[class]) * services[class] as f64;
        assert!((jobs - work(0) / (work(0) + work(1))).abs() < 0.01, "wrr: {jobs}");
    }
}

#[test]
fn a_class_saves_nothing_while_it_has_nothing_to_do() {
    let mut policy = weights("drr", &[1, 1]).build(1, 8, 0);
    for _ in 0..1_000 {
        arrive(&mut policy, &[(0, 0)]);
        assert_eq!(serve(&mut policy, |_| us(5)), [0]);
    }
    let share = first_share(&mut policy, [5, 5]);
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn the_queue_that_waited_longest_for_its_objective_is_next() {
    let mut spec = preset("shinjuku-mq");
    (spec.plan_mut(0).deadline, spec.plan_mut(1).deadline) = (Some(us(10)), Some(us(100)));
    let mut policy = spec.build(1, 8, 0);
    let at = |id, class, us_| Job { arrived: us(us_), ..job(id, class) };
    for job in [at(0, 1, 0), at(1, 9, 0), at(2, 0, 85), at(3, 0, 86)] {
        policy.arrive(job.arrived, job).unwrap();
    }
    assert_eq!(all(&mut policy, us(90)), [(0, 0)], "90 of 100 against 5 of 10");
    assert!(policy.wants_place(us(95), W0));
    policy.yielded(us(95), W0, Job { attained: us(5), pinned: Some(W0), ..at(0, 1, 0) });
    assert_eq!(all(&mut policy, us(95)), [(2, 0)], "95 of 100 against 10 of 10");
    policy.arrive(us(96), at(4, 1, 96)).unwrap();
    policy.completed(us(96), W0, JobId(2), us(1));
    assert_eq!(all(&mut policy, us(96)), [(3, 0)], "10 of 10 against 96 of 100");
    policy.completed(us(97), W0, JobId(3), us(1));
    assert_eq!(all(&mut policy, us(97)), [(0, 0)], "back to the head of its queue");
    policy.completed(us(98), W0, JobId(0), us(6));
    assert_eq!(all(&mut policy, us(98)), [(4, 0)], "and only then what has no class");
}

#[test]
fn a_partition_is_nobody_elses() {
    let mut policy = weights("static-partition", &[1, 3]).build(4, 16, 0);
    arrive(&mut policy, &[(0, 0), (1, 0), (2, 0), (3, ClassId::UNKNOWN.0), (4, 1)]);
    assert_eq!(all(&mut policy, NOW), [(0, 0), (4, 1), (3, 2)], "0 alone is for class 0");
    assert_eq!(policy.waiting(), 2);
    arrive(&mut policy, &[(5, 1), (6, 1)]);
    assert_eq!(all(&mut policy, NOW), [(5, 3)]);
    policy.completed(NOW, W0, JobId(0), us(1));
    assert_eq!(all(&mut policy, NOW), [(1, 0)]);
}

#[test]
fn short_ones_use_what_long_ones_leave_and_not_the_other_way() {
    let mut spec = weights("cscq", &[1, 1]);
    // The second class is the short one.
    (spec.plan_mut(0).service, spec.plan_mut(1).service) = (Some(us(100)), Some(us(1)));
    let mut policy = spec.build(4, 32, 0);
    arrive(&mut policy, &[(0, 0), (1, 0), (2, 0), (3, 0)]);
    assert_eq!(all(&mut policy, NOW).len(), 2, "the long ones have two of four");
    let short: Vec<_> = (4..10).map(|id| (id, 1)).collect();
    arrive(&mut policy, &short);
    assert_eq!(all(&mut policy, NOW), [(4, 2), (5, 3)]);
    policy.completed(NOW, W0, JobId(0), us(100));
    assert_eq!(all(&mut policy, NOW), [(2, 0)], "a long one within its share, though the last");
    policy.completed(NOW, WorkerId(2), JobId(4), us(1));
    assert_eq!(all(&mut policy, NOW), [(6, 2)]);

    let mut policy = spec.build(4, 32, 0);
    arrive(&mut policy, &short);
    assert_eq!(all(&mut policy, NOW).len(), 4, "no other class is there");
    arrive(&mut policy, &[(0, 0), (1, 0), (2, 0)]);
    policy.completed(NOW, WorkerId(3), JobId(7), us(1));
    assert_eq!(all(&mut policy, NOW), [(0, 3)], "the workers have changed roles");
}

#[test]
fn cscq_learns_who_is_short() {
    let mut policy = weights("cscq", &[1, 1]).build(2, 8, 0);
    for _ in 0..3 {
        arrive(&mut policy, &[(0, 0)]);
        assert_eq!(all(&mut policy, NOW).len(), 1);
        policy.completed(NOW, W0, JobId(0), us(100));
    }
    arrive(&mut policy, &[(1, 1)]);
    assert_eq!(all(&mut policy, NOW), [(1, 0)]);
    policy.completed(NOW, W0, JobId(1), us(1));
    arrive(&mut policy, &[(0, 0), (1, 0)]);
    assert_eq!(all(&mut policy, NOW), [(0, 0)], "class 0 is the long one by now");
    arrive(&mut policy, &[(2, 1)]);
    assert_eq!(all(&mut policy, NOW), [(2, 1)]);
}

/// Queues the job at that worker, where it blocked and woke up; any may go on with it.
fn queue_at(policy: &mut AnyPolicy, on: WorkerId, id: u32) {
    policy.adopt(NOW, on, job(id, 0));
    policy.blocked(NOW, on, JobId(id));
    policy.woken(NOW, on, Job { attained: us(1), ..job(id, 0) });
}

#[test]
fn a_thief_has_nothing_of_its_own() {
    let other = WorkerId(1);
    for k in [1, 2] {
        let mut policy = preset("steal").with_jbsq(k).unwrap().build(2, 64, 7);
        for id in 0..k {
            policy.adopt(NOW, W0, job(u32::from(id), 0));
            policy.adopt(NOW, other, job(10 + u32::from(id), 0));
        }
        [30, 31].into_iter().for_each(|id| queue_at(&mut policy, other, id));
        queue_at(&mut policy, W0, 20);
        assert_eq!(all(&mut policy, NOW), [], "all places are taken");
        policy.completed(NOW, W0, JobId(0), us(1));
        assert_eq!(all(&mut policy, NOW), [(20, 0)], "its own, though another's is older");
        if k == 2 {
            policy.completed(NOW, W0, JobId(1), us(1));
            assert_eq!(all(&mut policy, NOW), [], "it has one");
        }
        policy.completed(NOW, W0, JobId(20), us(1));
        assert_eq!(all(&mut policy, NOW), [(30, 0)], "k = {k}");
    }
}

#[test]
fn thieves_choose_their_victims() {
    // Two workers with long queues, and one that has served all of its own.
    let victims = |victim: Victim| {
        let spec = preset("steal").with_victim(victim).unwrap();
        let mut counts = [0_u32; 3];
        for seed in 0..600 {
            let mut policy = spec.build(3, 64, seed);
            (0..3).for_each(|on| policy.adopt(NOW, WorkerId(on), job(u32::from(on), 0)));
            // Woken jobs that may go anywhere queue where they were: 10 at worker 1, then 20 at worker 0.
            for id in 3..33 {
                queue_at(&mut policy, WorkerId(u16::from(id < 13)), id);
            }
            policy.completed(NOW, WorkerId(2), JobId(2), us(1));
            let stolen = all(&mut policy, NOW);
            assert!(matches!(stolen[..], [(3 | 13, 2)]), "the oldest of either: {stolen:?}");
            counts[usize::from(stolen[0].0 == 3)] += 1;
        }
        counts
    };
    assert_eq!(victims(Victim::Longest), [600, 0, 0]);
    assert_eq!(victims(Victim::Oldest), [0, 600, 0]);
    let random = victims(Victim::Random);
    assert!(random[0].abs_diff(300) < 60, "{random:?}");
}
