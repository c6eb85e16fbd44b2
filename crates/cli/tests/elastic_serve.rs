//! `curtail serve` under a core allocator, each in a process of its own or in this one.

mod common;
#[path = "common/daemon.rs"]
mod daemon;
#[path = "common/server.rs"]
mod server;

use common::{curtail, run};
use daemon::{Running, until};
use rustix::process::Signal;
use server::Server;
use spin::protocol::{Answer, BYTES, Request, Status};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

const STUCK: Duration = Duration::from_secs(60);

/// A client by datagrams and one by a stream.
struct Client {
    datagrams: UdpSocket,
    stream: TcpStream,
    next: u64,
}

impl Client {
    /// `urls`: `udp://ADDRESS,tcp://ADDRESS`.
    fn of(urls: &str) -> Self {
        let (udp, tcp) = urls.split_once(',').unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect(udp.strip_prefix("udp://").unwrap()).unwrap();
        datagrams.set_read_timeout(Some(STUCK)).unwrap();
        let stream = TcpStream::connect(tcp.strip_prefix("tcp://").unwrap()).unwrap();
        stream.set_read_timeout(Some(STUCK)).unwrap();
        Self { datagrams, stream, next: 0 }
    }

    /// One request each way.
    fn ask(&mut self) {
        let request = Request { tag: self.next, class: 0, service_ns: 1_000 }.encode();
        let mut answer = [0; BYTES];
        self.datagrams.send(&request).unwrap();
        assert_eq!(self.datagrams.recv(&mut answer).unwrap(), BYTES);
        self.check(&answer);
        self.stream.write_all(&(BYTES as u32).to_le_bytes()).unwrap();
        self.stream.write_all(&request).unwrap();
        let mut frame = [0; 4 + BYTES];
        self.stream.read_exact(&mut frame).unwrap();
        self.check(&frame[4..]);
        self.next += 1;
    }

    fn check(&self, bytes: &[u8]) {
        let answer = Answer::decode(bytes).unwrap();
        assert_eq!((answer.tag, answer.status), (self.next, Status::Done));
    }
}

const LISTEN: &str = "udp://127.0.0.1:0,tcp://127.0.0.1:0";

fn under(daemon: &Running) -> Server {
    let path = daemon.path.to_str().unwrap();
    let more = ["--policy", "shenango", "--workers", "2", "--daemon", path, "--guaranteed", "1"];
    Server::with(LISTEN, &more)
}

#[test]
fn cores_come_with_requests_and_go_when_they_are_done() {
    let daemon = Running::start("serve");
    let server = under(&daemon);
    let mut client = Client::of(&server.url);
    for _ in 0..5 {
        (0..20).for_each(|_| client.ask());
        until("the core is free", || daemon.status()["cores"][0]["state"] == "free");
    }
    let status = daemon.status();
    let program = &status["programs"][0];
    assert_eq!((&program["kthreads"], &program["guaranteed"]), (&2.into(), &1.into()));
    assert!(program["grants"].as_u64().unwrap() >= 5, "{status}");
    assert_eq!(daemon.count("demoted") + daemon.count("moves"), 0, "{status}");
    let report = server.stop(Signal::TERM);
    assert_eq!((&report["completed"], &report["valid"]), (&200.into(), &true.into()), "{report}");
    until("it has left", || daemon.count("left") == 1);
}

#[test]
fn the_server_goes_on_when_the_daemon_ends_and_registers_with_the_next() {
    let daemon = Running::start("serve-again");
    let server = under(&daemon);
    let mut client = Client::of(&server.url);
    (0..20).for_each(|_| client.ask());
    drop(daemon);
    (0..50).for_each(|_| client.ask());
    let daemon = Running::start("serve-again");
    until("it registers again", || {
        client.ask();
        daemon.count("registered") == 1
    });
    until("it is granted cores", || {
        client.ask();
        daemon.count("grants") > 0
    });
    let report = server.stop(Signal::TERM);
    assert_eq!(report["completed"], 2 * client.next, "{report}");
}

/// What a server registers as, which has this in its environment.
fn registered(daemon: &Running, environment: &[(&str, &str)], policy: &str) -> serde_json::Value {
    let mut command = curtail();
    command.args(["serve", "--app", "spin", "--listen", "udp://127.0.0.1:0", "--policy", policy]);
    command.env("CURTAILD", &daemon.path).envs(environment.iter().copied());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // Warnings may come first.
    while !line.contains("listening on") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut errors, &mut line).unwrap() > 0, "it has ended");
    }
    let programs = daemon.status()["programs"].clone();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    std::io::copy(&mut errors, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    until("it has left", || daemon.status()["programs"] == serde_json::json!([]));
    programs
}

#[test]
fn the_environment_says_where_the_daemon_is_and_how_many_kthreads_there_are() {
    let daemon = Running::start("serve-env");
    let programs = registered(&daemon, &[("CURTAIL_KTHREADS", "3")], "shenango");
    assert_eq!((&programs[0]["kthreads"], &programs[0]["burstable"]), (&3.into(), &3.into()));
    let cores = curtail_shm::kthreads::allowed_cpus().unwrap().len();
    for nonsense in ["", "0", "61", "many", "-1"] {
        let programs = registered(&daemon, &[("CURTAIL_KTHREADS", nonsense)], "shenango");
        assert_eq!(programs[0]["kthreads"], cores, "{nonsense:?}");
    }
    // With a dispatcher it keeps its cores, and with an empty word there is no daemon.
    assert_eq!(registered(&daemon, &[], "tq"), serde_json::json!([]));
    assert_eq!(registered(&daemon, &[("CURTAILD", "")], "shenango"), serde_json::json!([]));
    let nowhere = [("CURTAILD", "/nonexistent/sock")];
    assert_eq!(registered(&daemon, &nowhere, "shenango"), serde_json::json!([]));
}

#[test]
fn what_can_not_be_is_said_in_one_line() {
    let nowhere = "serve --app spin --listen udp://127.0.0.1:0 --daemon /nonexistent/sock";
    for (line, code, says) in [
        (format!("{nowhere} --policy shenango"), 1, "no core allocator at /nonexistent/sock"),
        (format!("{nowhere} --policy tq"), 2, "`tq` has a dispatcher"),
        ("serve --app spin --listen udp://127.0.0.1:0 --guaranteed 1".to_owned(), 2, "--daemon"),
    ] {
        let output = run(&line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{line}: {text}");
    }
}
