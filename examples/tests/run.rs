//! Every example runs, and prints what it is to print.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// What the program prints. Nothing is on its standard input.
fn run(program: &str) -> String {
    let output = Command::new(program).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn json() {
    assert_eq!(run(env!("CARGO_BIN_EXE_json")), "total: 42\n");
}

#[test]
fn shared_state() {
    let printed = run(env!("CARGO_BIN_EXE_shared_state"));
    assert_eq!(printed, "get colour: nothing\nput colour blue: done\nget colour: blue\n");
}

#[test]
fn axum() {
    assert_eq!(run(env!("CARGO_BIN_EXE_axum")), "price: 12.50\nreport: 2262 primes\n");
}

#[test]
fn files() {
    assert_eq!(run(env!("CARGO_BIN_EXE_files")), "8 files, 56 bytes\n");
}

#[test]
fn metrics() {
    let printed = run(env!("CARGO_BIN_EXE_metrics"));
    assert!(printed.contains("requests_completed{class=\"short\"} 2\n"), "{printed}");
    assert!(printed.contains("requests_completed{class=\"long\"} 1\n"), "{printed}");
    assert!(printed.contains("sojourn_seconds{class=\"long\",quantile=\"0.99\"} 0."), "{printed}");
}

#[test]
fn deadlines() {
    let printed = run(env!("CARGO_BIN_EXE_deadlines"));
    assert_eq!(printed, "60000 100: 4950\n20 9000000000000000000: late\n");
}

#[test]
fn threads() {
    assert_eq!(run(env!("CARGO_BIN_EXE_threads")), "100 of 100 answered\n");
}

#[test]
fn shutdown() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_shutdown"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        // It listens, and waits for signals from before `run` on.
        let address = line.trim().trim_start_matches("udp://");
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"hello", address).unwrap();
        let mut answer = [0; 5];
        client.recv(&mut answer).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((&answer, rest.as_str()), (b"hello", "1 served, 0 left behind\n"));
        assert!(status.success(), "{signal:?}: {status}");
    }
}
