//! The benchmark, small: it runs to its end and its JSON reads back. What the figures say is of no
//! interest here.
#![forbid(unsafe_code)]

use colocate_bench::service::{Inside, Offer, Served};
use colocate_bench::{Colocate, Steps};
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
    let ways = [
        "evict_page",
        "evict_pointer",
        "flag",
        "idle_core",
        "idle_core_polled",
        "sched_idle",
        "tgkill",
    ];
    assert!(found.handover_us.keys().eq(ways), "{:?}", found.handover_us);
    assert!(found.evict_cost.keys().eq(["page", "pointer"]), "{:?}", found.evict_cost);
    for (way, figures) in &found.handover_us {
        assert!(0.0 < figures.p50 && figures.p50 <= figures.p99, "{way}: {figures:?}");
        assert!(found.asker_ns[way].p50 > 0.0);
    }
    assert!(found.stores_per_s > 0.0);
}

/// Each on two cores, with as little as there can be.
fn measured(args: &[&str]) -> Option<Colocate> {
    let dir = tempfile::tempdir().unwrap();
    if curtail_shm::kthreads::allowed_cpus().unwrap().len() < 2 {
        return None; // It says so.
    }
    // In place of the instrumented program this one: its batch threads yield by hand.
    let out = command().args(args).arg("--out").arg(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(dir.path().join("colocate.json")).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_allocators_orders_are_followed() {
    let Some(found) = measured(&["orders"]) else { return };
    assert!(found.orders_per_s > 0.0);
}

#[test]
fn the_service_is_measured_beside_batch_work_inside() {
    let args = ["share", "--works", "exp100", "--loads", "0.1", "--seconds", "0.2", "--times", "1"];
    let montecarlo = env!("CARGO_BIN_EXE_montecarlo");
    let programs = ["--ways", "inside_plain", "--batch-plain", montecarlo];
    let Some(found) = measured(&[&args[..], &programs[..]].concat()) else { return };
    let [share] = &found.share[..] else { panic!("{found:?}") };
    assert_eq!(share.how, "inside_plain");
    // On a busy machine the service is behind with its requests, and leaves nothing.
    assert!(share.lc > 0.0 && share.batch >= 0.0 && share.lc_p99_us > 0.0, "{share:?}");
}

/// A load that steps, beside a batch thread that yields by hand.
#[test]
fn windows_of_a_load_that_steps_are_pooled() {
    let cpus = curtail_shm::kthreads::allowed_cpus().unwrap();
    if cpus.len() < 2 {
        return; // The generator has a core of its own.
    }
    let steps = Steps { loads: [0.05, 0.2], step_ns: 20_000_000, cycles: 2 };
    let offer = Offer {
        mix: "work:exp(20us):1".to_owned(),
        load: 0.0,
        steps: Some(steps),
        seconds: 0.0,
        seed: 1,
        cpus: [cpus[0], cpus[1]],
        daemon: None,
        interval_ns: 5_000,
        spin_ns: 2_000,
        inside: Some(Inside::Yields),
        dispatcher: false,
    };
    let served = serve(&offer);
    assert!(served.batch_rate >= 0.0, "what a busy machine leaves");
    let counts: Vec<usize> = served.windows.iter().map(|window| window.count).collect();
    // 25 and 100 in each window, twice.
    let [a, b, c, d] = counts[..] else { panic!("{counts:?}") };
    assert!(a + b < c + d && a + b + c + d == served.count, "{counts:?}");
}

/// What a service says that is offered that.
fn serve(offer: &Offer) -> Served {
    let mut service = command()
        .args(["service", &serde_json::to_string(offer).unwrap()])
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
    serde_json::from_str(served).unwrap()
}

#[test]
fn what_is_no_option_is_refused() {
    for args in [&["--rounds", "0"] as &[&str], &["--looks", "2"], &["handovers"], &["--out"]] {
        let out = command().args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--help"), "{args:?}");
    }
    let role = command().args(["role", "heir"]).output().unwrap();
    assert_eq!(role.status.code(), Some(1));
}

/// The service serves what is offered, with the core allocator and without, and by a dispatcher.
#[test]
fn a_service_serves_what_is_offered() {
    let cpus = curtail_shm::kthreads::allowed_cpus().unwrap();
    if cpus.len() < 2 {
        return; // The generator has a core of its own.
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = Some(folder.path().join("curtaild.sock"));
    for (daemon, dispatcher) in [(None, false), (socket.clone(), false), (socket, true)] {
        let offer = Offer {
            mix: "work:exp(20us):1".to_owned(),
            load: 0.05,
            seconds: 0.2,
            seed: 1,
            cpus: [cpus[0], cpus[1]],
            daemon,
            interval_ns: 5_000,
            spin_ns: 2_000,
            steps: None,
            inside: None,
            dispatcher,
        };
        let served = serve(&offer);
        // 2,500 a second.
        assert!((350..650).contains(&served.count), "{served:?}");
        assert!(served.sojourn_us.p50 >= 10.0, "{served:?}");
    }
}
