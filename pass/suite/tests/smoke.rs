//! The suite, small: it builds, runs and compares a program of each language, and its JSON reads
//! back; and so with a library that others wrote. What the figures say is of no interest here.
//!
//! Needs the drivers and the pass, where `CURTAIL_HOME` says: `ci/instrumented.sh` sets it. The
//! library comes from the package registry, unless cargo has it already.

use safepoint_suite::figures::{Entry, Report};
use std::process::{Command, Output};

fn suite(out: &std::path::Path, more: &[&str]) -> Output {
    let tools = std::env::var_os("CURTAIL_HOME").expect("CURTAIL_HOME: where curtail-cc is");
    Command::new(env!("CARGO_BIN_EXE_safepoint-suite"))
        .arg("--tools")
        .arg(tools)
        .arg("--out")
        .arg(out)
        .args(["--scale", "0.01", "--rounds", "1"])
        .args(more)
        .output()
        .unwrap()
}

fn check(entry: &Entry) {
    let what = &entry.variant;
    assert_eq!((entry.cpu_s.len(), entry.wall_s.len()), (1, 1), "{what}");
    assert!(entry.overhead_minima > -1.0 && entry.overhead_minima.is_finite(), "{what}");
    assert_eq!(entry.safepoints > 0, what != "none", "{what}");
    let armed = what.starts_with("armed") || what == "rdtsc";
    assert_eq!(entry.timing.is_some(), armed, "{what}");
    if let Some(timing) = &entry.timing {
        assert!(timing.yields > 0.0 && timing.quantum_cycles > 0.0, "{timing:?}");
        assert!(timing.interval_p50 <= timing.interval_p99, "{timing:?}");
        assert!(timing.interval_p99 <= timing.interval_max, "{timing:?}");
    }
}

#[test]
#[ignore = "needs the drivers and the pass: ci/instrumented.sh runs it"]
fn a_program_of_each_language() {
    let scratch = tempfile::tempdir().unwrap();
    let out = suite(scratch.path(), &["--only", "lu,json,tokens", "--quanta", "2us,5us"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");

    let text = std::fs::read_to_string(scratch.path().join("safepoint.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!((report.schema, report.rounds, report.scale), (1, 1, 0.01));
    assert_eq!(report.set, "own");
    let names: Vec<_> = report.programs.iter().map(|p| (&*p.program, &*p.language)).collect();
    assert_eq!(names, [("json", "C++"), ("lu", "C"), ("tokens", "Rust")]);
    for program in &report.programs {
        assert_eq!(program.output.len(), 16, "{program:?}");
        let variants: Vec<&str> = program.variants.iter().map(|e| &*e.variant).collect();
        assert_eq!(variants[..5], ["none", "flag", "clock", "armed 2us", "armed 5us"]);
        // The reference is there, or the report says why it isn't.
        let refused = report.notes.iter().any(|note| note.starts_with("rdtsc: skipped"));
        assert_eq!(variants.get(5).is_some(), !refused, "{variants:?} {:?}", report.notes);
        program.variants.iter().for_each(check);
    }
    assert_eq!(report.means.len(), report.programs[0].variants.len() - 1);
    let table = String::from_utf8_lossy(&out.stdout);
    assert!(["lu", "json", "tokens", "mean", "worst"].iter().all(|word| table.contains(word)));
}

#[test]
#[ignore = "needs the drivers, the pass and a crate: ci/instrumented.sh runs it"]
fn a_program_from_outside() {
    let scratch = tempfile::tempdir().unwrap();
    let out =
        suite(scratch.path(), &["--set", "outside", "--only", "lz4", "--variants", "clock,armed"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");

    let text = std::fs::read_to_string(scratch.path().join("safepoint.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!((report.schema, &*report.set, report.programs.len()), (1, "outside", 1));
    let lz4 = &report.programs[0];
    assert_eq!((&*lz4.program, &*lz4.language, lz4.output.len()), ("lz4", "C", 16));
    let origin = lz4.origin.as_deref().unwrap();
    assert!(origin.starts_with("lz4-sys "), "{origin}");
    let variants: Vec<&str> = lz4.variants.iter().map(|entry| &*entry.variant).collect();
    assert_eq!(variants, ["none", "clock", "armed 2us"]);
    lz4.variants.iter().for_each(check);
    assert!(String::from_utf8_lossy(&out.stdout).contains(origin));
}

#[test]
#[ignore = "needs the drivers and the pass: ci/instrumented.sh runs it"]
fn bad_usage_and_unknown_programs_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let out = suite(scratch.path(), &["--only", "nothing"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("`nothing`"));
    let out = suite(scratch.path(), &["--set", "outside", "--only", "lu"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("sqlite"));
    let out = suite(scratch.path(), &["--quanta", "soon"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--help"));
}
