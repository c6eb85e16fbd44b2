//! `curtail bench --app kv` from outside. Runs are tiny, and nothing is asserted about speed.
#![cfg(feature = "kv")]

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_curtail"))
        .args(["bench", "--app", "kv"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

// One after the other: each has a polling dispatcher and a worker.
#[test]
fn each_mix_has_its_classes_and_known_service_times() {
    let store = ["--keys", "500", "--value-size", "16", "--workers", "1", "--rate", "2k"];
    let rest = ["--mix", "get-scan-50", "--policy", "fcfs,tq", "--duration", "50ms", "--json", "-"];
    let output = bench(&[&store[..], &rest].concat());
    let stderr = text(output.stderr.clone());
    assert!(crate::common::measured(&output), "{stderr}");
    let is_told = |line: &&str| line.starts_with("get-scan-50: service times GET ");
    let told: Vec<_> = stderr.lines().filter(is_told).collect();
    assert!(told.len() == 1 && told[0].contains("load 1 is"), "{stderr}");
    let runs: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!((&run["verb"], &run["workload"]), (&"bench".into(), &"get-scan-50".into()));
        // 45 ms at this rate are 90 requests in the mean.
        let count = |name: &str| run[name].as_u64().unwrap();
        assert!((50..150).contains(&count("offered")), "{run}");
        assert_eq!(count("offered"), count("completed") + count("dropped"), "{run}");
        assert!(run["load"].as_f64().unwrap() > 0.0, "{run}");
        let classes = run["classes"].as_array().unwrap();
        let names: Vec<_> = classes.iter().map(|class| &class["name"]).collect();
        assert_eq!(names, ["get", "scan"], "{run}");
        for class in classes.iter().filter(|class| class["count"] != 0) {
            assert!(class["service_ns_mean"].as_f64().unwrap() > 0.0, "{run}");
            assert!(class["slowdown"]["p50"].is_number(), "{run}");
        }
    }
    // The same seed offers the same to every policy.
    assert_eq!(runs[0]["offered"], runs[1]["offered"]);

    let output = bench(&[&store[..], &["--mix", "zippydb", "--duration", "20ms"]].concat());
    let fine = crate::common::measured(&output);
    let (said, stderr) = (text(output.stdout), text(output.stderr));
    assert!(fine, "{stderr}");
    assert!(said.starts_with("zippydb: service times GET "), "{said}");
    for class in ["get", "put", "delete", "scan"] {
        assert!(said.lines().any(|line| line.contains(&format!(" {class} "))), "{said}");
    }
}

#[test]
fn bad_usage_measures_nothing() {
    for (arguments, says) in [
        (&["--load", "0.5"][..], "--mix"),
        (&["--mix", "usr"], "`usr`"),
        (&["--mix", "zippydb", "--workload", "zippydb"], "--workload"),
        (&["--mix", "zippydb", "--keys", "0"], "--keys"),
        (&["--mix", "zippydb", "--value-size", "40000"], "40000"),
        (&["--mix", "zippydb", "--duration", "0"], "--duration"),
        (&["--mix", "zippydb", "--app", "spin"], "--app"),
    ] {
        let output = bench(arguments);
        let stderr = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(says), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
