//! A signal has a program print all its stacks: those of what runs, and of what is suspended.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// Set in the process that gets the signal.
const INSIDE: &str = "CURTAIL_TEST_PRINTS_STACKS";

const SIGUSR1: i32 = 10;

#[inline(never)]
fn waits_until_the_end(end: &curtail::sync::Semaphore) {
    let permit = end.acquire();
    std::hint::black_box(&permit);
}

/// Reads standard input to its end, which the parent makes, in the kernel.
#[inline(never)]
fn reads_until_the_end() {
    let mut byte = [0];
    let read = std::io::stdin().read(&mut byte).unwrap();
    std::hint::black_box(read);
}

fn inside() {
    curtail_observe::stacks_on(SIGUSR1).unwrap();
    curtail::Runtime::builder().kthreads(1).watchdog(None).run(|| {
        let end = curtail::sync::Arc::new(curtail::sync::Semaphore::new(0));
        let waits = end.clone();
        let named = curtail::Builder::new().name("the one that waits");
        let thread = named.spawn(move || waits_until_the_end(&waits)).unwrap();
        println!("ready");
        curtail::blocking(reads_until_the_end);
        end.add_permits(1);
        thread.join().unwrap();
    });
}

/// Killed where the test fails.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_has_all_stacks_printed() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "dump::a_signal_has_all_stacks_printed", "--nocapture"])
        .env(INSIDE, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Program(command.spawn().unwrap());
    let mut said = BufReader::new(program.0.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().ends_with("ready")), "it has ended");
    let stderr = BufReader::new(program.0.stderr.take().unwrap());
    let (lines, printed) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        stderr.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line)));
    });
    let wanted = [
        "suspended: 1 thread (",
        ", named the one that waits",
        "waits_until_the_end",
        "reads_until_the_end",
        " (curtail-",
    ];
    let mut text = String::new();
    let begun = Instant::now();
    while !wanted.iter().all(|part| text.contains(part)) {
        assert!(begun.elapsed() < STUCK, "{text}");
        let pid = rustix::process::Pid::from_child(&program.0);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        // One dump, as far as it has come.
        while let Ok(line) = printed.recv_timeout(Duration::from_secs(1)) {
            text.push_str(&(line + "\n"));
        }
    }
    drop(program.0.stdin.take());
    assert!(program.0.wait().unwrap().success(), "{text}");
    reader.join().unwrap();
}
