//! The program serves, and ends well on both signals.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Killed with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(how: &str) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_web"))
        .args(["--listen", "127.0.0.1:0", "--pool", how, "--workers", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Running(child), line.trim().trim_start_matches("http://").to_owned())
}

#[test]
fn it_serves_and_ends_on_both_signals() {
    for (how, signal) in [
        ("none", Signal::INT),
        ("spawn_blocking", Signal::TERM),
        ("curtail", Signal::INT),
        ("curtail", Signal::TERM),
    ] {
        let (mut program, address) = start(how);
        let mut client = TcpStream::connect(&address).unwrap();
        client
            .write_all(b"GET /report?customers=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"cents\""), "{how}: {text}");
        // One that keeps its connection open holds nothing up.
        let idle = TcpStream::connect(&address).unwrap();
        kill_process(Pid::from_child(&program.0), signal).unwrap();
        assert!(program.0.wait().unwrap().success(), "{how}, {signal:?}");
        drop(idle);
    }
}

#[test]
fn what_is_wrong_with_its_arguments_is_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, told) in [
        (vec!["--workers", "0"], "0 workers"),
        (vec!["--policy", "nonsense"], "nonsense"),
        (vec!["--listen", &taken], "in use"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_web")).args(&args).output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && text.contains(told), "{args:?}: {text}");
        assert!(!text.contains('{'), "no debugging output: {text}");
    }
}
