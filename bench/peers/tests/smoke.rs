//! Every benchmark, small: it runs to its end and its JSON has the keys that others read. The peers in
//! C stand in for the other programs too: what is tested is the harness, and what the figures say is
//! of no interest here.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A directory with `bench/BENCH/SOURCE.c`, built, under all these names.
fn programs(bench: &str, source: &str, names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = directory.path().join("built");
    let out = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&built)
        .arg(here.with_file_name(bench).join(source).with_extension("c"))
        .output()
        .unwrap();
    assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
    for name in names {
        std::fs::hard_link(&built, directory.path().join(format!("{bench}-{name}"))).unwrap();
    }
    directory
}

fn peer_bench(args: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peer-bench"));
    command.args(args).arg("--programs").arg(directory).arg("--out").arg(directory);
    command.output().unwrap()
}

fn measured(bench: &str, directory: &Path) -> Value {
    let out = peer_bench(&[bench, "--smoke"], directory);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("the figures mean nothing"), "{text}");
    let json = std::fs::read(directory.join(bench).with_extension("json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["smoke"], true);
    assert!(json["machine"]["kernel"].is_string(), "{}", json["machine"]);
    json
}

/// All of `keys` are numbers above zero.
fn positive(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object[key].as_f64().is_some_and(|value| value > 0.0), "{key} of {object}");
    }
}

fn has_note(json: &Value, note: &str) -> bool {
    let notes = json["notes"].as_array().unwrap();
    notes.iter().any(|found| found.as_str().unwrap().contains(note))
}

#[test]
fn threads_small() {
    let directory = programs("threads", "pthread", &["curtail", "pthread", "go"]);
    let why = directory.path().join("threads-glommio.skipped");
    std::fs::write(why, "no io_uring here").unwrap();
    let json = measured("threads", directory.path());
    let keys = ["mutex_ns", "yield_ns", "condvar_ns", "spawn_join_ns"];
    positive(&json["ops"], &keys);
    positive(&json["peers"]["pthread"], &keys);
    positive(&json["peers"]["go"], &keys);
    positive(&json["minima"]["curtail"], &keys);
    assert_eq!(json["rounds"]["go"]["yield_ns"].as_array().unwrap().len(), 1);
    assert!(json["peers"].get("glommio").is_none() && json["peers"].get("may").is_none());
    assert!(has_note(&json, "glommio: left out, no io_uring here"), "{}", json["notes"]);
    assert!(has_note(&json, "may: left out, not built"), "{}", json["notes"]);
}

#[test]
fn echo_small() {
    let directory = programs("echo", "epoll", &["curtail", "epoll"]);
    let json = measured("echo", directory.path());
    for kind in ["tcp", "udp"] {
        for name in ["curtail", "epoll"] {
            let server = &json[kind][name];
            positive(server, &["p50_us", "p99_us", "p50_us_8", "p99_us_8", "p50_us_64", "rps_cpu"]);
            // On a busy machine no rate may pass.
            assert!(server["rps"].is_number() && server["rounds"][0]["one"]["samples"].is_number());
        }
        assert!(json[kind].get("go").is_none());
    }
    positive(&json["tcp"]["curtail"], &["p50_us_1000", "p99_us_1000"]);
    assert!(has_note(&json, "tokio: left out, not built"), "{}", json["notes"]);
}

#[test]
fn wakeups_small() {
    let directory = programs("wakeups", "pthread", &["curtail", "pthread"]);
    let json = measured("wakeups", directory.path());
    for beside in ["computing", "idle"] {
        for name in ["curtail", "pthread"] {
            let found = &json[beside][name];
            let keys = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us", "samples"];
            positive(&found["sleep_late"], &keys);
            positive(&found["socket"], &keys);
            assert_eq!(found["sleep_late"]["samples"], 20);
        }
    }
    positive(&json["computing"]["curtail"], &["computed"]);
    assert_eq!(json["idle"]["curtail"]["computed"], 0.0);
    assert!(has_note(&json, "go: left out, not built"), "{}", json["notes"]);
}

/// A directory with a server of Python's under these names. It answers each request as RESP would.
fn servers(bench: &str, names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("server.py");
    std::fs::write(&source, SERVER).unwrap();
    std::fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for name in names {
        std::fs::hard_link(&source, directory.path().join(format!("{bench}-{name}"))).unwrap();
    }
    directory
}

const SERVER: &str = r#"#!/usr/bin/env python3
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            if line[:1] == b"*":
                words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2) for _ in range(int(line[1:]))]
                self.wfile.write(b"*1\r\n$1\r\na\r\n" if words[0] == b"KEYS\r\n" else b"$-1\r\n")
            else:
                self.wfile.write(b":1\r\n")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
with Server(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"#;

#[test]
fn locks_and_skew_small() {
    let directory = servers("locks", &["threads"]);
    let json = measured("locks", directory.path());
    let locks = ["mutex", "rwlock", "std", "parking_lot"];
    positive(&json["short_p99_us"]["kernel_threads"], &locks);
    positive(&json["short_p99_us_two_cores"]["kernel_threads"], &locks);
    assert!(has_note(&json, "go: left out, not built"), "{}", json["notes"]);
    let json = measured("skew", directory.path());
    positive(&json["skewed"]["kernel_threads"], &["p50_us", "p99_us", "rps"]);
}

#[test]
fn redis_small() {
    let directory = servers("redis", &["threads"]);
    let json = measured("redis", directory.path());
    for beside in ["keys", "keys_20k"] {
        positive(&json["get_p99_us_beside"][beside], &["kernel_threads"]);
    }
    for depth in ["p1", "p16"] {
        positive(&json["get_rps"][depth], &["kernel_threads"]);
    }
    let rounds = &json["rounds"]["one_core"]["kernel_threads"];
    assert!(rounds["keys"][0]["beside"].is_number(), "{rounds}");
}

#[test]
fn a_program_that_fails_is_a_note_and_no_figure() {
    let directory = tempfile::tempdir().unwrap();
    for program in ["threads-may", "echo-epoll", "wakeups-go", "pool-go"] {
        std::os::unix::fs::symlink("/bin/false", directory.path().join(program)).unwrap();
    }
    let threads = measured("threads", directory.path());
    assert!(has_note(&threads, "may: no mutex, it ended (exit status: 1)"), "{threads}");
    assert!(threads["peers"].as_object().unwrap().is_empty());
    let echo = measured("echo", directory.path());
    assert!(has_note(&echo, "epoll, round 0: ended (exit status: 1)"), "{echo}");
    assert!(echo["tcp"].as_object().unwrap().is_empty());
    let wakeups = measured("wakeups", directory.path());
    assert!(has_note(&wakeups, "go, round 0: it ended (exit status: 1)"), "{wakeups}");
    let pool = measured("pool", directory.path());
    assert!(has_note(&pool, "go, round 0: ended (exit status: 1)"), "{pool}");
    assert!(has_note(&pool, "rayon: left out, not built"), "{pool}");
    assert!(pool["short_p99_us"].as_object().unwrap().is_empty());
    positive(&pool, &["load", "rate_rps"]);
}

#[test]
fn what_the_command_does_not_know_it_refuses() {
    let directory = tempfile::tempdir().unwrap();
    for args in [&["thread"] as &[&str], &[], &["echo", "--rounds", "0"], &["echo", "--rounds"]] {
        let out = peer_bench(args, directory.path());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--help"), "{args:?}");
    }
}
