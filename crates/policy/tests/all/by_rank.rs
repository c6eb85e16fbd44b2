//! The policies that rank jobs, by small examples that can be checked by hand.

use crate::by_hand;

use by_hand::{NOW, W0, all, arrive, job, preset, serve, us};
use curtail_policy::*;

fn hinted(id: u32, service: u64) -> Job {
    Job { hint: Some(us(service)), ..job(id, 0) }
}

#[test]
fn fixed_priority_is_the_order_of_classes_unless_it_is_said_otherwise() {
    let jobs = [(0, 2), (1, ClassId::UNKNOWN.0), (2, 0), (3, 1), (4, 0), (5, 40)];
    let mut policy = preset("fp").build(1, 8, 0);
    arrive(&mut policy, &jobs);
    assert_eq!(serve(&mut policy, |_| us(1)), [2, 4, 3, 0, 1, 5], "the unknown last, in order");
    let mut spec = preset("fp");
    for (class, priority) in [(0, 5), (1, 5), (2, 1)] {
        spec.plan_mut(class).priority = Some(priority);
    }
    let mut policy = spec.build(1, 8, 0);
    arrive(&mut policy, &jobs);
    assert_eq!(serve(&mut policy, |_| us(1)), [0, 2, 3, 4, 1, 5], "equals as they came");
}

#[test]
fn shortest_first_by_hint_then_plan_then_measurement() {
    let mut policy = preset("sjf").build(1, 8, 0);
    for (id, service) in [(0, 30), (1, 10), (2, 20)] {
        policy.arrive(NOW, hinted(id, service)).unwrap();
    }
    assert_eq!(serve(&mut policy, |_| us(1)), [1, 2, 0]);

    let mut spec = preset("sjf");
    (spec.plan_mut(0).service, spec.plan_mut(1).service) = (Some(us(9)), Some(us(3)));
    let mut policy = spec.build(1, 8, 0);
    arrive(&mut policy, &[(0, 0), (1, 7), (2, 1)]);
    policy.arrive(NOW, hinted(3, 5)).unwrap();
    assert_eq!(serve(&mut policy, |_| us(1)), [2, 3, 0, 1], "nothing is known of class 7");

    let mut policy = preset("sjf").build(1, 8, 0);
    arrive(&mut policy, &[(0, 0), (1, 1)]);
    serve(&mut policy, |id| us([50, 4][id as usize]));
    arrive(&mut policy, &[(2, 0), (3, 1), (4, 2)]);
    assert_eq!(serve(&mut policy, |_| us(1)), [4, 3, 2], "a class that never ran goes first");
}

#[test]
fn the_mean_follows_the_class() {
    let mut policy = preset("sjf").build(1, 8, 0);
    let order = |policy: &mut AnyPolicy| {
        arrive(policy, &[(0, 0), (1, 1)]);
        serve(policy, |id| us([20, 10][id as usize]))
    };
    order(&mut policy);
    assert_eq!(order(&mut policy), [1, 0]);
    for _ in 0..400 {
        arrive(&mut policy, &[(2, 1)]);
        serve(&mut policy, |_| us(90));
    }
    assert_eq!(order(&mut policy), [0, 1]);
}

#[test]
fn srpt_takes_the_place_of_who_has_most_left() {
    let mut policy = preset("srpt").build(2, 8, 0);
    policy.arrive(NOW, hinted(0, 100)).unwrap();
    policy.arrive(NOW, hinted(1, 50)).unwrap();
    assert_eq!(all(&mut policy, NOW), [(1, 0), (0, 1)]);
    policy.arrive(us(10), hinted(2, 95)).unwrap();
    assert_eq!(policy.decide(us(10)), Decision::Idle, "90 and 40 are left of the others");
    policy.arrive(us(20), hinted(3, 60)).unwrap();
    let on = WorkerId(1);
    assert_eq!(policy.decide(us(20)), Decision::Preempt { on }, "80 and 30 are");
    assert_eq!(policy.decide(us(20)), Decision::Idle, "once");
    policy.yielded(us(20), on, Job { attained: us(20), pinned: Some(on), ..hinted(0, 100) });
    assert_eq!(all(&mut policy, us(20)), [(3, 1)]);
    assert!(!policy.wants_place(us(30), W0));
    policy.completed(us(50), W0, JobId(1), us(50));
    assert_eq!(all(&mut policy, us(50)), [(2, 0)], "0 is pinned elsewhere");
    policy.completed(us(80), on, JobId(3), us(60));
    assert_eq!(all(&mut policy, us(80)), [(0, 1)]);
}

#[test]
fn a_burst_asks_for_as_many_places_as_it_needs() {
    let mut policy = preset("srpt").build(3, 8, 0);
    (0..3).for_each(|id| policy.arrive(NOW, hinted(id, 100 + u64::from(id))).unwrap());
    assert_eq!(all(&mut policy, NOW), [(0, 0), (1, 1), (2, 2)]);
    for (id, service) in [(3, 5), (4, 5), (5, 500)] {
        policy.arrive(NOW, hinted(id, service)).unwrap();
    }
    let mut asked = Vec::new();
    while let Decision::Preempt { on } = policy.decide(NOW) {
        asked.push(on.0);
    }
    assert_eq!(asked, [2, 1], "those with most left; none yields to a longer one");
}

#[test]
fn an_offer_that_came_too_late_is_not_taken() {
    let mut policy = preset("srpt").build(1, 8, 0);
    policy.arrive(NOW, hinted(0, 100)).unwrap();
    assert_eq!(all(&mut policy, NOW), [(0, 0)]);
    policy.arrive(us(1), hinted(1, 5)).unwrap();
    policy.completed(us(1), W0, JobId(0), us(1));
    assert_eq!(all(&mut policy, us(1)), [(1, 0)], "the place was free before it was asked for");
}

#[test]
fn who_outruns_what_was_expected_is_long() {
    let mut policy = preset("srpt").build(1, 8, 0);
    policy.arrive(NOW, hinted(0, 10)).unwrap();
    assert_eq!(all(&mut policy, NOW), [(0, 0)]);
    policy.arrive(us(4), hinted(1, 30)).unwrap();
    assert!(!policy.wants_place(us(8), W0), "2 are left");
    assert!(!policy.wants_place(us(25), W0), "as much again as it has had");
    assert!(policy.wants_place(us(35), W0));
    policy.yielded(us(35), W0, Job { attained: us(35), pinned: Some(W0), ..hinted(0, 10) });
    assert_eq!(all(&mut policy, us(35)), [(1, 0)]);
}

#[test]
fn earliest_deadline_first_whatever_the_order_of_arrival() {
    let mut spec = preset("edf");
    (spec.plan_mut(0).deadline, spec.plan_mut(1).deadline) = (Some(us(100)), Some(us(10)));
    spec.plan_mut(2).service = Some(us(3));
    let mut policy = spec.build(1, 8, 0);
    for (id, class, at) in [(0, 0, 0), (1, 9, 0), (2, 1, 50), (3, 1, 95), (4, 2, 60)] {
        policy.arrive(us(at), Job { arrived: us(at), ..job(id, class) }).unwrap();
    }
    // Due at 100, never, 60, 105 and 60 + 10 × 3.
    assert_eq!(serve(&mut policy, |_| us(1)), [2, 4, 0, 3, 1]);
}

#[test]
fn a_higher_priority_pre_empts_where_it_may() {
    let spec = preset("fp").with_preemptive(true).unwrap();
    let mut policy = spec.build(1, 8, 0);
    arrive(&mut policy, &[(0, 1)]);
    assert_eq!(all(&mut policy, NOW), [(0, 0)]);
    arrive(&mut policy, &[(1, 1)]);
    assert_eq!(policy.decide(NOW), Decision::Idle, "not among equals");
    assert!(!policy.wants_place(NOW, W0));
    arrive(&mut policy, &[(2, 0)]);
    assert_eq!(policy.decide(NOW), Decision::Preempt { on: W0 });
    policy.yielded(NOW, W0, Job { attained: us(1), pinned: Some(W0), ..job(0, 1) });
    assert_eq!(serve(&mut policy, |_| us(1)), [2, 0, 1], "who was interrupted goes on first");
    let mut policy = preset("fp").build(1, 8, 0);
    arrive(&mut policy, &[(0, 1), (1, 0)]);
    assert_eq!(all(&mut policy, NOW), [(1, 0)]);
    arrive(&mut policy, &[(2, 0)]);
    assert_eq!(policy.decide(NOW), Decision::Idle, "to completion");
}

#[test]
fn a_place_that_was_asked_for_is_for_whoever_waits() {
    let mut policy = preset("srpt").build(2, 8, 0);
    (0..2).for_each(|id| policy.arrive(NOW, hinted(id, 100 + u64::from(id))).unwrap());
    assert_eq!(all(&mut policy, NOW), [(0, 0), (1, 1)]);
    policy.arrive(NOW, hinted(2, 5)).unwrap();
    assert_eq!(policy.decide(NOW), Decision::Preempt { on: WorkerId(1) });
    policy.completed(us(1), W0, JobId(0), us(1));
    assert_eq!(all(&mut policy, us(1)), [(2, 0)], "another place was free first");
    policy.arrive(us(1), hinted(3, 2)).unwrap();
    assert_eq!(policy.decide(us(1)), Decision::Idle, "worker 1 is about to give up its place");
    policy.arrive(us(1), hinted(4, 1)).unwrap();
    assert_eq!(policy.decide(us(1)), Decision::Preempt { on: W0 }, "two wait for one place");
}

#[test]
fn who_came_after_a_request_for_a_place_is_asked_once() {
    let mut policy = preset("srpt").build(2, 8, 0);
    (0..2).for_each(|id| policy.arrive(NOW, hinted(id, 100 + u64::from(id))).unwrap());
    assert_eq!(all(&mut policy, NOW), [(0, 0), (1, 1)]);
    policy.arrive(NOW, hinted(2, 50)).unwrap();
    // Before a worker is told, the job that was to give up its place ends, and another one starts.
    policy.completed(us(1), WorkerId(1), JobId(1), us(1));
    assert!(matches!(policy.decide(us(1)), Decision::Run { on: WorkerId(1), .. }));
    policy.arrive(us(1), hinted(3, 20)).unwrap();
    policy.arrive(us(1), hinted(4, 10)).unwrap();
    let mut asked = Vec::new();
    while let Decision::Preempt { on } = policy.decide(us(1)) {
        asked.push(on.0);
    }
    asked.sort_unstable();
    assert_eq!(asked, [0, 1], "each once");
}
