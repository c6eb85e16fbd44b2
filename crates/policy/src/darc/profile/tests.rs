//! When a profile is replaced, and by what.

use super::*;
use crate::ClassPlan;

fn spec(window: u32, classes: usize) -> Spec {
    let mut spec = Spec::preset("darc").unwrap();
    (spec.darc.window, spec.classes) = (window, vec![ClassPlan::default(); classes]);
    spec
}

fn profile(window: u32, classes: usize) -> Profile {
    Profile::new(&spec(window, classes))
}

/// `n` completions of each `(class, nanoseconds)` in turn; how often the profile changed.
fn feed(profile: &mut Profile, n: usize, of: &[(usize, u64)]) -> usize {
    let all = of.iter().cycle().take(n * of.len());
    all.filter(|&&(class, ns)| {
        profile.arrived(class);
        profile.completed(class, Nanos(ns)) && profile.update()
    })
    .count()
}

fn shares(profile: &Profile) -> Vec<u64> {
    profile.known().iter().map(|known| (known.share * 1_000.0).round() as u64).collect()
}

#[test]
fn the_first_window_needs_its_samples_and_no_violation() {
    let mut profile = profile(100, 3);
    assert_eq!(feed(&mut profile, 49, &[(0, 1_000), (1, 9_000)]), 0);
    assert!(!profile.is_in_force());
    assert_eq!(feed(&mut profile, 1, &[(0, 1_000), (1, 9_000)]), 1);
    assert_eq!(shares(&profile), [100, 900, 0]);
    assert_eq!(profile.known()[1].mean_ns, 9_000.0);
    assert_eq!((profile.known()[1].scv, profile.count()), (0.0, 0));
}

const MIX: [(usize, u64); 2] = [(0, 1_000), (1, 9_000)];
const SWAPPED: [(usize, u64); 2] = [(0, 9_000), (1, 1_000)];

/// With the profile of [`MIX`].
fn profiled() -> Profile {
    let mut profile = profile(100, 2);
    assert_eq!(feed(&mut profile, 50, &MIX), 1);
    profile
}

#[test]
fn an_update_needs_violation_and_deviation_and_samples() {
    assert_eq!(feed(&mut profiled(), 500, &SWAPPED), 0, "no request waited");
    let mut profile = profiled();
    // Exactly ten times its service time is within the objective.
    profile.waited(0, Nanos(10_000));
    profile.waited(1, Nanos(90_000));
    assert_eq!(feed(&mut profile, 60, &SWAPPED), 0, "no request waited for too long");
    let mut profile = profiled();
    profile.waited(0, Nanos(10_001));
    assert_eq!(feed(&mut profile, 60, &MIX), 0, "the demand is the same");
    let mut profile = profiled();
    profile.waited(1, Nanos(90_001));
    assert_eq!(feed(&mut profile, 49, &SWAPPED), 0, "too few samples");
    assert_eq!(feed(&mut profile, 1, &SWAPPED), 1);
    assert_eq!(profile.known()[0].mean_ns, 9_000.0);
}

#[test]
fn the_first_violation_begins_a_window_of_its_own() {
    let mut profile = profiled();
    feed(&mut profile, 40, &MIX);
    // What was seen of the old mix is not in the window that decides.
    profile.waited(0, Nanos(10_001));
    assert_eq!(profile.count(), 0);
    feed(&mut profile, 25, &SWAPPED);
    profile.waited(0, Nanos(10_001));
    assert_eq!(profile.count(), 50, "a later one changes nothing");
    assert_eq!(feed(&mut profile, 25, &SWAPPED), 1);
    assert_eq!(shares(&profile), [900, 100]);
    let mut first = self::profile(100, 2);
    feed(&mut first, 20, &MIX);
    first.refused(0);
    assert_eq!(first.count(), 40, "until there is a profile there is no objective");
}

#[test]
fn who_is_starved_keeps_its_demand() {
    let mut profile = profiled();
    profile.waited(1, Nanos::MAX);
    // As many come as before, and of one class none completes.
    (0..100).for_each(|_| profile.arrived(1));
    assert_eq!(feed(&mut profile, 100, &[(0, 1_000)]), 0, "that is no deviation");
    assert_eq!(shares(&profile), [100, 900]);
    // Some complete, in less time, and as many are refused.
    let mut profile = profiled();
    profile.waited(1, Nanos::MAX);
    (0..25).for_each(|_| profile.refused(1));
    assert_eq!(feed(&mut profile, 25, &[(0, 1_000), (0, 1_000), (0, 1_000), (1, 1_000)]), 1);
    assert_eq!(shares(&profile), [600, 400]);
    assert_eq!(profile.known()[1].mean_ns, 1_000.0);
}

#[test]
fn less_than_a_tenth_of_a_demand_is_no_deviation() {
    for (ns, updates, share) in [(1_180, 0, 500), (1_240, 1, 446)] {
        let mut profile = profile(100, 2);
        feed(&mut profile, 50, &[(0, 1_000), (1, 1_000)]);
        profile.waited(0, Nanos::MAX);
        assert_eq!(feed(&mut profile, 50, &[(0, 1_000), (1, ns)]), updates);
        assert_eq!(shares(&profile)[0], share);
    }
}

#[test]
fn windows_end() {
    let mut profile = profile(100, 1);
    feed(&mut profile, 100, &[(0, 1_000)]);
    feed(&mut profile, 199, &[(0, 1_000)]);
    assert_eq!(profile.count(), 199);
    feed(&mut profile, 8, &[(0, 1_000)]);
    assert!(profile.count() < 8, "an old window gave way: {}", profile.count());
}

#[test]
fn who_vanishes_has_no_demand_and_who_appears_is_not_expected() {
    let mut profile = profile(10, 2);
    feed(&mut profile, 10, &[(0, 1_000)]);
    assert_eq!(shares(&profile), [1_000, 0]);
    profile.waited(1, Nanos(1));
    assert_eq!(feed(&mut profile, 10, &[(1, 3_000)]), 1);
    assert_eq!(shares(&profile), [0, 1_000]);
    assert_eq!(profile.known()[0].mean_ns, 1_000.0, "its service time is not forgotten");
}

#[test]
fn a_given_profile_is_in_force_at_once() {
    let mut spec = spec(10, 4);
    for (class, (ns, ratio)) in [(500, 995), (500_000, 5)].into_iter().enumerate() {
        let plan = spec.plan_mut(class);
        (plan.service, plan.occurrence) = (Some(Nanos(ns)), Some(ratio));
    }
    let given = Profile::new(&spec);
    assert!(given.is_in_force());
    assert_eq!(shares(&given), [166, 834, 0, 0]);
    spec.plan_mut(0).occurrence = None;
    assert_eq!(shares(&Profile::new(&spec)), [0, 1_000, 0, 0], "how often is not known");
    spec.plan_mut(1).occurrence = None;
    assert!(!Profile::new(&spec).is_in_force());
    spec.dispatch = Dispatch::DarcStatic;
    assert!(Profile::new(&spec).is_in_force(), "it only needs to know the shortest");
}

#[test]
fn darc_static_needs_to_know_the_order_only() {
    let mut spec = spec(50_000, 2);
    spec.dispatch = Dispatch::DarcStatic;
    let mut profile = Profile::new(&spec);
    assert_eq!(feed(&mut profile, 1_000, &[(0, 9_000)]), 0, "one class says nothing");
    assert_eq!(feed(&mut profile, 15, &[(1, 1_000)]), 0);
    assert_eq!(feed(&mut profile, 1, &[(1, 1_000)]), 1);
    assert_eq!([0, 1].map(|class| profile.known()[class].mean_ns), [9_000.0, 1_000.0]);
    profile.waited(0, Nanos::MAX);
    assert_eq!(feed(&mut profile, 1_000, &MIX), 0, "later windows are whole ones");
}

#[test]
fn nothing_measured_is_no_profile() {
    let mut profile = profile(10, 2);
    assert_eq!(feed(&mut profile, 100, &[(0, 0)]), 0);
    assert!(!profile.is_in_force());
    assert!(!profile.completed(7, Nanos(5)), "the unknown class is not profiled");
}
