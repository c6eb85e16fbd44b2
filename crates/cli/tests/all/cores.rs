//! `curtail batch` and `curtail run`, with a core allocator in this process.

use crate::common;
use crate::daemon;

use common::curtail;
use curtail_shm::session::Session;
use daemon::Running;
use std::process::Stdio;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_batch_program_ranks_last_on_the_managed_cores() {
    let daemon = Running::start("batch");
    // What the kernel says of the program, and of a child of it.
    let script = "grep Cpus_allowed_list: /proc/self/status; cut -d' ' -f41 /proc/self/stat; \
                  readlink /proc/$$/fd/$CURTAIL_BOARD_FD; exit 7";
    let output = daemon.batch(&["--", "sh", "-c", script]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(7), "{out}{err}");
    let mut lines = out.lines();
    let mut next = || lines.next().unwrap_or_default();
    assert_eq!(next().split_whitespace().next_back(), Some(&*daemon.core.to_string()), "{out}");
    assert_eq!(next(), "5", "SCHED_IDLE: {out}");
    assert!(next().contains("curtail-board"), "{out}");
}

/// As the pass would leave it.
#[used]
// SAFETY: nothing but this test reads the section.
#[unsafe(link_section = ".curtail.functions")]
static NOTE: [u8; 12] = [0; 12];

/// Not a test but a program, where it is started as one.
#[test]
fn reads_to_the_end() {
    if std::env::var_os("CURTAIL_TEST_READS").is_some() {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
}

#[test]
fn a_batch_program_is_seen_while_it_lives_and_whether_it_looks() {
    let daemon = Running::start("seen");
    let programs = || {
        let status: serde_json::Value =
            serde_json::from_str(&Session::status(&daemon.path).unwrap()).unwrap();
        status["programs"].clone()
    };
    let wait_for = |count: usize| {
        for _ in 0..100_000 {
            if programs().as_array().unwrap().len() == count {
                return;
            }
            std::thread::yield_now();
        }
        panic!("not {count} programs: {}", programs());
    };
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    for (words, looks) in [
        (vec!["--", "cat"], false),
        (vec!["--safepoints", "yes", "cat"], true),
        (vec!["--", this, "--exact", "cores::reads_to_the_end"], true),
        (vec!["--safepoints=no", "--", this, "--exact", "cores::reads_to_the_end"], false),
    ] {
        let mut command = curtail();
        command.args(["batch", "--daemon"]).arg(&daemon.path).args(&words);
        command.env("CURTAIL_TEST_READS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait_for(1);
        assert_eq!(programs()[0]["class"], "batch");
        assert_eq!(programs()[0]["looks"], looks, "{words:?}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        wait_for(0);
    }
}

#[test]
fn without_a_core_allocator_batch_says_what_to_do() {
    let output =
        curtail().args(["batch", "--daemon", "/nonexistent/sock", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(err.contains("start one with `curtaild --cores LIST`"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn run_passes_on_where_the_core_allocator_is() {
    let daemon = Running::start("run");
    let script = "echo $CURTAILD $CURTAIL_KTHREADS; exit 3";
    let mut command = curtail();
    command.args(["run", "--kthreads", "4", "--daemon"]).arg(&daemon.path);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout).trim(), format!("{} 4", daemon.path.display()));
    let without = ["run", "--daemon", "/nonexistent/sock", "sh", "-c", "echo [$CURTAILD]"];
    let output = curtail().args(without).env_remove("CURTAILD").output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "[]\n");
    assert!(text(&output.stderr).contains("it runs without"));
}

#[test]
fn run_of_pthreads_loads_the_library_before_others() {
    let home = std::env::temp_dir().join(format!("curtail-pthreads-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let library = home.join("libcurtail_pthread.so");
    std::fs::write(&library, "").unwrap();
    let mut command = curtail();
    command.args(["run", "--pthreads", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let output = command.env("CURTAIL_HOME", &home).env("LD_PRELOAD", "").output().unwrap();
    std::fs::remove_dir_all(&home).unwrap();
    assert_eq!(text(&output.stdout).trim(), library.display().to_string());
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let daemon = Running::start("absent");
    for verb in ["batch", "run"] {
        let mut command = curtail();
        command.args([verb, "--daemon"]).arg(&daemon.path).args(["--", "/nonexistent/program"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("/nonexistent/program: No such file"));
    }
}

#[test]
fn bad_usage_is_one_line_and_two() {
    for (line, says) in [
        ("batch", "PROGRAM"),
        ("run", "PROGRAM"),
        ("run --kthreads 0 -- true", "0"),
        ("batch --safepoints perhaps true", "'perhaps'"),
    ] {
        let output = curtail().args(line.split_whitespace()).output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{line}: {err}");
    }
}

/// The two sides together: the runtime's kthreads, and the daemon.
#[test]
fn a_runtime_has_its_cores_from_the_daemon() {
    let daemon = Running::start("runtime");
    let under = || curtail::Runtime::builder().kthreads(2).daemon(&daemon.path);
    let work = || {
        let sleeper = |at: u64| {
            curtail::spawn(move || {
                curtail::time::sleep(std::time::Duration::from_millis(at % 4));
                at
            })
        };
        let threads: Vec<_> = (0..200).map(sleeper).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    };
    let counts = || {
        let text = Session::status(&daemon.path).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["counts"].clone()
    };
    assert_eq!(under().guaranteed(1).run(work), 19_900);
    let granted = counts()["grants"].as_u64().unwrap();
    assert!(granted > 0 && counts()["demoted"] == 0, "{}", counts());
    // Batch work is granted nothing, and runs.
    let batch = std::thread::scope(|scope| scope.spawn(|| under().batch().run(work)).join());
    assert_eq!(batch.unwrap(), 19_900);
    assert_eq!(counts()["registered"], 2);
}
