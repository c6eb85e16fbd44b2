//! A program without safepoints that wants pre-emption says so, once a process. Each test is run once
//! more in a process of its own.

mod common;

use common::{Verbs, preset};
use curtail::pool::{Class, Pool};
use curtail::{ClassId, Preempt, Runtime, SafepointKind, Server, safepoint_kind};
use std::process::Command;
use std::time::Duration;

/// What a process is to do stands in its environment.
const ROLE: &str = "CURTAIL_TEST_ROLE";
const SILENCED_BY: &str = "CURTAIL_QUIET";

fn server(policy: &str, preempt: Preempt) {
    let (local, _client) = curtail::net::Local::new(4).unwrap();
    let server = Server::builder(Verbs).transport(Box::new(local)).workers(1);
    let server = server.policy(preset(policy)).preempt(preempt).build().unwrap();
    server.handle().shutdown();
    server.run().unwrap();
}

fn pool() {
    let pool = Pool::builder().workers(1).class(Class::named("all")).build().unwrap();
    assert_eq!(pool.run(ClassId(0), || 7).wait().unwrap(), 7);
}

fn runtime(quantum: Option<Duration>) {
    let builder = Runtime::builder().kthreads(1);
    let builder = match quantum {
        Some(quantum) => builder.quantum(quantum),
        None => builder.run_to_completion(),
    };
    assert_eq!(builder.run(|| 7), 7);
}

fn child(role: &str) -> ! {
    let quantum = Some(Duration::from_micros(20));
    match role {
        "server" => server("tq", Preempt::Auto),
        "threads of a server" => server("shenango-ps", Preempt::Auto),
        "pool" => pool(),
        "runtime" => runtime(quantum),
        "all of them" => {
            (0..2).for_each(|_| server("tq", Preempt::Auto));
            pool();
            runtime(quantum);
        }
        "none is wanted" => {
            server("tq", Preempt::Never);
            server("fcfs", Preempt::Auto);
            runtime(None);
        }
        other => panic!("{other}"),
    }
    std::process::exit(0)
}

/// How often a process says it.
fn says(test: &str, role: &str, silenced: Option<&str>) -> usize {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(ROLE, role);
    command.env_remove(SILENCED_BY).envs(silenced.map(|value| (SILENCED_BY, value)));
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {stderr}");
    stderr.matches("PRE-EMPTION IS OFF").count()
}

#[test]
fn it_is_said_once() {
    if let Ok(role) = std::env::var(ROLE) {
        child(&role);
    }
    let once = usize::from(safepoint_kind() == SafepointKind::None);
    for role in ["server", "threads of a server", "pool", "runtime", "all of them"] {
        assert_eq!(says("it_is_said_once", role, None), once, "{role}");
    }
}

#[test]
fn it_is_not_said_where_nobody_wants_it_or_it_is_silenced() {
    if let Ok(role) = std::env::var(ROLE) {
        child(&role);
    }
    let test = "it_is_not_said_where_nobody_wants_it_or_it_is_silenced";
    assert_eq!(says(test, "none is wanted", None), 0);
    assert_eq!(says(test, "all of them", Some("1")), 0);
}
