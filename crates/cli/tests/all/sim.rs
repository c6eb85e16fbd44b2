//! `curtail sim` as a user meets it. Simulations are exact, so that figures may be asserted.

use crate::common;

use common::{curtail, json, run};
use serde_json::Value;

#[test]
fn a_simulation_is_a_result_like_any_other() {
    let line = "sim --policy fcfs,tq --workers 4 --load 0.3,0.6 --jobs 20000 --seeds 2";
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let runs = json(&arguments);
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for (run, policy) in runs.iter().zip(["fcfs"; 4].into_iter().chain(["tq"; 4])) {
        assert_eq!((run["verb"].as_str(), run["policy"].as_str()), (Some("sim"), Some(policy)));
        assert_eq!(
            (run["offered"].as_u64(), run["completed"].as_u64()),
            (Some(18_000), Some(18_000))
        );
        assert_eq!((run["valid"].as_bool(), run["workers"].as_u64()), (Some(true), Some(4)));
    }
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 2, 1, 2, 1, 2, 1, 2]);
    // The same again, on one thread: the same to the last digit.
    let again = json(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(again.as_array().unwrap(), runs);
    // Costs show.
    let costly = json(&[&arguments[..], &["--ring-delay", "1us"]].concat());
    let p50 = |run: &Value| run["sojourn_ns"]["p50"].as_u64().unwrap();
    assert!(costly.as_array().unwrap().iter().zip(runs).all(|(a, b)| p50(a) >= p50(b) + 1_000));
}

#[test]
fn a_system_without_a_dispatcher() {
    let line = "sim --policy shenango,shenango-ps,dfcfs --workers 16 --load 0.4,0.8 --jobs 50000";
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let runs = json(&arguments);
    let p99_9 = |i: usize| runs[i]["slowdown"]["p99_9"].as_f64().unwrap();
    // Extreme bimodal: stealing is much, and quanta are much besides.
    assert!(p99_9(1) * 10.0 < p99_9(5), "{} {}", p99_9(1), p99_9(5));
    assert!(p99_9(3) * 10.0 < p99_9(1), "{} {}", p99_9(3), p99_9(1));
    assert_eq!((&runs[1]["preempt"], &runs[3]["preempt"]), (&"never".into(), &"clock".into()));
    // A quantum that is asked for is one.
    let asked = json(&[&arguments[..], &["--quantum", "2us"]].concat());
    let quanta = |i: usize| asked[i]["quantum_ns"].as_u64();
    assert_eq!((quanta(0), quanta(2), quanta(4)), (Some(2_000), Some(2_000), None));
    assert_eq!(asked[0]["sojourn_ns"], runs[2]["sojourn_ns"]);
    // Its own costs show: at a low load kthreads sleep.
    let slow = json(&[&arguments[..], &["--wake-delay", "5us", "--spin", "1us"]].concat());
    let p50 = |of: &Value, i: usize| of[i]["sojourn_ns"]["p50"].as_u64().unwrap();
    assert!(p50(&slow, 0) > p50(&runs, 0) + 100, "{} {}", p50(&slow, 0), p50(&runs, 0));
    assert_eq!(p50(&slow, 4), p50(&runs, 4), "with a dispatcher no worker sleeps");
    for (line, says) in [
        ("sim --policy shenango --dispatchers 2 --workers 4", "no dispatcher"),
        ("sim --policy shenango-ps --preempt flag", "clock, or never"),
        ("sim --policy shenango --core las", "thieves"),
    ] {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(says), "{line}: {stderr}");
    }
}

#[test]
fn what_arrives_may_change_or_come_from_a_file() {
    let phases = "5ms:workload=high-bimodal,load=0.2; 5ms:classes=short:1us:9,other:5us:1,load=0.6";
    let run = json(&["sim", "--phases", phases, "--policy", "ps", "--workers", "2"]);
    assert!((run["load"].as_f64().unwrap() - 0.4).abs() < 1e-9, "{run}");
    let names: Vec<_> =
        run["classes"].as_array().unwrap().iter().map(|class| class["name"].as_str()).collect();
    assert_eq!(names, [Some("short"), Some("long"), Some("other")]);
    let longer = json(&["sim", "--phases", phases, "--policy", "ps", "--duration", "40ms"]);
    assert!(longer["completed"].as_u64() > run["completed"].as_u64());

    let file = std::env::temp_dir().join(format!("curtail-cli-trace-{}", std::process::id()));
    std::fs::write(&file, "0,get,100\n1000,get,100\n1000,scan,5000\n3000,get,100\n").unwrap();
    let path = file.to_str().unwrap();
    let run = json(&["sim", "--trace", path, "--policy", "fcfs", "--workers", "1"]);
    let stretched = json(&["sim", "--trace", path, "--policy", "fcfs", "--rate", "1k"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run["completed"].as_u64(), Some(4));
    // The last waits for the scan, which began at 1,100 and takes 5,000; to three digits.
    let longest = run["classes"][0]["sojourn_ns"]["max"].as_u64().unwrap();
    assert!((3_190..3_210).contains(&longest), "{longest}");
    assert_eq!(stretched["classes"][0]["sojourn_ns"]["max"].as_u64(), Some(100));
}

#[test]
fn what_a_policy_decided_is_in_the_result_and_under_the_table() {
    let line = "sim --workload high-bimodal --workers 4 --load 0.5 --jobs 20000 --policy";
    let with = |policy: &str| format!("{line} {policy} --profile-window 5000");
    let darc = json(&with("darc").split(' ').collect::<Vec<_>>());
    let decided = darc["decided"].as_str().unwrap();
    assert!(decided.starts_with("short (demand ") && decided.contains("; long ("), "{decided}");
    let table = String::from_utf8(run(&with("darc")).stdout).unwrap();
    assert!(table.lines().any(|line| line == format!("darc at load 0.50: {decided}")), "{table}");
    let shared = json(&format!("{} --dispatchers 2", with("darc")).split(' ').collect::<Vec<_>>());
    assert_eq!(shared["decided"].as_str().unwrap().matches(" | ").count(), 1, "{shared}");
    let fcfs = json(&with("fcfs").split(' ').collect::<Vec<_>>());
    assert!(fcfs.get("decided").is_none(), "{fcfs}");
}

#[test]
fn a_run_that_is_not_valid_is_a_failure_when_all_is_written() {
    // Sixteen times as much as can be served, and room for 64.
    let line = "sim --policy fcfs,ps --workers 1 --classes a:100us:1 --rate 5k,160k --jobs 20k \
                --capacity 64 --json -";
    let output = run(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("curtail: 2 of 4 runs are not valid: fcfs at "), "{said}");
    assert!(last.contains("requests were dropped (9"), "{said}");
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let valid: Vec<_> = runs.iter().map(|run| run["valid"].as_bool().unwrap()).collect();
    assert_eq!(valid, [true, false, true, false]);
    // A few that are dropped leave the quantiles what they are.
    assert!(run("sim --policy fcfs --workers 1 --load 0.5 --jobs 2k").status.success());
    // The runtime says the same of itself.
    let line = "bench --policy fcfs --workers 1 --classes a:100us:1 --rate 160k --duration 100ms";
    let output = run(&format!("{line} --capacity 64 --json -"));
    let one: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &one["valid"]), (Some(1), &false.into()), "{one}");
}

#[test]
fn a_trace_is_read_as_it_was_saved_or_refused_by_its_line() {
    let file = std::env::temp_dir().join(format!("curtail-cli-trace-{}", std::process::id()));
    let of = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&format!(
            "sim --trace {} --policy fcfs --workers 1 --warmup 0s --json -",
            file.display()
        ))
    };
    for text in
        ["\u{feff}0,a,1us\n10000,a,2us\n", "\"0\",\"a\",\"1us\"\r\n\"10000\",\"a\",\"2us\"\r\n"]
    {
        let output = of(text);
        let said = String::from_utf8_lossy(&output.stderr);
        let run: Value = serde_json::from_slice(&output.stdout).expect(&said);
        assert_eq!((&run["offered"], &run["completed"]), (&2.into(), &2.into()), "{run}");
    }
    let refused = of("-5,a,3us\n0,a,1us\n10000,a,2us\n");
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.lines().count() == 1 && said.contains("line 1: negative arrival"), "{said}");
}

#[test]
fn what_was_recorded_is_played_again() {
    let file = std::env::temp_dir().join(format!("curtail-cli-record-{}", std::process::id()));
    let path = file.to_str().unwrap();
    let line = "bench --policy concord --workers 1 --rate 5k --duration 50ms --classes a:5us:1";
    let recorded =
        curtail().args(line.split_whitespace()).args(["--record", path]).output().unwrap();
    let stderr = String::from_utf8_lossy(&recorded.stderr);
    assert!(common::measured(&recorded) && stderr.contains("recorded "), "{stderr}");
    let replayed = run(&format!("sim --replay {path}"));
    let found = json(&["sim", "--replay", path]);
    // What was stopped half-way plays too; what is no record does not.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let cut = run(&format!("sim --replay {path}"));
    std::fs::write(&file, "something else").unwrap();
    let other = run(&format!("sim --replay {path}"));
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8_lossy(&replayed.stdout);
    assert!(replayed.status.success() && said.contains("calls of concord"), "{said}");
    assert!(said.contains("all the same\n"), "{said}");
    assert_eq!((&found["verb"], &found["policies"][0]), (&"replay".into(), &"concord".into()));
    assert!(found["calls"].as_u64().unwrap() > found["decisions"].as_u64().unwrap(), "{found}");
    assert!(found["difference"].is_null() && found["cut_off"] == false, "{found}");
    let said = String::from_utf8_lossy(&cut.stdout);
    assert!(cut.status.success() && said.contains("in the middle of a call"), "{said}");
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("no record"));
}
