//! A server for clients to meet.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::common::curtail;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A running server; killed if a test forgets it.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts one and waits until it listens.
    pub(crate) fn start(listen: &str) -> Self {
        Self::with(listen, &[])
    }

    /// Starts one with more options, and waits until it listens.
    pub(crate) fn with(listen: &str, more: &[&str]) -> Self {
        let mut child = curtail()
            .args(["serve", "--app", "spin", "--listen", listen, "--classes", "a:5us:9,b:50us:1"])
            .args(["--json", "-"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the server never waits for its reader.
            stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        let mut server = Self { child, url: String::new() };
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("it says that it listens");
        let (_, rest) = line.split_once("listening on ").unwrap_or_else(|| panic!("{line}"));
        server.url = rest.split_whitespace().next().unwrap().to_owned();
        server
    }

    /// Ends it by a signal and gives what it wrote.
    pub(crate) fn stop(mut self, signal: rustix::process::Signal) -> Value {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().unwrap(), &mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
