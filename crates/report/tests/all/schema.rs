//! The JSON that other people's scripts rely on.

use curtail_report::{Run, parse, read, write_run, write_runs};
use serde_json::Value;

/// The example of the interface's description, letter for letter.
const EXAMPLE: &str = r#"{ "schema": 1, "verb": "bench", "policy": "tq", "preempt": "clock", "quantum_ns": 2000, "workers": 1,
  "workload": "extreme-bimodal", "offered_rps": 233000, "achieved_rps": 232950, "load": 0.7, "duration_s": 10.0,
  "offered": 2330000, "completed": 2329500, "dropped": 500, "valid": true, "invalid_reason": null,
  "sojourn_ns":  {"p50": 0, "p90": 0, "p99": 0, "p99_9": 0, "max": 0, "mean": 0.0},
  "slowdown":    {"p50": 0.0, "p99": 0.0, "p99_9": 0.0, "max": 0.0, "mean": 0.0},
  "classes": [ {"name": "short", "count": 0, "service_ns_mean": 0.0, "sojourn_ns": {}, "slowdown": {} } ],
  "noise": {"gap_threshold_ns": 5000, "gaps": 0, "lost_share": 0.0, "disturbed_share": 0.0},
  "undisturbed": {"sojourn_ns": {}, "slowdown": {}, "classes": []},
  "preemptions": 0, "preempt_late_ns": {"p50": 0, "p99": 0, "max": 0},
  "cpu": {"app": 0.0, "switch": 0.0, "idle": 0.0}, "machine": {} }"#;

/// 233000 and 233000.0 are the same number to every reader of JSON but to `Value::eq`.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().into(),
        Value::Array(all) => all.into_iter().map(floats).collect(),
        Value::Object(all) => all.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        other => other,
    }
}

#[test]
fn the_example_survives_a_round_trip_field_for_field() {
    let runs = parse("example", EXAMPLE).unwrap();
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!((run.policy.as_str(), run.quantum_ns, run.load), ("tq", Some(2000), Some(0.7)));
    assert_eq!((run.offered_rps, run.completed, run.dropped), (233_000.0, 2_329_500, 500));
    assert!(run.sojourn_ns.is_some() && run.classes[0].sojourn_ns.is_none());

    let written = serde_json::to_value(run).unwrap();
    assert_eq!(floats(written), floats(serde_json::from_str(EXAMPLE).unwrap()));
}

#[test]
fn integers_stay_integers() {
    let text = serde_json::to_string(&parse("example", EXAMPLE).unwrap()[0]).unwrap();
    assert!(
        text.contains(r#""sojourn_ns":{"p50":0,"p90":0,"p99":0,"p99_9":0,"max":0,"mean":0.0}"#)
    );
    assert!(text.contains(r#""quantum_ns":2000,"#), "{text}");
}

#[test]
fn arrays_single_objects_and_streams_are_read() {
    let many = format!("[{EXAMPLE},\n{EXAMPLE}]");
    assert_eq!(parse("many", &many).unwrap().len(), 2);
    assert_eq!(parse("lines", &format!("{EXAMPLE}\n{EXAMPLE}\n{many}\n")).unwrap().len(), 4);
    assert_eq!(parse("none", "[]").unwrap(), []);
}

#[test]
fn unknown_fields_are_ignored_and_optional_ones_may_be_missing() {
    let text = r#"{"policy":"fcfs","workload":"w","offered":1,"completed":1,"valid":true,
                   "quantum_ns":null,"slowdown":null,"from_the_future":{"a":[1]}}"#;
    let run = &parse("x", text).unwrap()[0];
    assert_eq!((run.quantum_ns, run.slowdown, run.schema), (None, None, 1));
}

#[test]
fn nan_is_written_as_null_and_read_again() {
    let run = Run { achieved_rps: f64::NAN, ..parse("x", EXAMPLE).unwrap().remove(0) };
    let text = serde_json::to_string(&run).unwrap();
    assert!(text.contains(r#""achieved_rps":null"#));
    assert!(parse("x", &text).unwrap()[0].achieved_rps.is_nan());
}

#[test]
fn errors_name_the_file_and_the_place() {
    let said = |text: &str| parse("r.json", text).unwrap_err().to_string();
    let one = "{\"policy\":\"p\",\"workload\":\"w\",\"offered\":1,\"completed\":1,\"valid\":true}";
    assert_eq!(
        said("{\n  \"policy\": 3\n}"),
        "r.json:2:13: invalid type: integer `3`, expected a string"
    );
    assert_eq!(
        said(&format!("[{one},\n {{\"policy\":\"p\"}}]")),
        "r.json:2:15: missing field `workload`"
    );
    assert_eq!(said(&format!("{one}\n{{\"policy\" 1}}")), "r.json:2:11: expected `:`");
    assert_eq!(said(&format!("{one} x")), format!("r.json:1:{}: expected value", one.len() + 2));
    assert_eq!(said(" \n"), "r.json: empty, expected a result as JSON");
    let newer = EXAMPLE.replace("\"schema\": 1", "\"schema\": 2");
    assert_eq!(said(&newer), "r.json: written with schema 2, this program knows up to 1");
    let cut = said(&EXAMPLE[..100]);
    assert!(cut.starts_with("r.json:1:100: EOF while parsing"), "{cut}");
}

#[test]
fn files_are_written_whole_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("runs.json");
    let name = file.to_str().unwrap();
    let runs = parse("x", EXAMPLE).unwrap();
    write_run(name, &runs[0]).unwrap();
    assert_eq!(read(name).unwrap(), runs);
    write_runs(name, &[runs[0].clone(), runs[0].clone()]).unwrap();
    assert_eq!(read(name).unwrap().len(), 2);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "a temporary file was left behind: {left:?}");

    let nowhere = dir.path().join("missing/runs.json");
    let error = write_run(nowhere.to_str().unwrap(), &runs[0]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", nowhere.display())), "{error}");
    let error = read(nowhere.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read {}: ", nowhere.display())), "{error}");
}
