//! `curtail trace`: a file that Perfetto opens, of a program that runs.

use crate::common;
use crate::server;

use common::{curtail, json};
use serde_json::Value;
use server::Server;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// A file's place, which is empty before and after.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("curtail-trace-{name}-{}.json", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn trace(pid: u32, to: &Place, duration: &str) -> std::process::Output {
    let pid = pid.to_string();
    let mut command = curtail();
    command.args(["trace", &pid, "--duration", duration, "--json", "-", "-o"]).arg(&to.0);
    command.output().unwrap()
}

/// The trace-event format, as far as it is used: what Perfetto's importer asks of each phase.
fn check(event: &Value) {
    let is_number = |field: &str| event[field].as_f64().is_some_and(|number| number >= 0.0);
    assert!(is_number("pid") && is_number("tid") && event["name"].is_string(), "{event}");
    match event["ph"].as_str() {
        Some("M") => assert!(event["args"]["name"].is_string(), "{event}"),
        Some("X") => assert!(is_number("ts") && is_number("dur"), "{event}"),
        Some("i") => assert!(is_number("ts") && event["s"] == "t", "{event}"),
        other => panic!("{other:?}: {event}"),
    }
}

/// What one thread ran, one after the other.
fn do_not_overlap(runs: &mut [(f64, f64)]) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in runs.windows(2) {
        // Of a nanosecond, by rounding.
        assert!(pair[1].0 >= pair[0].1 - 0.002, "{pair:?}");
    }
}

#[test]
fn a_servers_requests_are_in_the_file() {
    for policy in ["tq", "shenango-ps"] {
        let server = Server::with("udp://127.0.0.1:0", &["--policy", policy, "--workers", "1"]);
        let pid = server.child.id();
        let url = server.url.clone();
        let place = Place::new(policy);
        let begun = Instant::now();
        let events = loop {
            let url = url.clone();
            let load = std::thread::spawn(move || {
                let classes = "a:5us:9,b:50us:1";
                json(&["load", &url, "--classes", classes, "--rate", "500", "--duration", "500ms"])
            });
            let output = trace(pid, &place, "500ms");
            load.join().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            let file: Value = serde_json::from_slice(&std::fs::read(&place.0).unwrap()).unwrap();
            let events = file["traceEvents"].as_array().unwrap().clone();
            assert_eq!(told["events"], events.len(), "{told}");
            assert_eq!((&told["dropped"], &file["otherData"]["dropped"]), (&0.into(), &0.into()));
            if events.iter().filter(|event| event["ph"] == "X").count() > 20 {
                break events;
            }
            assert!(begun.elapsed() < STUCK, "nothing runs");
        };
        events.iter().for_each(check);
        let mut by_thread: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        for run in events.iter().filter(|event| event["ph"] == "X") {
            let [start, length] = ["ts", "dur"].map(|field| run[field].as_f64().unwrap());
            by_thread
                .entry(run["tid"].as_u64().unwrap())
                .or_default()
                .push((start, start + length));
        }
        by_thread.values_mut().for_each(|runs| do_not_overlap(runs));
        if policy == "tq" {
            for name in ["arrived", "sent", "run a"] {
                assert!(events.iter().any(|event| event["name"] == name), "{name}");
            }
            assert!(events.iter().any(|event| event["args"]["end"] == "done"));
        }
        let names = events.iter().filter(|event| event["ph"] == "M");
        assert!(names.map(|event| &event["args"]["name"]).any(|name| name == "curtail-0"));
    }
}

#[test]
fn what_can_not_be_recorded_leaves_no_file() {
    let server = Server::with("udp://127.0.0.1:0", &["--workers", "1"]);
    let place = Place::new("none");
    let output = trace(server.child.id(), &place, "11m");
    assert_eq!(output.status.code(), Some(2));
    let output = trace(std::process::id(), &place, "10ms");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("shows nothing"), "{said}");
    assert!(!place.0.exists());
}
