//! The benchmark, small: it runs to its end and its JSON reads back. What the figures say is of no
//! interest here.
#![forbid(unsafe_code)]

use colocate_bench::Colocate;
use std::process::Command;

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_colocate-bench"))
}

#[test]
fn every_way_hands_over() {
    let dir = tempfile::tempdir().unwrap();
    if curtail_shm::kthreads::allowed_cpus().unwrap().len() < 2 {
        return; // It says so: there is nothing to hand over.
    }
    let out = command().args(["--rounds", "50", "--out"]).arg(dir.path()).output().unwrap();
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
