//! Every benchmark, small: it runs to its end, all peers take part, and its JSON reads back. What
//! the figures say is of no interest here.

use curtail_bench::board::Board;
use curtail_bench::figure::Report;
use curtail_bench::machine::Cores;
use curtail_bench::openloop::{Plan, saturate};
use curtail_bench::peers::Peer;
use curtail_bench::{Size, dispatch, preempt, ring, sim, switch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;

/// The Go program, built among Cargo's own output, as any other part of the build; `None` without
/// Go.
fn go() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        Command::new("go").arg("version").output().ok().filter(|out| out.status.success())?;
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peer-go");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
        let out = Command::new("go")
            .current_dir(source)
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .output()
            .unwrap();
        assert!(out.status.success(), "go build: {}", String::from_utf8_lossy(&out.stderr));
        Some(program)
    });
    built.clone()
}

fn names(report: &Report, figure: usize) -> Vec<&str> {
    report.figures[figure].entries.iter().map(|entry| entry.name.as_str()).collect()
}

fn check(report: &Report) {
    assert!(report.smoke);
    for figure in &report.figures {
        for entry in &figure.entries {
            assert!(entry.median > 0.0 && entry.median.is_finite(), "{}: {entry:?}", figure.what);
        }
    }
    let text = serde_json::to_string(report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), *report);
    assert!(report.text().contains("smoke run"));
}

#[test]
fn ring_small() {
    let report = ring::run(Size::Smoke);
    check(&report);
    assert_eq!(report.figures.len(), 5);
    assert!((0..5).all(|at| names(&report, at) == ["curtail", "rtrb"]));
}

#[test]
fn switch_small() {
    let report = switch::run(Size::Smoke, go().as_deref());
    check(&report);
    assert_eq!(report.figures.len(), 2);
    for figure in 0..2 {
        let names = names(&report, figure);
        assert_eq!(names.len(), if go().is_some() { 5 } else { 4 }, "{names:?} {:?}", report.notes);
        assert!(names[0].starts_with("curtail"));
    }
}

#[test]
fn dispatch_small() {
    let options = dispatch::Options { go: go(), ..dispatch::Options::new(Size::Smoke) };
    let report = dispatch::run(&options);
    check(&report);
    let peers =
        if go().is_some() { vec!["thread", "tokio", "go"] } else { vec!["thread", "tokio"] };
    assert_eq!(names(&report, 0)[1..], peers);
    assert_eq!(report.runs.iter().map(|run| run.policy.as_str()).collect::<Vec<_>>(), peers);
    assert!(report.notes.contains(&"curtail: skipped, the command is not built".to_owned()));
    for run in &report.runs {
        assert!(run.offered > 0 && run.completed <= run.offered, "{run:?}");
    }
}

#[test]
fn preempt_without_the_command_says_so() {
    let report = preempt::run(&dispatch::Options::new(Size::Smoke));
    check(&report);
    assert!(report.rows.is_empty() && report.notes[0].contains("not built"), "{:?}", report.notes);
    let options = dispatch::Options {
        curtail: Some(PathBuf::from("/bin/false")),
        ..dispatch::Options::new(Size::Smoke)
    };
    let notes = preempt::run(&options).notes;
    assert!(notes.iter().any(|note| note.starts_with("`curtail bench` failed")), "{notes:?}");
}

fn sim_options(python: Option<&str>) -> sim::Options {
    let itself = PathBuf::from(env!("CARGO_BIN_EXE_curtail-bench"));
    sim::Options { size: Size::Smoke, python: python.map(PathBuf::from), itself }
}

#[test]
fn sim_small() {
    let report = sim::run(&sim_options(None));
    check(&report);
    assert!(report.notes[0].contains("skipped"), "{:?}", report.notes);
    assert!((0..3).all(|at| names(&report, at) == ["curtail"]), "{:?}", report.notes);
    // Few requests, so that only what is badly wrong shows.
    for found in &report.simulated {
        assert!((found.mean_ns / sim::exact_mean_ns() - 1.0).abs() < 0.2, "{found:?}");
    }
    let bytes = report.figures[2].entries[0].median;
    assert!((50.0..500.0).contains(&bytes), "{bytes} bytes a job in flight");
}

#[test]
fn a_python_without_the_peers_is_a_note_and_no_figure() {
    let report = sim::run(&sim_options(Some("/bin/false")));
    check(&report);
    for peer in ["ciw: ended", "simpy: ended"] {
        assert_eq!(report.notes.iter().filter(|note| note.starts_with(peer)).count(), 3);
    }
    assert_eq!(names(&report, 0), ["curtail"]);
}

#[test]
fn a_command_that_fails_is_a_note_and_no_figure() {
    let options = dispatch::Options {
        curtail: Some(PathBuf::from("/bin/false")),
        ..dispatch::Options::new(Size::Smoke)
    };
    let report = dispatch::run(&options);
    assert!(report.notes.iter().any(|note| note.starts_with("curtail: `curtail bench` failed")));
    assert!(names(&report, 0).iter().all(|name| *name != "curtail"));
}

/// Each peer serves every request once, however it is brought.
#[test]
fn every_peer_serves_everything() {
    let cores = Cores::pair();
    for peer in [Peer::Thread, Peer::Tokio].into_iter().chain(go().map(Peer::Go)) {
        let board = Arc::new(Board::new((0..5_000u32).map(|at| u64::from(at % 7))).unwrap());
        let rate = peer.serve(&board, cores, || saturate(&board, 64, cores)).unwrap().unwrap();
        assert!(rate > 0.0);
        assert_eq!(board.completed(), 5_000, "{}", peer.name());
        assert!((0..5_000).all(|at| board.finished(at).is_some()), "{}", peer.name());
    }
}

/// A generator that panics takes its peer with it: no thread or process stays behind, spinning.
#[test]
fn peers_end_with_their_generator() {
    for peer in [Peer::Thread, Peer::Tokio].into_iter().chain(go().map(Peer::Go)) {
        let board = Arc::new(Plan::new("fixed1", 0.1, 0.001, 1).unwrap().board().unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            peer.serve(&board, None, || panic!("the generator dies"))
        }));
        assert!(panicked.is_err(), "{}", peer.name());
        assert!(board.stopped());
    }
}

#[test]
fn a_program_that_is_no_peer_is_an_error() {
    let board = Arc::new(Board::new([0].into_iter()).unwrap());
    for program in ["/bin/true", "/nonexistent"] {
        let error = Peer::Go(program.into()).serve(&board, None, || ()).unwrap_err();
        assert!(error.contains("Go program said ``") || error.contains("cannot run"), "{error}");
    }
}

#[test]
fn the_command_writes_json_and_refuses_what_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let command = || Command::new(env!("CARGO_BIN_EXE_curtail-bench"));
    let out = command().args(["ring", "--smoke", "--out"]).arg(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(dir.path().join("ring.json")).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap().benchmark, "ring");

    for args in [
        &["rung"] as &[&str],
        &["--rounds", "0"],
        &["--loads", "0.3,x"],
        &["--go"],
        &["simulate", "1"],
        &["simulate", "-1", "9"],
    ] {
        let out = command().args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--help"), "{args:?}");
    }
}
