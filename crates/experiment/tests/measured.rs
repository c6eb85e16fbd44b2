//! The papers' measured figures at a size that a test can afford: all are drawn, and of those that
//! compare systems the order is the paper's. Seeds are fixed: nothing here depends on time.

use curtail_experiment::figures::Asked;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory that goes when its test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("curtail-measured-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(unique))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn asked<'a>(name: &'a str, jobs: u64, dir: &'a Path) -> Asked<'a> {
    Asked { name, jobs: Some(jobs), seed: 1, threads: 2, costs: None, dir, markdown: None }
}

/// Each claim's figure, ideal and calibrated, and of both whether it is the paper's.
fn claims(name: &str, jobs: u64) -> Vec<([f64; 2], [bool; 2])> {
    let scratch = Scratch::new(name);
    let drawn = asked(name, jobs, &scratch.0).draw(|_| (), |_| Ok(())).unwrap();
    let claims = drawn[0]["claims"].as_array().unwrap().iter();
    let claim = |claim: &Value| {
        // What a failure has to say.
        println!("{}: {} {}", claim["says"], claim["ideal"], claim["calibrated"]);
        let number = |key: &str| claim[key].as_f64().unwrap_or(f64::NAN);
        let agrees = |key: &str| claim[key].as_bool().unwrap();
        let figures = ["ideal", "calibrated"].map(number);
        (figures, ["ideal_agrees", "calibrated_agrees"].map(agrees))
    };
    claims.map(claim).collect()
}

/// Each claim's figure with calibrated costs.
fn calibrated(name: &str, jobs: u64) -> Vec<f64> {
    claims(name, jobs).into_iter().map(|(figures, _)| figures[1]).collect()
}

#[test]
fn all_are_drawn() {
    let scratch = Scratch::new("all");
    let markdown = scratch.0.join("claims.md");
    let markdown = markdown.to_str().unwrap();
    let asked = Asked { markdown: Some(markdown), ..asked("measured", 1_000, &scratch.0) };
    let (mut texts, runs) = (0, AtomicUsize::new(0));
    let ran = |_: &str| {
        runs.fetch_add(1, Ordering::Relaxed);
    };
    let show = |_: &str| {
        texts += 1;
        Ok(())
    };
    let drawn = asked.draw(ran, show).unwrap();
    assert_eq!(runs.into_inner(), asked.count().unwrap());
    let mut names: Vec<&str> = drawn.iter().map(|it| it["figure"].as_str().unwrap()).collect();
    assert!(names.len() >= 22 && texts == names.len(), "{names:?}");
    let table = fs::read_to_string(markdown).unwrap();
    for name in &names {
        assert!(table.contains(&format!("(`{name}`)")), "{name}");
        for file in ["html", "json"].map(|kind| format!("{name}.{kind}")) {
            assert!(scratch.0.join(&file).exists(), "{file}");
        }
        let picture = |kind| fs::read_to_string(scratch.0.join(format!("{name}-{kind}.svg")));
        assert_ne!(picture("ideal").unwrap(), picture("calibrated").unwrap(), "{name}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), drawn.len(), "a name is there twice");
}

#[test]
fn darc_protects_short_requests() {
    let found = calibrated("persephone-3", 20_000);
    // Shorter than under c-FCFS at 260 k/s, and sustains more; long requests pay.
    assert!(found[0] > 5.0 && found[3] > 1.3 && found[4] > 1.5, "{found:?}");
    let found = calibrated("persephone-5-high", 20_000);
    assert!(found[0] > 1.3 && found[1] > 1.1, "{found:?}");
}

#[test]
fn one_worker_is_what_high_bimodal_needs_reserved() {
    let found = claims("persephone-4-high", 20_000);
    assert_eq!(found[0].0, [1.0, 1.0], "{found:?}");
}

#[test]
fn random_classes_make_c_fcfs_of_darc() {
    let found = claims("persephone-9", 20_000);
    assert!(found.iter().all(|(_, agrees)| *agrees == [true, true]), "{found:?}");
}

#[test]
fn concords_mechanisms_gain_where_pre_emption_costs_something() {
    for (name, jobs) in [("concord-6", 8_000), ("concord-9", 3_000), ("concord-10", 8_000)] {
        let found = claims(name, jobs);
        let ([ideal, calibrated], _) = found[0];
        assert!((0.9..1.1).contains(&ideal) && calibrated > 1.05, "{name}: {found:?}");
    }
    let found = calibrated("concord-13", 3_000);
    assert!(found[0] > 1.1, "{found:?}");
}

#[test]
fn tiny_quanta_sustains_more_than_its_variants() {
    let found = calibrated("tq-11", 40_000);
    assert!(found[0] < 0.9, "{found:?}");
    let found = calibrated("tq-12", 40_000);
    assert!(found[0] < 0.98 && found[3] < 0.7 && found[3] < found[0], "{found:?}");
    let found = calibrated("tq-7", 40_000);
    assert!(found[1] > 1.3 && found[2] > 1.2, "{found:?}");
}

#[test]
fn a_dispatcher_that_ends_quanta_keeps_fewer_workers_the_shorter_they_are() {
    let found = claims("tq-16", 1);
    let [five, three, half, tq] = [0, 1, 2, 3].map(|at| found[at].0[1]);
    assert!(five > three && three > half && half < 8.0 && tq == 16.0, "{found:?}");
    assert!(found.iter().all(|(figures, _)| figures[0] == 16.0), "{found:?}");
}

#[test]
fn what_there_is_none_of_is_refused() {
    let scratch = Scratch::new("none");
    let refused = asked("concord-14", 1, &scratch.0).count().unwrap_err().to_string();
    assert!(refused.contains("no figure `concord-14`") && refused.contains("tq-16"), "{refused}");
    let costs = Some("/no/such/file.toml");
    let asked = Asked { costs, ..asked("tq-16", 1, &scratch.0) };
    let refused = asked.draw(|_| (), |_| Ok(())).unwrap_err().to_string();
    assert!(refused.contains("/no/such/file.toml"), "{refused}");
}
