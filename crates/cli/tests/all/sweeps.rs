//! What is left of a sweep, and how its options are told.

use crate::common;

use common::{curtail, run};

#[test]
fn only_the_options_of_darc_are_under_its_heading() {
    let help = String::from_utf8(run("sim --help").stdout).unwrap();
    let options = help.split_once("\nOptions:").unwrap().1;
    let (options, later) = options.split_once("\nDARC:").unwrap();
    for option in ["--workers", "--load", "--json", "--seed", "--slo"] {
        assert!(options.contains(&format!("{option} ")), "{option}: {help}");
    }
    assert!(later.contains("--delta") && later.contains("--profile-window"), "{help}");
}

#[test]
fn what_has_ended_of_a_sweep_is_in_its_file() {
    let file = std::env::temp_dir().join(format!("curtail-cli-sweep-{}", std::process::id()));
    let name = file.to_str().unwrap();
    let ended = run(&format!("sim --policy tq,fcfs --jobs 1k --load 0.5 --json {name}"));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let runs = curtail_report::read(name);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(runs.unwrap().len(), 2);
    let nowhere = run("bench --duration 1s --load 0.5 --json /nonexistent/sweep.json");
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nonexistent/sweep.json"));
}

#[test]
fn an_objective_of_no_class_is_bad_usage() {
    let arguments = ["bench", "--slo", "medium: p99 slowdown 5"];
    let output = curtail().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`medium`"));
}

#[test]
fn what_is_misspelt_is_told_what_was_meant() {
    for (line, meant) in
        [("benhc", "`bench`"), ("bench --polcy fcfs", "`--policy`"), ("polices", "`policies`")]
    {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(&format!("did you mean {meant}?")), "{stderr}");
    }
}
