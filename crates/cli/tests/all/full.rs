//! Devices that are full: what cannot be told is not told, and what was asked for and cannot be
//! written is a failure with a reason.

use crate::common;

use common::{curtail, run};
use std::fs::OpenOptions;
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// Killed if a test forgets it.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Its end, in time; what it wrote into pipes, which must be little.
    fn end(mut self) -> Output {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < STUCK, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut output =
            Output { status: self.0.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
        if let Some(pipe) = &mut self.0.stdout {
            pipe.read_to_end(&mut output.stdout).unwrap();
        }
        if let Some(pipe) = &mut self.0.stderr {
            pipe.read_to_end(&mut output.stderr).unwrap();
        }
        output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// A port that is not in use, for a server that cannot tell which it was given.
fn port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Requests to it are answered.
fn is_served(url: &str) {
    let line = format!("load {url} --rate 500 --duration 200ms --timeout 20s --json -");
    let mut output = run(&line);
    let begun = Instant::now();
    // It may not listen yet.
    while output.stdout.is_empty() && begun.elapsed() < STUCK {
        output = run(&line);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(told["completed"].as_u64().unwrap() > 50, "{told}");
}

#[test]
fn a_server_serves_although_standard_error_is_full() {
    let url = format!("udp://127.0.0.1:{}", port());
    let mut command = curtail();
    command.args(["serve", "--app", "spin", "--listen", &url, "--json", "-"]);
    // It has something to say all the time.
    command.env("RUST_LOG", "trace").stdout(Stdio::piped()).stderr(full());
    let server = Process::start(&mut command);
    is_served(&url);
    server.signal(rustix::process::Signal::TERM);
    let output = server.end();
    assert!(output.status.success(), "{:?}", output.status);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["completed"].as_u64().unwrap() > 50, "{told}");
}

#[test]
fn an_error_is_an_exit_code_although_standard_error_is_full() {
    for (line, code) in [("serve --app spin --listen ftp://127.0.0.1:1", 2), ("no-such-verb", 2)] {
        let status = curtail().args(line.split(' ')).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

/// It serves, and fails in the end with one line that says why.
fn fails_for_want_of_room(json: &str, stdout: Stdio) {
    let url = format!("udp://127.0.0.1:{}", port());
    let mut command = curtail();
    command.args(["serve", "--app", "spin", "--listen", &url, "--json", json]);
    let server = Process::start(command.stdout(stdout).stderr(Stdio::piped()));
    is_served(&url);
    server.signal(rustix::process::Signal::TERM);
    let output = server.end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("curtail: ") && last.contains("No space left on device"), "{said}");
}

#[test]
fn a_report_that_finds_no_room_is_a_failure() {
    fails_for_want_of_room("/dev/full", Stdio::null());
    fails_for_want_of_room("-", full());
}

#[test]
fn a_record_that_finds_no_room_costs_no_request_and_is_told() {
    let url = format!("udp://127.0.0.1:{}", port());
    let mut command = curtail();
    command.args(["serve", "--app", "spin", "--listen", &url, "--json", "-"]);
    command.args(["--record", "/dev/full"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = Process::start(&mut command);
    is_served(&url);
    server.signal(rustix::process::Signal::TERM);
    let output = server.end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("No space left on device") && !said.contains("panicked"), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["completed"].as_u64().unwrap() > 50 && told["dropped"] == 0, "{told}");
}
