//! SIGINT and SIGTERM drain a server; a second signal ends the process. In processes of their own.

use crate::common;

use common::{End, STUCK, Verbs};
use curtail::net::Local;
use curtail::{Server, Spec};
use rustix::process::{Signal, getpid, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

/// What the child is to do.
const ROLE: &str = "CURTAIL_TEST_TERMINATE";

/// Runs the test of that name once more, in a process of its own, as `role`.
fn child(test: &str, role: &str) -> std::process::ExitStatus {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).status().unwrap()
}

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

#[test]
fn a_signal_drains_a_server() {
    let Some(role) = role() else {
        for policy in ["tq", "shenango"] {
            for signal in ["INT", "TERM"] {
                let status =
                    child("terminate::a_signal_drains_a_server", &format!("{policy} {signal}"));
                assert!(status.success(), "{policy}, {signal}: {status}");
            }
        }
        return;
    };
    let (policy, signal) = role.split_once(' ').unwrap();
    let signal = if signal == "INT" { Signal::INT } else { Signal::TERM };
    let (local, client) = Local::new(8).unwrap();
    let policy = Spec::preset(policy).unwrap();
    let server = Server::builder(Verbs).policy(policy).workers(1).transport(Box::new(local));
    let server = server.drain(STUCK).build().unwrap();
    server.handle().shutdown_on_signals().unwrap();
    let end = End(server.handle());
    let running = std::thread::spawn(move || server.run().unwrap());
    // What has come in when the signal comes is answered all the same.
    let tickets: Vec<_> = (0..4).map(|_| client.submit(b"spin 200000".to_vec()).unwrap()).collect();
    kill_process(getpid(), signal).unwrap();
    let answered = tickets.into_iter().filter_map(|ticket| ticket.wait().ok()).count();
    let report = running.join().unwrap();
    assert_eq!((report.classes[1].completed, report.abandoned), (answered as u64, 0));
    // It has come: what is asked for now is done at once.
    let (done, is_done) = channel();
    curtail::on_terminate(move || done.send(()).unwrap()).unwrap();
    is_done.try_recv().unwrap();
    drop(end);
}

#[test]
fn a_second_signal_ends_the_process() {
    if role().is_none() {
        let status = child("terminate::a_second_signal_ends_the_process", "twice");
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
        return;
    }
    let (came, comes) = channel();
    curtail::on_terminate(move || came.send(()).unwrap()).unwrap();
    kill_process(getpid(), Signal::INT).unwrap();
    comes.recv_timeout(STUCK).unwrap();
    kill_process(getpid(), Signal::TERM).unwrap();
    std::thread::sleep(STUCK);
    panic!("it goes on");
}
