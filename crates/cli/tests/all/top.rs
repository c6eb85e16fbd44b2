//! `curtail top` and what a server shows it: figures that add up, garbage from either side, the end.

use crate::common;
use crate::server;

use common::{curtail, json, run};
use rustix::process::Signal;
use serde_json::Value;
use server::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

fn name(pid: u32) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("curtail-top-{pid}")).unwrap()
}

fn once(pid: u32) -> Value {
    json(&["top", &pid.to_string(), "--once"])
}

/// The first look at which it is so.
fn when(pid: u32, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let live = once(pid);
        if is_so(&live) {
            return live;
        }
        assert!(begun.elapsed() < STUCK, "{live}");
    }
}

/// Requests served since the start.
fn served(live: &Value) -> u64 {
    let of = |class: &Value| class["total"]["completed"].as_u64().unwrap();
    live["classes"].as_array().unwrap().iter().map(of).sum()
}

/// Offers some requests, and says how many were answered, those of the warm-up left out.
fn drive(url: &str) -> u64 {
    let classes = "a:5us:9,b:50us:1";
    let run = json(&["load", url, "--classes", classes, "--rate", "500", "--duration", "300ms"]);
    assert_eq!(run["dropped"], 0, "{run}");
    run["completed"].as_u64().unwrap()
}

#[test]
fn a_look_adds_up() {
    let options = ["--policy", "darc", "--workers", "2"];
    let server = Server::with("udp://127.0.0.1:0", &options);
    let pid = server.child.id();
    let before = once(pid);
    assert_eq!((&before["verb"], &before["app"]), (&"top".into(), &"spin".into()), "{before}");
    assert_eq!(before["listen"], *server.url, "{before}");
    assert_eq!((&before["policy"], &before["quantum_ns"]), (&"darc".into(), &Value::Null));
    assert!(before["decided"].as_str().is_some_and(|line| !line.is_empty()), "{before}");
    assert_eq!(before["classes"][0]["total"]["sojourn_ns"], serde_json::json!({}), "{before}");
    let answered = drive(&server.url);
    assert!(answered > 50, "{answered}");

    // Requests are counted a little after they are answered.
    let live = when(pid, |live| served(live) >= answered);
    let names: Vec<_> = live["classes"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["a", "b", "unknown"], "{live}");
    let workers = live["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2, "{live}");
    assert_eq!((&workers[0]["worker"], &workers[1]["worker"]), (&0.into(), &1.into()));
    let table = curtail().args(["top", &pid.to_string(), "--once"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains(&server.url) && table.contains("kept from it"), "{table}");
    assert!(!table.contains('\x1b'), "not on a terminal: {table}");
    assert!(table.contains(live["decided"].as_str().unwrap()), "{table}");
    let summary = server.stop(Signal::TERM);
    assert!(summary["completed"].as_u64().unwrap() >= served(&live), "{summary}");
}

#[test]
fn empty_datagrams_are_counted_and_garbage_is_answered() {
    let server = Server::start("udp://127.0.0.1:0");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(STUCK)).unwrap();
    socket.connect(server.url.strip_prefix("udp://").unwrap()).unwrap();
    for datagram in [&b""[..], b"garbage!", b""] {
        socket.send(datagram).unwrap();
    }
    let live = when(server.child.id(), |live| live["malformed"] == 2 && served(live) == 1);
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"garbage!"), "{live}");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut answer).is_err(), "an empty one gets no answer");
}

/// `curtail top` that goes on; killed if a test forgets it.
struct Live(Child);

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_goes_on_until_the_server_ends() {
    let server = Server::start("udp://127.0.0.1:0");
    let pid = server.child.id().to_string();
    let mut command = curtail();
    command.args(["top", &pid, "--interval", "20ms", "--json", "-"]);
    let mut top = Live(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(top.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("the server runs").unwrap();
        serde_json::from_str(&line).unwrap()
    };
    next();
    drive(&server.url);
    // What came since the look before adds up to what came since the start.
    let mut sum = 0;
    let mut looks = 0;
    let count = |live: &Value, of: &str| live["classes"][0][of]["completed"].as_u64().unwrap();
    let first = next();
    let begun = count(&first, "total");
    while looks < 10 || sum + begun == 0 {
        let live = next();
        sum += count(&live, "recent");
        assert_eq!(count(&live, "total"), begun + sum, "{live}");
        assert!(live["recent_s"].as_f64().unwrap() >= 0.02, "{live}");
        looks += 1;
        assert!(looks < 3_000, "nothing is served: {live}");
    }
    server.stop(Signal::INT);
    for line in lines {
        let _: Value = serde_json::from_str(&line.unwrap()).unwrap();
    }
    let mut said = String::new();
    top.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(top.0.wait().unwrap().success(), "{said}");
    assert_eq!(said, "the server has ended\n");
}

#[test]
fn garbage_from_a_client_harms_nobody() {
    let server = Server::start("udp://127.0.0.1:0");
    let pid = server.child.id();
    let mut rude = UnixStream::connect_addr(&name(pid)).unwrap();
    rude.set_read_timeout(Some(STUCK)).unwrap();
    rude.write_all(&[0xff; 4_096]).unwrap();
    rude.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut reader = BufReader::new(rude.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let live: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(live["pid"], pid, "{live}");
    // Gone in the middle, and never asking: others are served.
    rude.write_all(b"\n").unwrap();
    drop((rude, reader));
    let silent: Vec<_> = (0..3).map(|_| UnixStream::connect_addr(&name(pid)).unwrap()).collect();
    assert_eq!(once(pid)["pid"], pid);
    // More than it takes: those are turned away, and it is there again when they have left.
    let crowd: Vec<_> = (0..20).map(|_| UnixStream::connect_addr(&name(pid)).unwrap()).collect();
    let mut last = crowd.last().unwrap();
    last.set_read_timeout(Some(STUCK)).unwrap();
    assert_eq!(last.read(&mut [0; 1]).unwrap(), 0, "turned away");
    drop((silent, crowd));
    let begun = Instant::now();
    while UnixStream::connect_addr(&name(pid)).is_ok_and(|mut stream| {
        stream.set_read_timeout(Some(STUCK)).unwrap();
        stream.write_all(b"\n").is_err() || stream.read(&mut [0; 1]).unwrap_or(0) == 0
    }) {
        assert!(begun.elapsed() < STUCK);
    }
    assert_eq!(once(pid)["pid"], pid);
    server.stop(Signal::TERM);
}

/// Looks at this process, which answers with `says` once.
fn look_at(says: &[u8]) -> Output {
    let me = std::process::id();
    let listener = UnixListener::bind_addr(&name(me)).unwrap();
    let mut command = curtail();
    command.args(["top", &me.to_string(), "--once", "--json", "-"]);
    let top = Live(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 1);
    stream.write_all(says).unwrap();
    drop(stream);
    let mut top = top;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    top.0.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    top.0.stderr.take().unwrap().read_to_end(&mut err).unwrap();
    Output { status: top.0.wait().unwrap(), stdout: out, stderr: err }
}

#[test]
fn garbage_from_a_server_is_an_error_in_one_line() {
    let me = std::process::id();
    let newer = br#"{"schema": 7, "news": true}"#;
    let other = format!("{{\"verb\": \"top\", \"pid\": {}, \"policy\": \"tq\"}}\n", me + 1);
    for (says, words) in [
        (&b""[..], "has ended"),
        (b"\n", "no look"),
        (b"\xff\x00\x1b[2J\n", "no look"),
        (b"{\"verb\": \"top\", \"pid\": 1", "no look"),
        (newer, "schema 7"),
        (other.as_bytes(), "no look"),
    ] {
        let output = look_at(says);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.lines().count() == 1 && said.contains(words), "{said}");
        assert!(output.stdout.is_empty() && !said.contains('\x1b'), "{said}");
    }
    let fine = format!("{{\"verb\": \"top\", \"pid\": {me}, \"policy\": \"tq\", \"new\": 1}}\n");
    assert!(look_at(fine.as_bytes()).status.success());
}

#[test]
fn who_shows_nothing_is_named() {
    let nobody = run("top 4294967295 --once");
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(nobody.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "curtail: process 4294967295 shows nothing: it is no `curtail serve`, and not observable\n"
    );
    assert_eq!(run("top 1 --interval 1us").status.code(), Some(2));
}
