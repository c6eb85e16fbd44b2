//! The command as a user meets it: what is refused, what is printed, what it costs when idle.

use crate::common;

use common::{Daemon, Manner, Player, critical, managed, until};
use curtail_shm::kthreads;
use rustix::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn curtaild(line: &str) -> Output {
    let words = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_curtaild"))
        .args(words)
        .env("CURTAILD", "/nonexistent/curtaild.sock")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn fails(line: &str, code: i32, says: &str) {
    let output = curtaild(line);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {text}");
    assert!(text.starts_with("curtaild: ") && text.contains(says), "{line}: {text}");
    assert_eq!(text.lines().count(), 1, "{line}: {text}");
}

#[test]
fn bad_usage_is_one_line_and_two() {
    for (line, says) in [
        ("", "--cores"),
        ("--nonsense", "'--nonsense'"),
        ("--cores x", "`x` is no core's number"),
        ("--cores 3-1", "runs backwards"),
        ("--cores 1,1", "named twice"),
        ("--cores 1000", "core 1000 is not allowed"),
        ("--cores 0 --interval 5", "with a unit"),
        ("--cores 0 --interval 10ns", "from 1us to 1s"),
        ("--cores 0 --idle sleep", "'sleep'"),
        ("--cores 0 --slots 0", "0"),
        ("--cores 0 --quiet --verbose", "--verbose"),
        ("--status --cores 0", "--cores"),
    ] {
        fails(line, 2, says);
    }
}

#[test]
fn failures_are_one_line_and_one() {
    let core = managed();
    fails("--status", 1, "/nonexistent/curtaild.sock");
    fails(&format!("--cores {core}"), 1, "No such file");
    let daemon = Daemon::start("first", &[]);
    let second = format!("--cores {core} --socket {}", daemon.path.display());
    fails(&second, 1, "another daemon listens");
    let long = format!("--cores {core} --socket /tmp/{}", "long".repeat(40));
    fails(&long, 1, "File name too long");
}

#[test]
fn help_is_a_manual_page() {
    let output = curtaild("--help");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["--cores <LIST>", "--interval", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_can_not_be_had_is_refused_with_a_reason() {
    let daemon = Daemon::start("refuse", &["--slots", "8"]);
    let no = |spec, says: &str| {
        let outcome = Player::try_join(&daemon.path, "greedy", spec, Manner::Works);
        let error = outcome.err().expect("it is refused").to_string();
        assert!(error.contains(says), "{error}");
    };
    no(critical(2, 2, 0), "2 guaranteed cores, and only 1");
    no(critical(1, 2, 0), "2 guaranteed cores for 1 kthreads");
    no(critical(9, 0, 1), "no room for 9 kthreads");
    no(critical(1, 0, 0), "neither guaranteed nor burstable");
    let first = Player::join(&daemon.path, "first", critical(1, 1, 0), Manner::Works);
    no(critical(1, 1, 0), "only 0 are not promised");
    drop(first);
    until("the first has left", || daemon.count("left") == 1);
    let _next = Player::join(&daemon.path, "next", critical(8, 1, 0), Manner::Works);
    assert_eq!(daemon.count("turned_away"), 5);
}

#[test]
fn nonsense_at_the_socket_is_turned_away() {
    let daemon = Daemon::start("nonsense", &[]);
    let kind = rustix::net::SocketType::SEQPACKET;
    let address = rustix::net::SocketAddrUnix::new(&daemon.path).unwrap();
    // More than may wait at a time, of which some say nothing.
    let mut open = Vec::new();
    for number in 0..150 {
        let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        if number % 2 == 0 {
            rustix::net::send(&socket, b"nonsense", rustix::net::SendFlags::empty()).unwrap();
        }
        open.push(socket);
    }
    until("all nonsense was turned away", || daemon.count("turned_away") == 75);
    let player = Player::join(&daemon.path, "sober", critical(1, 1, 0), Manner::Works);
    player.give(0);
    until("the sober one is served", || player.done(0) == 1);
}

/// In hundredths of a second.
fn cpu_time(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", daemon.child.id())).unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Of a core, for a while.
fn share(daemon: &Daemon) -> f64 {
    let (before, start) = (cpu_time(daemon), Instant::now());
    // What is measured is what happens while nothing happens.
    std::thread::sleep(Duration::from_millis(500));
    (cpu_time(daemon) - before) as f64 * 0.01 / start.elapsed().as_secs_f64()
}

/// A busy loop would use all of a core; a loop that sleeps uses a few percent of one.
#[test]
fn an_idle_daemon_sleeps() {
    let daemon = Daemon::start("idle", &["--linger", "1ms", "--idle", "poll"]);
    assert!(share(&daemon) < 0.2, "without programs");
    let player = Player::join(&daemon.path, "idle", critical(2, 1, 1), Manner::Works);
    player.give(0);
    until("it is served", || player.done(0) == 1);
    let sleeps = daemon.count("sleeps");
    until("the daemon sleeps", || daemon.count("sleeps") > sleeps + 2);
    assert!(share(&daemon) < 0.2, "with an idle program");
}

#[test]
fn an_output_that_is_full_stops_nothing() {
    let mut daemon = Daemon::start("full", &[]);
    daemon.kill();
    let (_unread, output) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&output).unwrap();
    rustix::fs::fcntl_setfl(&output, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&output, &[b'.'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&output, flags).unwrap();
    // It prints a line at its start.
    daemon.again(output.into());
    for round in 1..=300 {
        let player = Player::join(&daemon.path, "served", critical(1, 1, 0), Manner::Works);
        player.give(0);
        until("it is served", || player.done(0) == 1);
        drop(player);
        until("it has left", || daemon.count("left") == round);
    }
}

#[test]
fn a_daemon_without_a_core_of_its_own_leaves_cores_to_programs() {
    let cpus = kthreads::allowed_cpus().unwrap();
    let all: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let daemon = Daemon::start("shared", &["--interval", "1ms", "--cores", &all.join(",")]);
    let spec = critical(1, 1, 0);
    let hog = Player::join(&daemon.path, "hog", spec, Manner::Hogs);
    hog.give(0);
    until("it has a core", || hog.done(0) == 1);
    // What is measured is what happens while nothing new happens.
    assert!(share(&daemon) < 0.5, "it looks a thousand times a second");
}

/// A daemon that spins there takes turns of milliseconds with the other program.
#[test]
fn a_daemon_beside_another_program_sleeps_between_looks() {
    let mut others = kthreads::allowed_cpus().unwrap();
    others.retain(|&cpu| cpu != managed());
    if others.is_empty() {
        return eprintln!("skipped: there is one core");
    }
    if !Path::new("/proc/thread-self/schedstat").exists() {
        return eprintln!("skipped: the kernel does not say how long threads wait");
    }
    let daemon = Daemon::start("crowded", &[]);
    let hog = Player::join(&daemon.path, "hog", critical(1, 1, 0), Manner::Hogs);
    hog.give(0);
    until("it has a core", || hog.done(0) == 1);
    let over = AtomicBool::new(false);
    let compute = &|cpu: u32| {
        kthreads::pin_this_thread(&[cpu]).unwrap();
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        for &cpu in &others {
            scope.spawn(move || compute(cpu));
        }
        // A failure is one of the test, and not a hang.
        let sleeps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("the daemon sleeps", || daemon.status()["spins"] == false);
        }));
        over.store(true, Ordering::Relaxed);
        sleeps.unwrap();
    });
    drop(hog);
    let said = daemon.end();
    assert!(said.iter().any(|line| line.contains("another program runs on")), "{said:?}");
}

#[test]
fn a_daemon_out_of_descriptors_serves_those_that_it_has() {
    let mut daemon = Daemon::start("few", &[]);
    daemon.kill();
    daemon.again_with_descriptors(24);
    let player = Player::join(&daemon.path, "first", critical(1, 1, 0), Manner::Works);
    let kind = rustix::net::SocketType::SEQPACKET;
    let address = rustix::net::SocketAddrUnix::new(&daemon.path).unwrap();
    let connect = |_| {
        let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        socket
    };
    let silent: Vec<_> = (0..60).map(connect).collect();
    for round in 1..=50 {
        player.give(0);
        until("the first is served", || player.done(0) == round);
    }
    drop(silent);
    let second = Player::join(&daemon.path, "second", critical(1, 0, 1), Manner::Works);
    second.give(0);
    until("the second is served", || second.done(0) == 1);
}

#[test]
fn a_poller_that_can_not_be_watched_ends_the_session() {
    let daemon = Daemon::start("file", &[]);
    let player = Player::join(&daemon.path, "odd", critical(1, 1, 0), Manner::Works);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let session = player.session.as_ref().unwrap();
    session.pass_poller(file.as_fd()).unwrap();
    session.wait_for_end();
    let lines = daemon.end();
    assert!(lines.iter().any(|line| line.contains("its poller can't be watched")), "{lines:?}");
}
