//! `curtail demo` from outside: what it prints and what it leaves. Runs are tiny, and nothing is
//! asserted about speed: the machine may be busy, and a run that it spoils says so.
#![cfg(feature = "kv")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory of its own, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn demo(within: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_curtail"))
        .arg("demo")
        .args(arguments)
        .current_dir(within)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_table_a_sentence_and_three_files() {
    let scratch = Scratch::new("demo-whole");
    let arguments = ["--policies", "fcfs,tq", "--loads", "0.2", "--duration", "150ms"];
    let output = demo(&scratch.0, &[&arguments[..], &["--out", "deep/er"]].concat());
    let (said, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stderr}");
    for heading in ["get-scan-50 · 1 worker · demo", "zippydb · 1 worker · demo"] {
        assert_eq!(said.lines().filter(|line| *line == heading).count(), 1, "{said}");
    }
    for line in ["get-scan-50: service times GET ", "zippydb: service times GET "] {
        assert!(said.lines().any(|l| l.starts_with(line) && l.contains("load 1 is")), "{said}");
    }

    let results = scratch.0.join("deep/er/results.json");
    let runs: Value = serde_json::from_slice(&fs::read(results).unwrap()).unwrap();
    let runs = runs.as_array().unwrap();
    let told = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(told("policy"), ["fcfs", "tq", "fcfs", "tq"]);
    assert_eq!(told("workload"), ["get-scan-50", "get-scan-50", "zippydb", "zippydb"]);
    assert_eq!(runs[1]["quantum_ns"], 2_000);
    assert_eq!(runs[3]["quantum_ns"], 5_000);
    for run in runs {
        assert_eq!((&run["verb"], &run["load"]), (&"demo".into(), &0.2.into()), "{run}");
        assert!(run["completed"].as_u64().unwrap() > 0, "{run}");
        let classes = run["classes"].as_array().unwrap();
        assert!(classes.iter().all(|class| class["service_ns_mean"].is_number()), "{run}");
        assert_eq!(run["valid"], run["invalid_reason"].is_null(), "{run}");
    }

    // The sentence is made of the results.
    let sentence = said.lines().last().unwrap();
    for run in runs {
        let get = &run["classes"][0];
        assert_eq!(get["name"], "get");
        let p99 = curtail_report::duration(get["sojourn_ns"]["p99"].as_f64().unwrap());
        let part = format!("{} {p99}", run["policy"].as_str().unwrap());
        assert!(sentence.contains(&part), "{part} in: {sentence}");
    }
    // The program was built as this test was. With safepoints there may still be no pre-emption:
    // that takes a request behind a long one.
    if curtail::safepoint_kind() == curtail::SafepointKind::None {
        assert!(sentence.contains("pre-emption is off") && stderr.contains("pre-emption is off"));
        assert!(runs.iter().all(|run| run["preemptions"] == 0 && run["preempt"] == "never"));
    } else {
        assert!(!sentence.contains("pre-emption is off"), "{sentence}");
        assert_eq!(told("preempt")[0], "never", "fcfs runs to completion");
        assert_ne!(told("preempt")[1], "never", "tq does not");
    }

    let page = fs::read_to_string(scratch.0.join("deep/er/report.html")).unwrap();
    assert!(page.contains(&format!("<p>{sentence}</p>")), "{sentence}");
    let picture = fs::read_to_string(scratch.0.join("deep/er/demo.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("get-scan-50, get requests"));
    // And nothing else is left.
    assert_eq!(fs::read_dir(scratch.0.join("deep/er")).unwrap().count(), 3);
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[test]
fn json_on_standard_output_stands_there_alone() {
    let scratch = Scratch::new("demo-json");
    let arguments = ["--mix", "zippydb", "--policies", "dfcfs", "--loads", "0.1,0.2"];
    let rest = ["--duration", "50ms", "--json", "-", "--out", ".", "--transport", "udp"];
    let output = demo(&scratch.0, &[&arguments[..], &rest].concat());
    let stderr = text(output.stderr);
    assert!(output.status.success(), "{stderr}");
    let runs: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert_eq!(runs.as_array().map(Vec::len), Some(2));
    assert!(stderr.contains("2/2 zippydb: dfcfs at load 0.2"), "{stderr}");
    assert!(stderr.contains("zippydb: GET p99 at load"), "{stderr}");
}

#[test]
fn bad_usage_measures_nothing() {
    let scratch = Scratch::new("demo-usage");
    for (arguments, says) in [
        (["--mix", "usr"], "`usr`"),
        (["--policies", "tqq"], "tqq"),
        (["--loads", "70"], "`70`"),
        (["--duration", "0"], "--duration"),
    ] {
        let output = demo(&scratch.0, &arguments);
        let stderr = text(output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(says), "{arguments:?}: {stderr}");
    }
    fs::write(scratch.0.join("file"), "").unwrap();
    let output = demo(&scratch.0, &["--out", "file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).starts_with("curtail: file: "));
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "nothing was written");
}
