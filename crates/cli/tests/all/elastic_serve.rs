//! `curtail serve` under a core allocator, each in a process of its own or in this one.

use crate::common;
use crate::daemon;
use crate::server;

use common::{curtail, run};
use daemon::{Running, until};
use rustix::process::Signal;
use server::Server;
use spin::protocol::{Answer, BYTES, Request, Status};
use std::io::{ErrorKind, Read, Write};
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
    /// `urls`: one of datagrams and one of a stream.
    fn of(urls: &str) -> Self {
        let of = |scheme| urls.split(',').find_map(|url| url.strip_prefix(scheme));
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect(of("udp://").or(of("daemon+udp://")).unwrap()).unwrap();
        datagrams.set_read_timeout(Some(STUCK)).unwrap();
        let stream = TcpStream::connect(of("tcp://").unwrap()).unwrap();
        stream.set_read_timeout(Some(STUCK)).unwrap();
        Self { datagrams, stream, next: 0 }
    }

    /// One request each way.
    fn ask(&mut self) {
        assert!(self.ask_by_datagram(), "its port is closed");
        self.ask_by_stream();
    }

    /// False: no server is there.
    fn ask_by_datagram(&mut self) -> bool {
        let mut answer = [0; BYTES];
        let asked = self.datagrams.send(&self.request());
        let answered = asked.and_then(|_| self.datagrams.recv(&mut answer));
        if answered.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            return false;
        }
        assert_eq!(answered.unwrap(), BYTES);
        self.check(&answer);
        true
    }

    fn request(&self) -> [u8; BYTES] {
        Request { tag: self.next, class: 0, service_ns: 1_000 }.encode()
    }

    fn ask_by_stream(&mut self) {
        let request = self.request();
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
    under_at(daemon, LISTEN)
}

fn under_at(daemon: &Running, listen: &str) -> Server {
    of_policy(daemon, listen, "shenango", "2")
}

fn of_policy(daemon: &Running, listen: &str, policy: &str, workers: &str) -> Server {
    let path = daemon.path.to_str().unwrap();
    let more = ["--policy", policy, "--workers", workers, "--daemon", path, "--guaranteed", "1"];
    Server::with(listen, &more)
}

/// The dispatcher's core is one of the two, and it gives that back, too, when nothing comes.
#[test]
fn a_dispatcher_and_its_workers_have_cores_while_there_is_something_to_do() {
    for policy in ["fcfs", "concord", "darc", "tq"] {
        let daemon = Running::of_cores("serve-dispatched", 2, |_| {});
        let server = of_policy(&daemon, LISTEN, policy, "2");
        let mut client = Client::of(&server.url);
        for _ in 0..3 {
            (0..20).for_each(|_| client.ask());
            until("all cores are free", || {
                let cores = daemon.status()["cores"].clone();
                cores.as_array().unwrap().iter().all(|core| core["state"] == "free")
            });
        }
        let status = daemon.status();
        let program = &status["programs"][0];
        assert_eq!((&program["kthreads"], &program["guaranteed"]), (&3.into(), &1.into()));
        assert!(program["grants"].as_u64().unwrap() >= 3, "{status}");
        assert_eq!(daemon.count("demoted"), 0, "{status}");
        let report = server.stop(Signal::TERM);
        assert_eq!(report["completed"], 120, "{policy}: {report}");
        until("it has left", || daemon.count("left") == 1);
    }
}

const PORT: &str = "daemon+udp://127.0.0.1:0,tcp://127.0.0.1:0";

#[test]
fn the_daemon_receives_datagrams_and_sends_the_answers() {
    let daemon = Running::start("serve-port");
    let server = under_at(&daemon, PORT);
    let mut client = Client::of(&server.url);
    for _ in 0..5 {
        (0..20).for_each(|_| client.ask());
        until("the core is free", || daemon.status()["cores"][0]["state"] == "free");
    }
    let port = daemon.status()["programs"][0]["port"].clone();
    assert_eq!((&port["received"], &port["answered"]), (&100.into(), &100.into()), "{port}");
    assert!(server.url.contains(&format!("daemon+{}", port["url"].as_str().unwrap())));
    assert_eq!(daemon.count("demoted"), 0);
    let report = server.stop(Signal::TERM);
    assert_eq!((&report["completed"], &report["dropped"]), (&200.into(), &0.into()), "{report}");
}

#[test]
fn the_port_goes_with_the_daemon_and_comes_back_with_the_next() {
    let daemon = Running::start("serve-port-again");
    let server = under_at(&daemon, PORT);
    let mut client = Client::of(&server.url);
    (0..20).for_each(|_| client.ask());
    drop(daemon);
    until("the port is closed", || !client.ask_by_datagram());
    (0..20).for_each(|_| client.ask_by_stream());
    let daemon = Running::start("serve-port-again");
    until("the same port is open again", || client.ask_by_datagram());
    client.next += 1;
    (0..20).for_each(|_| client.ask());
    assert_eq!(daemon.count("demoted"), 0);
    drop(server);
}

/// In place of the socket, packets that come from nowhere: as generators of load make them.
#[test]
fn a_generator_in_the_daemon_has_all_its_packets_answered() {
    let (local, client) = curtail_net::Local::new(256).unwrap();
    let mut local = Some(local);
    let open = move |_: &str| -> Result<Box<dyn curtail_net::Transport>, String> {
        Ok(Box::new(local.take().ok_or("there is one generator")?))
    };
    let daemon = Running::with("serve-generator", |daemon| daemon.open_ports_by(Box::new(open)));
    let app = spin::Spin::new(vec![curtail::Class::named("one")], 100.0);
    let server =
        curtail::Server::builder(app).policy(curtail_policy::Spec::preset("shenango").unwrap());
    let server = server.workers(2).daemon(&daemon.path).daemon_port("udp://nowhere");
    let server = server.build().unwrap();
    let handle = server.handle();
    let server = std::thread::spawn(move || server.run().unwrap());
    for round in 0..20_u64 {
        let request = |tag| Request { tag, class: 0, service_ns: 500 }.encode().to_vec();
        let tickets: Vec<_> =
            (0..100).map(|n| client.submit(request(round * 100 + n)).unwrap()).collect();
        for (n, ticket) in (0..).zip(tickets) {
            let answer = ticket.wait().unwrap();
            assert_eq!(Answer::decode(&answer).unwrap().tag, round * 100 + n);
        }
    }
    handle.shutdown();
    let report = server.join().unwrap();
    assert_eq!((report.classes[0].completed, report.unsent, report.abandoned), (2_000, 0, 0));
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
    // A dispatcher is one of the kthreads, and there is a worker at least.
    for (asked, kthreads) in [("3", 3), ("1", 2)] {
        let programs = registered(&daemon, &[("CURTAIL_KTHREADS", asked)], "tq");
        assert_eq!(
            (&programs[0]["kthreads"], &programs[0]["guaranteed"]),
            (&kthreads.into(), &1.into())
        );
    }
    // With an empty word there is no daemon.
    assert_eq!(registered(&daemon, &[("CURTAILD", "")], "shenango"), serde_json::json!([]));
    let nowhere = [("CURTAILD", "/nonexistent/sock")];
    assert_eq!(registered(&daemon, &nowhere, "shenango"), serde_json::json!([]));
}

#[test]
fn what_can_not_be_is_said_in_one_line() {
    let nowhere = "serve --app spin --listen udp://127.0.0.1:0 --daemon /nonexistent/sock";
    for (line, code, says) in [
        (format!("{nowhere} --policy shenango"), 1, "no core allocator at /nonexistent/sock"),
        (format!("{nowhere} --policy tq"), 1, "no core allocator at /nonexistent/sock"),
        (
            format!("{nowhere} --policy tq --dispatchers 2 --workers 2"),
            1,
            "several dispatchers keep",
        ),
        ("serve --app spin --listen udp://127.0.0.1:0 --guaranteed 1".to_owned(), 2, "--daemon"),
        ("serve --app spin --listen daemon+udp://127.0.0.1:0".to_owned(), 2, "with --daemon"),
    ] {
        let output = run(&line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{line}: {text}");
    }
}

fn top(daemon: &Running, arguments: &[&str]) -> (serde_json::Value, String) {
    let look = |more: &[&str]| {
        let mut command = curtail();
        command.arg("top").args(arguments).arg("--once").args(more);
        let output = command.env("CURTAILD", &daemon.path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (serde_json::from_str(&look(&["--json", "-"])).unwrap(), look(&[]))
}

#[test]
fn top_shows_the_daemon_and_below_a_server_its_own() {
    let daemon = Running::start("serve-top");
    let server = under_at(&daemon, PORT);
    let mut client = Client::of(&server.url);
    (0..20).for_each(|_| client.ask());
    let pid = server.child.id();
    let (look, table) = top(&daemon, &["--daemon"]);
    let program = &look["programs"][0];
    assert_eq!((&look["verb"], &program["pid"]), (&"top".into(), &pid.into()), "{look}");
    assert_eq!((&program["guaranteed"], &program["received"]), (&1.into(), &20.into()), "{look}");
    assert!(look["recent_grants"].as_u64().unwrap() > 0, "{look}");
    assert!(table.starts_with("core allocator, process ") && table.contains("curtail"), "{table}");
    // By its path, and below its server.
    let path = daemon.path.to_str().unwrap();
    assert_eq!(top(&daemon, &["--daemon", path]).0["programs"][0]["pid"], pid);
    let (look, table) = top(&daemon, &[&pid.to_string()]);
    assert_eq!(look["allocator"]["programs"][0]["pid"], pid, "{look}");
    assert!(table.contains("process") && table.contains("core allocator"), "{table}");
    until("no worker has a core", || {
        let workers = top(&daemon, &[&pid.to_string()]).0["workers"].clone();
        workers.as_array().unwrap().iter().all(|worker| worker["core"].is_null())
    });
    // One that is no program of the daemon's.
    let other = Server::start("udp://127.0.0.1:0");
    let (look, _) = top(&daemon, &[&other.child.id().to_string()]);
    assert!(look["allocator"].is_null(), "{look}");
    let nowhere = run("top --daemon /nonexistent/sock --once");
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert_eq!(nowhere.status.code(), Some(1), "{said}");
    assert!(said.contains("no core allocator at /nonexistent/sock"), "{said}");
}
