//! `curtail calibrate` as a user meets it. What things cost here is not asserted.

use crate::common;

use common::{curtail, json};
use serde_json::Value;

/// A directory of the test's own, gone with it.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("curtail-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_measured_is_what_simulations_cost() {
    let home = Scratch::new("calibrate");
    let run = |line: &str| {
        let arguments = line.split_whitespace();
        let command = curtail().args(arguments).env("XDG_CONFIG_HOME", &home.0).output();
        command.expect("it starts")
    };
    let sim = "sim --policy tq --workers 1 --load 0.3 --jobs 20000";
    let early = run(&format!("{sim} --json - --costs calibrated"));
    assert_eq!(early.status.code(), Some(1), "not calibrated yet");

    let output = run("calibrate --rounds 1 --json -");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = result["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 14, "one for each cost");
    for figure in figures {
        let cost = figure["cost"].as_str().unwrap();
        let trials = figure["trials"].as_u64().unwrap();
        // A plain build has no safepoints whose price could be known.
        assert!(trials > 0 || cost == "instrumentation", "{figure}");
        let (min, median, max) = (&figure["min"], &figure["median"], &figure["max"]);
        if trials > 0 {
            let [min, median, max] = [min, median, max].map(|it| it.as_f64().unwrap());
            assert!(min <= median && median <= max, "{figure}");
        }
    }
    // What every request needs has a price. (`hear` is a difference: one round on a busy machine may
    // find none.)
    for cost in ["receive", "dispatch", "start", "finish", "steal", "park", "wake"] {
        assert_ne!(result["costs"][cost], "0ns", "{}", result["costs"]);
    }

    let words: Vec<&str> = sim.split_whitespace().collect();
    let ideal = json(&words);
    let costly = run(&format!("{sim} --json - --costs calibrated"));
    assert!(costly.status.success(), "{}", String::from_utf8_lossy(&costly.stderr));
    let costly: Value = serde_json::from_slice(&costly.stdout).unwrap();
    let p50 = |run: &Value| run["sojourn_ns"]["p50"].as_u64().unwrap();
    assert!(p50(&costly) > p50(&ideal), "{costly} against {ideal}");
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    for line in ["calibrate --quantum 1ns", "calibrate --rounds 0", "calibrate --cores 0,9999999"] {
        let output = common::run(line);
        assert!(!output.status.success(), "{line}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{line}");
    }
}
