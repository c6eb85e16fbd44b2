//! Typed scheduling at work, as anyone can repeat it: Perséphone's adaptation to a workload that
//! changes (§5.5) and its broken classifier (§5.6), simulated and in the runtime.

use serde_json::Value;
use std::process::{Command, Stdio};

fn run(line: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_curtail"));
    let output = command.args(line).stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (crate::common::measured(&output), text(output.stdout), text(output.stderr))
}

/// The runs of a sweep.
fn runs(line: &[&str]) -> Vec<Value> {
    let line: Vec<&str> = line.iter().copied().chain(["--json", "-"]).collect();
    let (success, stdout, stderr) = run(&line);
    assert!(success, "{line:?}: {stderr}");
    match serde_json::from_str(&stdout).unwrap() {
        Value::Array(runs) => runs,
        one => vec![one],
    }
}

fn p99_9(run: &Value, class: usize) -> u64 {
    run["classes"][class]["sojourn_ns"]["p99_9"].as_u64().expect("the class came")
}

fn decided(run: &Value) -> &str {
    run["decided"].as_str().expect("DARC decides")
}

const SWAP: &str = "200ms a:100us:50,b:1us:50; 200ms a:1us:50,b:100us:50; \
                    100ms a:500ns:99.5,b:500us:0.5; 20ms a:500ns:1,b:500us:0";

#[test]
fn darc_follows_a_workload_that_changes() {
    let line = ["sim", "--phases", SWAP, "--parts", "4", "--load", "0.8", "--workers", "14"];
    let darc = [&line[..], &["--policy", "darc", "--profile-window", "4000"]].concat();
    let of = runs(&darc);
    assert_eq!(of, runs(&darc), "the same seed gives the same run");
    assert_eq!(of.len(), 16);
    // Slices 3, 7 and 11 are the last of phases 1, 2 and 3: reservations have settled.
    assert!(decided(&of[3]).starts_with("b (demand 0."), "{}", decided(&of[3]));
    assert!(decided(&of[3]).contains("workers 0, steals 1–13; a ("), "{}", decided(&of[3]));
    // A window that had seen both may be good enough for the objective.
    assert!(decided(&of[7]).starts_with("a (demand "), "{}", decided(&of[7]));
    assert!(decided(&of[7]).contains("; b (demand "), "{}", decided(&of[7]));
    assert!(decided(&of[11]).starts_with("a (demand "), "{}", decided(&of[11]));
    // Fast requests are fast again once the policy has seen that they are.
    for (settled, fast) in [(3, 1), (7, 0), (11, 0)] {
        let ns = p99_9(&of[settled], fast);
        assert!(ns < 10_000, "slice {settled}: {ns} ns");
    }
    assert!(p99_9(&of[4], 0) > 50_000, "until then they waited for slow ones");
    assert_eq!(of[15]["classes"][1]["count"], 0, "nothing is left of b");
    assert_eq!(of[15]["dropped"], 0);
    let fcfs = runs(&[&line[..], &["--policy", "fcfs"]].concat());
    assert!(p99_9(&fcfs[7], 0) > 20 * p99_9(&of[7], 0));
    assert!(fcfs.iter().all(|run| run.get("decided").is_none()));
}

#[test]
fn with_a_random_classifier_darc_is_like_c_fcfs() {
    let slowdown = |more: &[&str]| {
        let line = "sim --workload high-bimodal --workers 8 --load 0.7 --jobs 400000";
        let line: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
        runs(&line)[0]["slowdown"]["p99_9"].as_f64().unwrap()
    };
    let darc = ["--policy", "darc", "--profile-window", "10000"];
    let own = slowdown(&darc);
    let random = slowdown(&[&darc[..], &["--classifier", "random"]].concat());
    let fcfs = slowdown(&["--policy", "fcfs"]);
    assert!(own < fcfs / 4.0, "{own} {fcfs}");
    // One queue goes before the other for no reason, which costs the other one something.
    assert!(random > fcfs / 2.0 && random < 2.0 * fcfs, "{random} {fcfs}");
}

#[test]
fn a_known_profile_is_in_force_from_the_start() {
    // Fewer requests than a measured profile needs.
    let line =
        "sim --workload high-bimodal --workers 14 --load 0.7 --jobs 20000 --policy darc --profile";
    let tail = |profile| {
        let line: Vec<&str> = line.split(' ').chain([profile]).collect();
        runs(&line)[0]["slowdown"]["p99_9"].as_f64().unwrap()
    };
    assert!(2.0 * tail("known") < tail("measured"));
}

#[test]
fn the_runtime_follows_too_and_counts_by_what_requests_are() {
    let phases = "60ms a:40us:50,b:4us:50; 60ms a:4us:50,b:40us:50";
    let line = ["bench", "--phases", phases, "--parts", "2", "--load", "0.1", "--workers", "1"];
    for policy in ["darc", "darc-ps"] {
        for classifier in ["own", "random"] {
            let more = ["--policy", policy, "--profile-window", "20", "--classifier", classifier];
            // Where others have the cores, requests come too late to be handed over: once more then.
            let tries = (0..10).map(|_| runs(&[&line[..], &more].concat()));
            let mut valid = tries.filter(|of| of.iter().all(|run| run["valid"] == true));
            let of = valid.next().expect("one of ten runs is not disturbed");
            let labels: Vec<_> = of.iter().map(|run| run["workload"].as_str().unwrap()).collect();
            let expected = [
                "phase 1 (0ns–30ms)",
                "phase 1 (30ms–60ms)",
                "phase 2 (60ms–90ms)",
                "phase 2 (90ms–120ms)",
            ];
            assert_eq!(labels, expected);
            for run in &of {
                assert_eq!(run["completed"], run["offered"], "{policy} {classifier}: {run}");
                // Both halves, whatever the classifier takes them for.
                let service = |class: usize| run["classes"][class]["service_ns_mean"].as_f64();
                let (a, b) = (service(0).unwrap(), service(1).unwrap());
                let swapped = run["workload"].as_str().unwrap().starts_with("phase 2");
                assert_eq!((a, b), if swapped { (4e3, 4e4) } else { (4e4, 4e3) });
            }
            assert!(decided(&of[3]).contains("spillway 0"), "{}", decided(&of[3]));
        }
    }
}

/// Requests of `long` fill their queue, and no others are refused for that.
#[test]
fn queue_bounds_hold_under_every_policy() {
    for policy in ["fcfs", "ps", "tq", "steal", "darc", "darc-ps", "auto", "shenango"] {
        let line = "sim --classes short:1us:50,long:100us:50 --workers 2 --rate 100k --jobs 4000 \
                    --queue-bounds 1000,4 --policy";
        let line: Vec<&str> = line.split_whitespace().chain([policy]).collect();
        let run = &runs(&line)[0];
        let dropped = |class: usize| run["classes"][class]["dropped"].as_u64().unwrap();
        assert!(dropped(1) > 500, "{policy}: {run}");
        assert_eq!(dropped(0), 0, "{policy}: {run}");
    }
}

#[test]
fn bad_options_are_one_line() {
    for (line, says) in [
        (vec!["sim", "--phases", "5s"], "`5s`"),
        (vec!["bench", "--phases", "1s a:1us:1; 1s a:0us:1"], "takes time"),
        (vec!["bench", "--phases", "persephone", "--duration", "1s"], "--duration"),
        (vec!["sim", "--parts", "2"], "--phases"),
        (vec!["sim", "--phases", "persephone", "--parts", "2", "--jobs", "5"], "--jobs"),
        (vec!["sim", "--phases", "persephone", "--workload", "tpcc"], "--workload"),
        (vec!["sim", "--classifier", "wrong"], "wrong"),
        (vec!["sim", "--policy", "darc-static", "--workers", "2", "--reserved", "2"], "reserved"),
        (vec!["sim", "--policy", "fcfs", "--reserved", "1"], "reserved"),
        (vec!["sim", "--policy", "darc", "--delta", "0.5"], "`0.5`"),
        (vec!["sim", "--policy", "darc", "--profile-window", "0"], "0"),
        (vec!["sim", "--policy", "darc", "--profile-slowdown", "0"], "0"),
        (vec!["sim", "--policy", "darc", "--spillway", "0"], "0"),
        (vec!["sim", "--policy", "tq", "--queue-bounds", "0"], "serves none"),
        (
            "serve --app kv --listen udp://127.0.0.1:0 --profile known".split(' ').collect(),
            "--profile known",
        ),
    ] {
        let (success, _, stderr) = run(&line);
        assert!(!success, "{line:?}");
        assert!(stderr.contains(says), "{line:?}: {stderr}");
    }
}
