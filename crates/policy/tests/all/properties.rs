//! Every policy against the machine of [`machine`], which accepts only what the definitions allow.

use crate::machine;

use curtail_policy::*;
use machine::{How, Machine, Op};
use proptest::prelude::*;

/// Every preset and every variant of one.
fn specs() -> Vec<Spec> {
    let mut specs: Vec<Spec> = dispatched()
        .map(|entry| Spec::preset(entry.name).expect("the catalogue lists what exists"))
        .collect();
    let preset = |name| Spec::preset(name).expect("it is in the catalogue");
    for &ties in Ties::ALL {
        for &core in CoreKind::ALL {
            let tq = preset("tq").with_ties(ties).and_then(|tq| tq.with_core(core));
            specs.push(tq.expect("tq has these options"));
        }
    }
    specs.push(preset("dfcfs").with_core(CoreKind::Ps).expect("it has a core policy"));
    specs.push(Spec { dispatch: Dispatch::RoundRobin, ..preset("dfcfs") });
    specs.push(preset("ps").with_jbsq(3).expect("3 is a bound"));
    specs.push(preset("jbsq").with_work_conserving(true).expect("it has a central queue"));
    specs.push(preset("shinjuku").with_work_conserving(true).expect("it has a central queue"));
    for victim in [Victim::Longest, Victim::Oldest] {
        specs.push(preset("steal").with_victim(victim).expect("it has victims"));
    }
    specs.extend(with_plans());
    specs
}

/// Every type-aware policy with plans for three classes, pre-emptive or not where it can be both,
/// and with deeper inboxes.
fn with_plans() -> Vec<Spec> {
    let plan = |weight, priority, deadline: Option<u64>, service: Option<u64>, bound| ClassPlan {
        weight,
        priority: Some(priority),
        deadline: deadline.map(Nanos),
        service: service.map(Nanos),
        bound,
        ..ClassPlan::default()
    };
    let plans = vec![
        plan(2, 1, None, None, None),
        plan(1, 0, Some(900), None, Some(3)),
        plan(3, 1, None, Some(1_500), None),
    ];
    let mut specs = Vec::new();
    for entry in dispatched() {
        let spec = Spec::preset(entry.name).expect("the catalogue lists what exists");
        if spec.is_two_level() {
            continue;
        }
        let planned = spec.with_classes(plans.clone()).expect("the plans make sense");
        if planned.dispatch.may_preempt().is_none() {
            let other = planned.clone().with_preemptive(!planned.preemptive);
            specs.push(other.expect("it can be both"));
        }
        specs.push(planned.clone().with_jbsq(2).expect("2 is a bound"));
        specs.push(planned);
    }
    specs
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        3 => Just(How::Complete),
        4 => Just(How::QuantumEnd),
        1 => Just(How::Block),
        1 => Just(How::GiveBack),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => Just(Op::Arrive),
        50 => (0..16_usize, how()).prop_map(|(worker, how)| Op::Stop(worker, how)),
        12 => how().prop_map(Op::StopDispatcher),
        6 => any::<usize>().prop_map(Op::Wake),
        1 => prop::option::of(1..9_000_u64).prop_map(Op::Quantum),
        1 => any::<usize>().prop_map(Op::Switch),
    ]
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn any_policy_any_history(
        which in any::<prop::sample::Index>(),
        workers in 1..6_usize,
        pins in any::<bool>(),
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let specs = specs();
        let mut machine = Machine::new(which.get(&specs), workers, 20, pins);
        ops.into_iter().for_each(|op| machine.apply(op, &specs));
        machine.drain();
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// From any policy to any other and back, in the middle of one and the same history.
    #[test]
    fn any_switch(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        workers in 1..5_usize,
        pins in any::<bool>(),
        ops in prop::collection::vec(op(), 240..=240),
    ) {
        let specs = specs();
        let (from, to) = (from.get(&specs), to.get(&specs));
        let mut machine = Machine::new(from, workers, 16, pins);
        for (third, spec) in ops.chunks(80).zip([to, from, to]) {
            third.iter().for_each(|&op| machine.apply(op, &specs));
            machine.switch(spec);
        }
        machine.drain();
    }
}

/// A job that goes on by itself after it blocked: the policy has not heard what it had had by then,
/// so that the place of a running job is wanted by what the policy knows of it.
#[test]
fn srpt_goes_by_what_it_was_told() {
    let specs = specs();
    let srpt = specs.iter().rfind(|spec| spec.name == "srpt").expect("it is in the catalogue");
    for blocked_after in 0..4 {
        for others in 0..12 {
            let mut machine = Machine::new(srpt, 1, 20, false);
            let mut play = |op| machine.apply(op, &specs);
            // Completions make the classes known.
            (0..16).for_each(|_| play(Op::Arrive));
            (0..16).for_each(|_| play(Op::Stop(0, How::Complete)));
            (0..=others).for_each(|_| play(Op::Arrive));
            (0..blocked_after).for_each(|_| play(Op::Stop(0, How::QuantumEnd)));
            play(Op::Stop(0, How::Block));
            (0..others).for_each(|_| play(Op::Stop(0, How::Complete)));
            play(Op::Wake(0)); // by itself
            for _ in 0..4 {
                play(Op::Arrive);
                play(Op::Stop(0, How::QuantumEnd));
            }
            machine.drain();
        }
    }
}
