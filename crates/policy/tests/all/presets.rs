//! Names, presets, and what may be changed about them.

use curtail_policy::*;
use std::collections::HashSet;

fn preset(name: &str) -> Spec {
    Spec::preset(name).unwrap()
}

#[test]
fn the_catalogue_is_what_exists() {
    let names: Vec<_> = catalogue().iter().map(|entry| entry.name).collect();
    let plain = ["fcfs", "dfcfs", "jbsq", "ps", "shinjuku", "concord", "tq", "steal"];
    let dispatcherless = ["shenango", "shenango-ps"];
    let by_class =
        ["fp", "sjf", "srpt", "edf", "wrr", "drr", "shinjuku-mq", "static-partition", "cscq"];
    let reserving = ["darc", "darc-static", "darc-ps", "auto"];
    assert_eq!(names, [&plain[..], &dispatcherless, &by_class, &reserving].concat());
    let mut seen = HashSet::new();
    for entry in catalogue() {
        for name in entry.aliases.iter().chain([&entry.name]) {
            assert!(seen.insert(*name), "{name} twice");
            assert_eq!(preset(name).name, entry.name);
        }
        assert!(!entry.line.is_empty() && !entry.line.contains('\n') && !entry.source.is_empty());
        preset(entry.name).validate(1).unwrap();
        preset(entry.name).validate(Spec::MAX_WORKERS).unwrap();
    }
}

#[test]
fn presets_are_what_the_papers_say() {
    let shape = |name: &str| {
        let spec = preset(name);
        let us = spec.quantum.map(|quantum| quantum.0 / 1_000);
        (spec.dispatch, spec.core, us, spec.jbsq, spec.preempt, spec.work_conserving)
    };
    use CoreKind::{Fcfs, Ps};
    use Dispatch::{CentralFcfs, CentralPs, Darc, DarcStatic, Jsq, Random};
    use PreemptKind::{Clock, Flag, Never};
    assert_eq!(shape("fcfs"), (CentralFcfs, Fcfs, None, 1, Never, false));
    assert_eq!(shape("jbsq"), (CentralFcfs, Fcfs, None, 2, Never, false));
    assert_eq!(shape("dfcfs"), (Random, Fcfs, None, Spec::UNBOUNDED, Never, false));
    assert_eq!(shape("ps"), (CentralPs, Fcfs, Some(2), 1, Clock, false));
    assert_eq!(shape("shinjuku"), (CentralPs, Fcfs, Some(5), 1, Flag, false));
    assert_eq!(shape("concord"), (CentralPs, Fcfs, Some(2), 2, Flag, true));
    assert_eq!(shape("tq"), (Jsq, Ps, Some(2), Spec::UNBOUNDED, Clock, false));
    assert_eq!(shape("persephone"), (Darc, Fcfs, None, 1, Never, false));
    assert_eq!(shape("darc-static"), (DarcStatic, Fcfs, None, 1, Never, false));
    assert_eq!(shape("darc-ps"), (Darc, Fcfs, Some(2), 1, Flag, false));
    assert_eq!(preset("tq").ties, Ties::Msq);
    assert_eq!(shape("steal"), (Dispatch::Steal, Fcfs, None, 1, Never, false));
    assert_eq!(preset("steal").victim, Victim::Random);
    let unbounded = Spec::UNBOUNDED;
    assert_eq!(shape("shenango"), (Dispatch::Kthreads, Fcfs, None, unbounded, Never, false));
    assert_eq!(shape("shenango-ps"), (Dispatch::Kthreads, Ps, Some(2), unbounded, Clock, false));
}

#[test]
fn of_the_type_aware_two_preempt() {
    let sharing = catalogue().iter().map(|entry| preset(entry.name)).filter(Spec::shares);
    let sharing: Vec<_> = sharing.map(|spec| (spec.name.clone(), spec.preempt)).collect();
    let flags = ["shinjuku", "concord", "srpt", "shinjuku-mq", "darc-ps", "auto"]
        .map(|n| (n, PreemptKind::Flag));
    let clocks = ["ps", "tq", "shenango-ps"].map(|name| (name, PreemptKind::Clock));
    assert!(flags.iter().chain(&clocks).all(|(n, kind)| sharing.contains(&((*n).into(), *kind))));
    assert_eq!(sharing.len(), 9);
    for name in ["fp", "edf", "wrr", "drr", "static-partition", "cscq"] {
        assert!(preset(name).with_preemptive(true).unwrap().shares(), "{name}");
    }
    assert!(!preset("srpt").with_preemptive(false).unwrap().shares());
    assert!(preset("sjf").with_preemptive(true).is_err(), "that would be srpt");
}

#[test]
fn an_unknown_name_gets_help() {
    let error = Spec::preset("shinjku").unwrap_err();
    assert_eq!(error.nearest(), Some("shinjuku"));
    assert_eq!(
        error.to_string(),
        "unknown policy `shinjku`: did you mean `shinjuku`? \
         (known: fcfs, dfcfs, jbsq, ps, shinjuku, concord, tq, steal, shenango, shenango-ps, fp, \
         sjf, srpt, edf, wrr, drr, shinjuku-mq, static-partition, cscq, darc, darc-static, darc-ps, auto)"
    );
    assert_eq!(Spec::preset("Concord").unwrap_err().nearest(), Some("concord"));
    assert_eq!(Spec::preset("round-robin-of-sorts").unwrap_err().nearest(), None);
    assert!(Spec::preset("").is_err());
}

#[test]
fn common_options_fit_every_policy() {
    for entry in catalogue() {
        let spec = preset(entry.name);
        let quantum = Nanos(700);
        let changed = spec.clone().with_quantum(quantum).unwrap().with_jbsq(4).unwrap();
        let has_quanta = spec.shares() || spec.is_dispatcherless();
        assert_eq!(changed.quantum, has_quanta.then_some(quantum), "{}", entry.name);
        assert_eq!(changed.jbsq, if spec.is_two_level() { Spec::UNBOUNDED } else { 4 });
        changed.with_preempt(PreemptKind::Never).validate(2).unwrap();
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let reason = |result: Result<Spec, SpecError>| result.unwrap_err().to_string();
    assert!(reason(preset("jbsq").with_jbsq(0)).starts_with("jbsq must be at least 1"));
    assert_eq!(reason(preset("tq").with_quantum(Nanos(0))), "a quantum must be longer than 0");
    assert_eq!(
        reason(preset("concord").with_core(CoreKind::Las)),
        "core is not an option of policy `concord`: its workers keep the dispatcher's order"
    );
    assert!(reason(preset("dfcfs").with_ties(Ties::Msq)).contains("shortest queue"));
    assert!(reason(preset("tq").with_work_conserving(true)).contains("never full"));

    let objection = |spec: Spec, workers| spec.validate(workers).unwrap_err();
    assert_eq!(objection(preset("tq"), 0), SpecError::Workers(0));
    let too_many = objection(preset("tq"), 65_536).to_string();
    assert_eq!(too_many, "65536 workers are more than the 65535 possible");
    assert_eq!(objection(Spec { jbsq: 0, ..preset("fcfs") }, 1), SpecError::NoInbox);
    let endless = Spec { quantum: None, ..preset("ps") };
    assert_eq!(objection(endless, 1).to_string(), "policy `ps` needs a quantum");
    let zero = Spec { quantum: Some(Nanos::ZERO), ..preset("ps") };
    assert_eq!(objection(zero, 1), SpecError::ZeroQuantum);
    let core = Spec { core: CoreKind::Ps, ..preset("ps") };
    assert!(matches!(objection(core, 1), SpecError::NotFor { option: "core", .. }));
    let stealing = Spec { work_conserving: true, ..preset("tq") };
    assert!(matches!(objection(stealing, 1), SpecError::NotFor { .. }));
}

#[test]
fn a_core_policy_brings_its_quantum() {
    let fcfs = preset("tq").with_core(CoreKind::Fcfs).unwrap();
    assert_eq!((fcfs.quantum, fcfs.preempt, fcfs.shares()), (None, PreemptKind::Never, false));
    let las = fcfs.with_core(CoreKind::Las).unwrap();
    assert_eq!((las.quantum, las.preempt), (Some(Nanos(2_000)), PreemptKind::Clock));
    let kept = preset("tq").with_quantum(Nanos(500)).and_then(|tq| tq.with_core(CoreKind::Las));
    assert_eq!(kept.unwrap().quantum, Some(Nanos(500)));
}

#[test]
fn without_a_dispatcher_quanta_are_the_workers_own() {
    let plain = preset("shenango");
    assert!(plain.is_dispatcherless() && plain.is_two_level() && !plain.shares());
    let asked = plain.clone().with_quantum(Nanos::from_micros(2)).unwrap();
    assert_eq!(Spec { name: "shenango-ps".into(), ..asked.clone() }, preset("shenango-ps"));
    asked.with_core(CoreKind::Fcfs).map(|spec| assert_eq!(spec, plain)).unwrap();
    assert!(plain.clone().with_core(CoreKind::Las).is_err());
    assert!(plain.clone().with_victim(Victim::Oldest).is_ok());
    let watched = preset("shenango-ps").with_preempt(PreemptKind::Flag).validate(2).unwrap_err();
    let says = "policy `shenango-ps` has no dispatcher to pre-empt by flag: clock, or never";
    assert_eq!(watched.to_string(), says);
    let built: Vec<_> = dispatched().map(|entry| entry.name).collect();
    assert_eq!(built.len() + 2, catalogue().len());
    assert!(built.iter().all(|name| !name.starts_with("shenango")));
}
