//! Programs of C and C++ against the static library, by plain compilers. `ci/instrumented.sh` runs the
//! ignored tests, which are by `curtail-cc` and `curtail-c++`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// What makes programs of C and C++.
#[derive(Clone, Copy, PartialEq)]
enum Compilers {
    Plain,
    Curtail,
}

impl Compilers {
    fn of(self, source: &Path) -> OsString {
        let names = match self {
            Self::Plain => ["cc", "c++"],
            Self::Curtail => ["curtail-cc", "curtail-c++"],
        };
        let name = names[usize::from(source.extension().is_some_and(|kind| kind == "cc"))];
        match self {
            Self::Plain => name.into(),
            Self::Curtail => {
                let home = std::env::var_os("CURTAIL_HOME").expect("CURTAIL_HOME: where they are");
                PathBuf::from(home).join(name).into()
            }
        }
    }
}

/// The library of this build, under the name that linkers know. Cargo leaves it beside the tests, with
/// a hash in its name; the newest is of this source.
fn library(scratch: &TempDir) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcurtail_c-") && name.ends_with(".a")
    };
    let age = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).unwrap();
    let newest = beside.filter(is_ours).max_by_key(age).expect("Cargo built libcurtail_c.a");
    let name = scratch.path().join("libcurtail_c.a");
    std::fs::copy(newest, &name).unwrap();
    // As ./x build makes it.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/plain-archive.sh");
    assert!(Command::new(script).arg(&name).status().unwrap().success());
    scratch.path().to_owned()
}

/// Compiles and links, as the book says.
fn compile(source: &str, by: Compilers, scratch: &TempDir) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join(source);
    let program = scratch.path().join(source.file_stem().unwrap());
    let mut command = Command::new(by.of(&source));
    let standard = if source.extension().unwrap() == "cc" { "-std=c++17" } else { "-std=gnu11" };
    command.args([
        standard,
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wno-unused-parameter",
        "-Werror",
        "-pthread",
        "-I",
    ]);
    command.arg(here.join("include")).arg(&source).arg("-o").arg(&program);
    let output = command.arg("-L").arg(library(scratch)).arg("-lcurtail_c").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A program that checks itself.
fn passes(source: &str, by: Compilers) {
    let scratch = TempDir::new().unwrap();
    let output = Command::new(compile(source, by, &scratch)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {}: {said}", output.status);
    assert_eq!(output.stdout, b"all as it should be\n");
    assert!(!said.contains("panicked"), "{said}");
    assert!(by == Compilers::Plain || !said.contains("PRE-EMPTION IS OFF"), "{said}");
}

/// The example, running.
struct Primes {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    line: UdpSocket,
}

impl Primes {
    fn start(program: &Path, settings: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(settings).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (commands, answers) = (child.stdin.take(), child.stdout.take().unwrap());
        let line = UdpSocket::bind("127.0.0.1:0").unwrap();
        line.set_read_timeout(Some(STUCK)).unwrap();
        let mut primes = Self { child, commands, answers: BufReader::new(answers), line };
        let listening = primes.read();
        let address = listening.strip_prefix("listening on udp://").expect(&listening);
        primes.line.connect(address).unwrap();
        primes
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What it prints for a command.
    fn obey(&mut self, command: &str) -> Vec<String> {
        writeln!(self.commands.as_mut().unwrap(), "{command}").unwrap();
        let mut lines = Vec::new();
        loop {
            match self.read().as_str() {
                "ok" => return lines,
                "" => panic!("{command}: no more to read"),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// Statistics with these counts, which come a little after the answers.
    fn stats(&mut self, counts: [&str; 3]) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let stats = self.obey("stats");
            if counts.iter().zip(&stats).all(|(count, line)| line.starts_with(count)) {
                return stats;
            }
            assert!(begun.elapsed() < STUCK, "{stats:?}");
        }
    }

    fn send(&self, number: &str) {
        self.line.send(number.as_bytes()).unwrap();
    }

    fn receive(&self) -> String {
        let mut answer = [0; 256];
        let length = self.line.recv(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    fn ask(&self, number: &str) -> String {
        self.send(number);
        self.receive()
    }

    /// Ends it; the last statistics, and what it said on standard error.
    fn end(mut self) -> (Vec<String>, String) {
        drop(self.commands.take());
        self.ended()
    }

    /// What is left of one that ends by itself.
    fn ended(mut self) -> (Vec<String>, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.answers.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(self.child.wait().unwrap().success(), "{err}");
        (out.lines().map(str::to_owned).collect(), err)
    }
}

impl Drop for Primes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The count that stands before `what` in a line.
fn count(line: &str, what: &str) -> u64 {
    let before = line.split(what).next().unwrap().trim_end();
    before.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{what}: {line}"))
}

/// Sends one long request and then short ones; in which order they are answered.
fn order(primes: &Primes, long: &str) -> Vec<String> {
    primes.send(long);
    for short in ["10", "20", "30"] {
        primes.send(short);
    }
    let answers = (0..4).map(|_| primes.receive());
    answers.map(|answer| answer.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn what_c_gets_wrong_is_told() {
    passes("tests/misuse.c", Compilers::Plain);
}

#[test]
fn a_client_over_shared_memory() {
    passes("tests/shm.c", Compilers::Plain);
}

#[test]
fn requests_of_http_come_taken_apart() {
    passes("tests/http.c", Compilers::Plain);
}

#[test]
fn a_server_of_c_is_observable() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Plain, &scratch);
    let primes = Primes::start(&program, &["workers=1", "observable=primes of c"]);
    assert_eq!(primes.ask("100"), "100: 25 primes, says worker 0");
    let address = curtail_observe::address(primes.child.id()).unwrap();
    let mut stream = UnixStream::connect_addr(&address).unwrap();
    stream.write_all(b"\n").unwrap();
    let look = BufReader::new(stream).lines().next().unwrap().unwrap();
    assert!(look.contains(r#""app":"primes of c""#) && look.contains("short"), "{look}");
}

#[test]
fn who_waits_for_a_lock_of_c_blocks_its_request_only() {
    passes("tests/waits.c", Compilers::Plain);
}

#[test]
fn what_handlers_use_may_go_when_the_server_is_freed() {
    passes("tests/outlives.c", Compilers::Plain);
}

#[test]
fn exceptions_stay_inside() {
    passes("tests/throws.cc", Compilers::Plain);
}

/// A handler's frame ends the program with a message, and nothing else.
fn overflows(by: Compilers, frame: &str) {
    let scratch = TempDir::new().unwrap();
    let program = compile("tests/frames.c", by, &scratch);
    let output = Command::new(program).arg(frame).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.status.code().is_none(), "{}", output.status);
    assert!(said.contains("stack overflow in a fiber"), "{frame}: {said}");
    assert!(said.contains(" of class 0 on worker 0, stack of"), "{said}");
}

#[test]
fn a_frame_that_is_larger_than_its_stack_ends_in_the_guard() {
    overflows(Compilers::Plain, "m");
}

#[test]
#[ignore = "needs the drivers and the pass: ci/instrumented.sh runs it"]
fn frames_that_the_drivers_compile_are_probed() {
    overflows(Compilers::Curtail, "m");
    overflows(Compilers::Curtail, "l");
}

#[test]
fn the_example_in_cpp_counts_words() {
    let scratch = TempDir::new().unwrap();
    let words = compile("../../examples/cpp/words.cc", Compilers::Plain, &scratch);
    let output = Command::new(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout, b"fish 2\none 1\ntwo 1\n");
}

#[test]
fn the_example_serves_is_changed_and_counts() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Plain, &scratch);
    let mut primes = Primes::start(&program, &["workers=1", "policy=tq"]);
    assert_eq!(primes.ask("100"), "100: 25 primes, says worker 0");
    assert_eq!(primes.ask("x"), "no number");
    // To completion: no request overtakes another.
    assert_eq!(order(&primes, "200000"), ["200000", "10", "20", "30"]);

    assert_eq!(primes.obey("classify length"), [""; 0]);
    // An answer to `stats` means that it is in force.
    let stats = primes.stats([
        "short: 4 completed, 0 failed, 0 dropped",
        "long: 1 completed, 0 failed, 0 dropped",
        "unknown: 0 completed, 1 failed, 0 dropped",
    ]);
    assert_eq!(stats[3], "tq, quantum 2000 ns, pre-empted by never, 0 pre-emptions");
    assert_eq!(primes.ask("101"), "101: 26 primes, says worker 0");
    assert_eq!(primes.ask("0050"), "0050: 15 primes, says worker 0");

    assert_eq!(primes.obey("policy policy=darc-ps quantum=5us"), [""; 0]);
    assert_eq!(primes.obey("quantum 7000"), [""; 0]);
    assert!(primes.obey("policy policy=dark")[0].contains("did you mean `darc`"));
    assert!(primes.obey("policy policy=fcfs workers=2")[0].contains("workers"));
    assert_eq!(primes.obey("classify number"), [""; 0]);
    let stats = primes.stats(["short: 5 completed", "long: 2 completed", "unknown: 0 completed"]);
    assert!(stats[3].starts_with("darc-ps, quantum 7000 ns"), "{stats:?}");
    assert_eq!(primes.ask("7"), "7: 4 primes, says worker 0");

    let (stats, said) = primes.end();
    assert!(stats[0].starts_with("short: 6 completed"), "{stats:?}");
    assert_eq!(said.matches("curtail: PRE-EMPTION IS OFF").count(), 1, "{said}");
}

#[test]
fn who_wants_no_preemption_is_not_told_that_it_is_off() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Plain, &scratch);
    let run = |settings: &[&str], silenced: bool| {
        let mut command = Command::new(&program);
        command.args(settings).env_remove("CURTAIL_QUIET").stdin(Stdio::null());
        command.envs(silenced.then_some(("CURTAIL_QUIET", "1")));
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).matches("PRE-EMPTION IS OFF").count()
    };
    let tq = ["workers=1", "policy=tq"];
    assert_eq!(run(&tq, false), 1);
    assert_eq!(run(&tq, true), 0);
    assert_eq!(run(&["workers=1", "policy=tq", "preempt=never"], false), 0);
}

#[test]
fn the_example_ends_by_a_signal() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Plain, &scratch);
    let primes = Primes::start(&program, &["workers=1", "policy=fcfs"]);
    assert_eq!(primes.ask("100"), "100: 25 primes, says worker 0");
    let pid = primes.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (stats, said) = primes.ended();
    assert!(stats[0].starts_with("short: 1 completed"), "{stats:?}");
    // That policy wants none.
    assert!(!said.contains("PRE-EMPTION IS OFF"), "{said}");
}

#[test]
fn the_program_in_the_book_compiles() {
    let book = include_str!("../../../docs/src/c.md");
    let program = book.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scratch = TempDir::new().unwrap();
    let source = scratch.path().join("book.c");
    std::fs::write(&source, program).unwrap();
    compile(source.to_str().unwrap(), Compilers::Plain, &scratch);
}

#[test]
fn the_example_says_what_is_wrong_with_its_settings() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Plain, &scratch);
    for (settings, words) in [
        (["policy=fcfs", "worker=1"], "did you mean `workers`"),
        (["policy=fcfs", "ties=random"], "ties"),
        (["listen=nowhere", "workers=1"], "listen"),
    ] {
        let output = Command::new(&program).args(settings).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
}

#[test]
#[ignore = "needs the drivers and the pass: ci/instrumented.sh runs it"]
fn instrumented_handlers_are_preempted() {
    let scratch = TempDir::new().unwrap();
    let program = compile("examples/primes.c", Compilers::Curtail, &scratch);
    let mut primes = Primes::start(&program, &["workers=1", "policy=tq"]);
    assert_eq!(primes.ask("100"), "100: 25 primes, says worker 0");
    // Seconds of work: the short ones have come long before its end.
    let answered = order(&primes, "3000000");
    assert_eq!(answered[3], "3000000", "{answered:?}");
    let stats = primes.stats(["short: 4 completed", "long: 1 completed", "unknown: 0 completed"]);
    assert!(stats[3].contains("pre-empted by clock"), "{stats:?}");
    assert!(count(&stats[3], "pre-emptions") > 0, "{stats:?}");
    // Under a policy that never pre-empts, it goes first.
    assert_eq!(primes.obey("policy policy=fcfs"), [""; 0]);
    // An answer to `stats` means that it is in force.
    assert!(primes.obey("stats")[3].starts_with("fcfs"));
    assert_eq!(order(&primes, "200000"), ["200000", "10", "20", "30"]);
    let (_, said) = primes.end();
    assert!(!said.contains("PRE-EMPTION IS OFF"), "{said}");
}

#[test]
#[ignore = "needs the drivers and the pass: ci/instrumented.sh runs it"]
fn instrumented_programs_get_the_same_answers() {
    passes("tests/misuse.c", Compilers::Curtail);
    passes("tests/waits.c", Compilers::Curtail);
    passes("tests/outlives.c", Compilers::Curtail);
    passes("tests/throws.cc", Compilers::Curtail);
}
