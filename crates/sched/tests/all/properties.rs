//! Any history under any policy: nothing is lost, doubled, in two places, or waits beside an idle
//! worker; and it can be played again from its record.

use crate::model;

use curtail_policy::{Nanos, Spec};
use model::{How, Model, Op, setup, specs};
use proptest::prelude::*;

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Complete),
        5 => Just(How::QuantumEnd),
        2 => Just(How::Block),
        1 => Just(How::GiveWay),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => (0..4_u16).prop_map(|class| Op::Arrive([0, 1, 2, u16::MAX][usize::from(class)])),
        50 => (0..8_usize, how()).prop_map(|(at, how)| Op::Stop(at, how)),
        8 => any::<usize>().prop_map(Op::Wake),
        2 => any::<usize>().prop_map(Op::Down),
        3 => any::<usize>().prop_map(Op::Up),
        1 => prop::option::of(1..9_000_u64).prop_map(Op::Quantum),
        1 => any::<usize>().prop_map(Op::Switch),
        3 => (0..600_000_u64).prop_map(Op::Pass),
    ]
}

fn fitting(spec: &Spec, workers: usize) -> bool {
    spec.validate(workers).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history(
        which in any::<prop::sample::Index>(),
        workers in 1..6_usize,
        pins in any::<bool>(),
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let specs: Vec<Spec> = specs().into_iter().filter(|it| fitting(it, workers)).collect();
        let mut model = Model::new(setup(which.get(&specs), workers, 20, pins), None);
        ops.into_iter().for_each(|op| model.apply(op, &specs));
        model.drain();
    }
}

/// The worker that a job is bound to is down: the job waits, and goes on when it is up.
#[test]
fn a_job_bound_to_a_worker_waits_for_it() {
    for spec in specs().iter().filter(|spec| fitting(spec, 2) && spec.shares()) {
        let mut model = Model::new(setup(spec, 2, 8, true), None);
        (0..4).for_each(|_| model.apply(Op::Arrive(0), &[]));
        model.apply(Op::Stop(0, How::QuantumEnd), &[]);
        model.apply(Op::Down(0), &[]);
        for _ in 0..8 {
            model.apply(Op::Stop(1, How::Complete), &[]);
        }
        assert!(!model.sched.is_empty(), "{}", spec.name);
        model.apply(Op::Up(0), &[]);
        model.drain();
        assert_eq!(model.ended.len(), 4);
        assert!(model.now > Nanos::ZERO);
    }
}
