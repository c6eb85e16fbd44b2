//! The benchmark, small: it runs to its end and its JSON reads back. What the figures say is of no
//! interest here.
#![forbid(unsafe_code)]

use colocate_bench::Colocate;
use std::io::Write;
use std::process::{Command, Stdio};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_colocate-bench"))
}

#[test]
fn every_way_hands_over() {
    let dir = tempfile::tempdir().unwrap();
    if curtail_shm::kthreads::allowed_cpus().unwrap().len() < 2 {
        return; // It says so: there is nothing to hand over.
    }
    let out =
        command().args(["handover", "--rounds", "50", "--out"]).arg(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(dir.path().join("colocate.json")).unwrap();
    let found: Colocate = serde_json::from_str(&text).unwrap();
    let ways = ["flag", "idle_core", "idle_core_polled", "sched_idle", "tgkill"];
    assert!(found.handover_us.keys().eq(ways), "{:?}", found.handover_us);
    for (way, figures) in &found.handover_us {
        assert!(0.0 < figures.p50 && figures.p50 <= figures.p99, "{way}: {figures:?}");
        assert!(found.asker_ns[way].p50 > 0.0);
    }
    assert!(found.orders_per_s > 0.0);
}

#[test]
fn what_is_no_option_is_refused() {
    for args in [&["--rounds", "0"] as &[&str], &["--looks", "2"], &["handovers"], &["--out"]] {
        let out = command().args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("usage:"), "{args:?}");
    }
    let role = command().args(["role", "heir"]).output().unwrap();
    assert_eq!(role.status.code(), Some(1));
}

/// The service serves what is offered, with the core allocator and without.
#[test]
fn a_service_serves_what_is_offered() {
    let cpus = curtail_shm::kthreads::allowed_cpus().unwrap();
    if cpus.len() < 2 {
        return; // The generator has a core of its own.
    }
    let folder = tempfile::tempdir().unwrap();
    for daemon in [None, Some(folder.path().join("curtaild.sock"))] {
        let offer = colocate_bench::service::Offer {
            mix: "work:exp(20us):1".to_owned(),
            load: 0.05,
            seconds: 0.2,
            seed: 1,
            cpus: [cpus[0], cpus[1]],
            daemon,
            interval_ns: 5_000,
            spin_ns: 2_000,
        };
        let mut service = Command::new(env!("CARGO_BIN_EXE_colocate-bench"))
            .args(["service", &serde_json::to_string(&offer).unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A line, and the end.
        service.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let output = service.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let ["ready", "begin", served] = lines[..] else { panic!("{text}") };
        let served: colocate_bench::service::Served = serde_json::from_str(served).unwrap();
        // 2,500 a second.
        assert!((350..650).contains(&served.count), "{served:?}");
        assert!(served.sojourn_us.p50 >= 10.0, "{served:?}");
    }
}
