//! What a sweep leaves behind when it is interrupted.

use curtail_report::{Partial, Run, read};

fn run(policy: &str) -> Run {
    Run { policy: policy.to_owned(), ..Run::default() }
}

#[test]
fn each_run_is_in_the_file_when_it_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sweep.json");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "what an earlier sweep left, which was longer than that").unwrap();
    let partial = Partial::begin(Some(name)).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("what"), "nothing has ended yet");
    let policies = ["tq", "fcfs", "ps"];
    for (at, policy) in policies.iter().enumerate() {
        partial.add(&run(policy)).unwrap();
        let runs = read(name).unwrap();
        let found: Vec<_> = runs.iter().map(|run| run.policy.as_str()).collect();
        assert_eq!(found, policies[..=at]);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_first_run() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("no/such/directory.json");
    let error = Partial::begin(nowhere.to_str()).unwrap_err().to_string();
    assert!(error.contains("directory.json"), "{error}");
    // What could be written is left as it was: not there.
    let path = directory.path().join("sweep.json");
    Partial::begin(path.to_str()).unwrap();
    assert!(!path.exists());
    for elsewhere in [None, Some("-"), Some("/dev/null")] {
        Partial::begin(elsewhere).unwrap().add(&run("tq")).unwrap();
    }
}
