//! What a process tells of panics on kthreads under `RUST_BACKTRACE`: every message, and every
//! stack, also where it ends at once. Each test is run once more in a process of its own.

use crate::common;

use common::{Does, preset, serve};
use std::process::{Command, Output};

/// What a process is to do stands in its environment.
const ROLE: &str = "CURTAIL_TEST_ROLE";
const PANICS: usize = 5;

#[inline(never)]
fn deep_in_the_handler() {
    panic!("as asked");
}

struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        panic!("and once more");
    }
}

/// The process that panics: by which policy, and what its handlers do.
fn child(role: &str) -> ! {
    let (policy, what) = role.split_once(' ').unwrap();
    // What aborts leaves no file behind.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none).unwrap();
    let twice = what == "twice";
    let handler = move |request: &[u8], response: &mut curtail::Response| {
        let _too = (twice && request == b"panic").then(|| PanicsToo);
        match request {
            b"panic" => deep_in_the_handler(),
            other => response.write(other),
        }
    };
    let policy = policy.to_owned();
    serve(
        Does(handler),
        |server| server.policy(preset(&policy)).workers(1),
        |client, _| {
            let ask = |_| client.submit(b"panic".to_vec()).unwrap();
            let asked: Vec<_> = (0..PANICS).map(ask).collect();
            asked.into_iter().for_each(|ticket| assert!(ticket.wait().is_err()));
            assert_eq!(client.call(b"on it goes".to_vec()).unwrap(), b"on it goes");
        },
    );
    std::process::exit(0)
}

/// Runs a test of this file as a child.
fn run(test: &str, role: &str) -> (Output, String) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    let output = command.env(ROLE, role).env("RUST_BACKTRACE", "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn every_panic_is_told_with_its_stack_before_the_process_ends() {
    if let Ok(role) = std::env::var(ROLE) {
        child(&role);
    }
    let name = "panic_report::every_panic_is_told_with_its_stack_before_the_process_ends";
    for policy in ["tq", "shenango-ps"] {
        let (output, told) = run(name, &format!("{policy} once"));
        assert!(output.status.success(), "{policy}: {told}");
        assert_eq!(told.matches(":5:\nas asked\n").count(), PANICS, "{told}");
        assert_eq!(told.matches("stack backtrace of the panic").count(), PANICS, "{told}");
        assert!(told.matches("panic_report::deep_in_the_handler\n").count() >= PANICS, "{told}");
        assert!(!told.contains("as_plain_thread"), "the hook's own frames are left out: {told}");
    }
}

#[test]
fn what_ends_by_its_panics_has_told_the_first() {
    if let Ok(role) = std::env::var(ROLE) {
        child(&role);
    }
    let (output, told) =
        run("panic_report::what_ends_by_its_panics_has_told_the_first", "tq twice");
    assert!(!output.status.success(), "{told}");
    for part in ["as asked", "and once more", "panic_report::deep_in_the_handler\n", "aborting"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
