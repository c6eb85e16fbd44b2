//! `curtail compare` as a user meets it. How well the two agree here is not asserted.

use crate::common;

use common::{json, run};
use serde_json::Value;

#[test]
fn the_same_requests_go_both_ways() {
    let file = std::env::temp_dir().join(format!("curtail-cli-compare-{}", std::process::id()));
    std::fs::write(&file, "dispatch = \"100ns\"\nring = \"200ns\"\n").unwrap();
    let files = ["html", "svg"].map(|kind| file.with_extension(kind));
    let [path, html, svg] = [&file, &files[0], &files[1]].map(|path| path.to_str().unwrap());
    let line = "compare --policy fcfs,tq --workload high-bimodal --load 0.05,0.1 --duration 100ms \
                --repeat 2 --workers 1";
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let places = ["--costs", path, "--html", html, "--svg", svg];
    let result = json(&[&arguments[..], &places].concat());
    let shown = files.each_ref().map(std::fs::read_to_string);
    [&file, &files[0], &files[1]].into_iter().for_each(|it| drop(std::fs::remove_file(it)));

    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 8, "two policies, two loads, two classes");
    assert_eq!(result["costs"]["ring"], "200ns");
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 16, "each point twice, each time in the runtime and simulated");
    for pair in runs.chunks(2) {
        let (real, simulated) = (&pair[0], &pair[1]);
        assert_eq!(
            (real["verb"].as_str(), simulated["verb"].as_str()),
            (Some("bench"), Some("sim"))
        );
        let same = ["policy", "preempt", "workers", "load", "offered", "duration_s"];
        for what in same {
            assert_eq!(real[what], simulated[what], "{what}");
        }
        assert!(real["offered"].as_u64() > Some(0));
        assert!(simulated["machine"] == Value::Object(serde_json::Map::new()), "no machine");
    }
    let seeds: Vec<_> = runs.iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [1, 1, 1, 1, 2, 2, 2, 2]);
    let [html, svg] = shown.map(Result::unwrap);
    assert!(html.contains("Runtime and simulator: high-bimodal") && svg.contains("fcfs (sim)"));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    for line in [
        "compare --costs ideal --policy none",
        "compare --costs ideal --repeat 0",
        "compare --costs ideal --load 0.5 --rate 1k",
        "compare --costs no/such/file",
    ] {
        let output = run(line);
        assert!(!output.status.success(), "{line}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{line}");
    }
}

#[test]
fn several_dispatchers_share_the_load() {
    let line = "bench --policy fcfs --workers 2 --dispatchers 2 --rate 5k --duration 200ms";
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let result = json(&arguments);
    let count = |what: &str| result[what].as_u64().unwrap();
    assert_eq!((count("workers"), result["verb"].as_str()), (2, Some("bench")));
    assert!(count("completed") > 0);
    let came_of = count("completed") + count("dropped");
    assert_eq!(count("offered"), came_of, "none is lost: {result}");
    let refused = run("bench --workers 1 --dispatchers 2");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("2 dispatchers"), "{said}");
}
