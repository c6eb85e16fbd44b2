//! What configuration may say about classes, reservations and DARC, and what it may not.

use curtail_policy::*;

fn preset(name: &str) -> Spec {
    Spec::preset(name).unwrap()
}

#[test]
fn plans_grow_and_known_classes_fill_them_in() {
    let mut spec = preset("fcfs");
    assert_eq!(spec.class_count(), 16, "nothing is said about any");
    spec.plan_mut(1).weight = 3;
    spec.plan_mut(1).service = Some(Nanos(7));
    assert_eq!(
        (spec.class_count(), spec.plan(0), spec.plan(9)),
        (2, ClassPlan::default(), ClassPlan::default())
    );
    let known = ["get", "put", "scan"].map(|name| (name.to_owned(), Some(Nanos(5))));
    let spec = spec.knowing(known);
    let shown: Vec<_> = (0..3).map(|class| spec.plan(class)).collect();
    let plan = |name, service, weight| ClassPlan {
        service: Some(Nanos(service)),
        weight,
        ..ClassPlan::named(name)
    };
    assert_eq!(shown, [plan("get", 5, 1), plan("put", 7, 3), plan("scan", 5, 1)]);
    let many = (0..300).map(|class| (class.to_string(), None));
    assert_eq!(preset("fcfs").knowing(many).class_count(), Spec::MAX_CLASSES);
}

#[test]
fn senseless_plans_are_refused_with_a_reason() {
    let reason = |plan: ClassPlan| {
        let plans = vec![ClassPlan::default(), plan];
        preset("fcfs").with_classes(plans).unwrap_err().to_string()
    };
    let plan = ClassPlan::default();
    assert_eq!(
        reason(ClassPlan { weight: 0, ..plan.clone() }),
        "class 1: a weight must be at least 1"
    );
    assert!(reason(ClassPlan { deadline: Some(Nanos(0)), ..plan.clone() }).contains("deadline"));
    assert!(reason(ClassPlan { bound: Some(0), ..plan.clone() }).contains("serves none"));
    let many = preset("fcfs").with_classes(vec![plan; 257]).unwrap_err();
    assert_eq!(many.to_string(), "257 classes are more than the 256 possible");
}

#[test]
fn options_that_do_not_fit_are_refused_with_a_reason() {
    let reason = |result: Result<Spec, SpecError>| result.unwrap_err().to_string();
    assert!(reason(preset("fcfs").with_victim(Victim::Longest)).ends_with("nobody steals"));
    assert!(reason(preset("fcfs").with_reserved(1)).contains("no given number"));
    assert!(reason(preset("fcfs").with_preemptive(true)).ends_with("run to completion"));
    assert!(reason(preset("ps").with_preemptive(false)).ends_with("by definition"));
    assert_eq!(preset("ps").with_preemptive(true), Ok(preset("ps")));
    let fixed = Spec { dispatch: Dispatch::FixedPriority, ..preset("fcfs") };
    let reason = reason(fixed.clone().with_work_conserving(true));
    assert!(reason.ends_with("it has more than the one queue"), "{reason}");
    let shared = fixed.clone().with_preemptive(true).unwrap();
    assert_eq!((shared.quantum, shared.preempt), (Some(Nanos(2_000)), PreemptKind::Flag));
    assert_eq!(shared.with_preemptive(false), Ok(fixed));
}
