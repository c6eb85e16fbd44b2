//! A program as its users write them: `threads-pipeline [QUANTUM_US [KTHREADS]]`. A server of lines over TCP
//! hands requests to workers by a channel; clients check each answer. Files, locks, conditions, time
//! limits, thread-local values and panics are all on the way.

use curtail::net::{TcpListener, TcpStream};
use curtail::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use curtail::time::{sleep, timeout};
use curtail::{Builder, Runtime, blocking, scope, spawn};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

const CLIENTS: u64 = 8;
const LINES: u64 = 60;
const WORKERS: usize = 4;

thread_local! {
    static SERVED: Cell<u64> = const { Cell::new(0) };
}

/// What a connection asks a worker, and where the answer goes.
struct Job {
    line: String,
    answer: mpsc::Sender<String>,
}

/// A queue with a limit, of a mutex and two conditions.
struct Bounded<T> {
    items: Mutex<std::collections::VecDeque<T>>,
    room: Condvar,
    some: Condvar,
    most: usize,
}

impl<T> Bounded<T> {
    fn new(most: usize) -> Self {
        let items = Mutex::new(std::collections::VecDeque::new());
        Self { items, room: Condvar::new(), some: Condvar::new(), most }
    }

    fn push(&self, item: T) {
        let items = self.items.lock().unwrap();
        let mut items = self.room.wait_while(items, |items| items.len() == self.most).unwrap();
        items.push_back(item);
        drop(items);
        self.some.notify_one();
    }

    fn pop(&self, limit: Duration) -> Option<T> {
        let items = self.items.lock().unwrap();
        let (mut items, _) =
            self.some.wait_timeout_while(items, limit, |items| items.is_empty()).unwrap();
        let item = items.pop_front();
        drop(items);
        self.room.notify_one();
        item
    }
}

struct State {
    jobs: Bounded<Job>,
    words: RwLock<HashMap<u64, u64>>,
    served: Mutex<BTreeMap<usize, u64>>,
    file: PathBuf,
}

/// Some work without a call.
fn work(seed: u64) -> u64 {
    let mut x = seed | 1;
    for n in 0..3_000_u64 {
        x = (x ^ (x >> 13)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n);
    }
    x
}

fn sum_in_parts(upto: u64) -> u64 {
    let parts: Vec<u64> = (0..upto).collect();
    scope(|scope| {
        let sums: Vec<_> = parts
            .chunks(16)
            .map(|part| scope.spawn(|| part.iter().copied().map(work).fold(0, u64::wrapping_add)))
            .collect();
        sums.into_iter().map(|sum| sum.join().unwrap()).fold(0, u64::wrapping_add)
    })
}

fn answer(state: &State, line: &str) -> String {
    let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
    let number = argument.parse::<u64>().unwrap_or(0);
    match verb {
        "work" => work(number).to_string(),
        "put" => {
            let value = work(number);
            state.words.write().unwrap().insert(number, value);
            "done".into()
        }
        "get" => match state.words.read().unwrap().get(&number) {
            Some(value) => value.to_string(),
            None => "none".into(),
        },
        "file" => blocking(|| std::fs::read(&state.file)).unwrap().len().to_string(),
        "sum" => sum_in_parts(number).to_string(),
        "late" => match timeout(Duration::from_millis(1), || sleep(Duration::from_secs(30))) {
            Ok(()) => "slept".into(),
            Err(_) => "late".into(),
        },
        "sleep" => {
            std::thread::sleep(Duration::from_micros(number));
            "slept".into()
        }
        "std" => {
            static SHARED: std::sync::Mutex<u64> = std::sync::Mutex::new(0);
            let mut shared = SHARED.lock().unwrap();
            let before = *shared;
            let value = std::hint::black_box(work(number));
            *shared = before + 1;
            value.to_string()
        }
        "panic" => {
            let name = format!("of {number}");
            let thread = Builder::new()
                .name(name.clone())
                .spawn(move || -> u64 { std::panic::resume_unwind(Box::new(name)) });
            let payload = thread.unwrap().join().unwrap_err();
            format!("panicked {}", payload.downcast_ref::<String>().unwrap())
        }
        other => format!("unknown {other}"),
    }
}

fn serve_jobs(state: &State, worker: usize) {
    while let Some(job) = state.jobs.pop(Duration::from_secs(20)) {
        if job.line == "stop" {
            break;
        }
        let answer = answer(state, &job.line);
        SERVED.set(SERVED.get() + 1);
        job.answer.send(answer).unwrap();
    }
    state.served.lock().unwrap().insert(worker, SERVED.get());
}

fn serve_connection(state: &State, stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut output = BufWriter::new(stream);
    while let Some(Ok(line)) = lines.next() {
        let (sender, receiver) = mpsc::channel();
        state.jobs.push(Job { line, answer: sender });
        let answer = receiver.recv().unwrap();
        writeln!(output, "{answer}").unwrap();
        output.flush().unwrap();
    }
}

fn request(client: u64, number: u64, size: usize) -> (String, String) {
    let key = client * 1_000 + number;
    match number % 10 {
        0 => (format!("file {key}"), size.to_string()),
        1 => (format!("late {key}"), "late".into()),
        2 => (format!("panic {key}"), format!("panicked of {key}")),
        3 => (format!("put {key}"), "done".into()),
        4 => (format!("get {}", key - 1), work(key - 1).to_string()),
        5 => (
            format!("sum {}", number),
            (0..number).map(work).fold(0, u64::wrapping_add).to_string(),
        ),
        6 => (format!("sleep {number}"), "slept".into()),
        7 => (format!("std {key}"), work(key).to_string()),
        8 => (format!("what {key}"), "unknown what".into()),
        _ => (format!("work {key}"), work(key).to_string()),
    }
}

fn ask(address: std::net::SocketAddr, client: u64, size: usize) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    for number in 0..LINES {
        let (line, expected) = request(client, number, size);
        output.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut got = String::new();
        input.read_line(&mut got).unwrap();
        assert_eq!(got.trim_end(), expected, "{line}");
    }
}

fn all(file: PathBuf) -> u64 {
    let size = blocking(|| std::fs::metadata(&file)).unwrap().len() as usize;
    let state = Arc::new(State {
        jobs: Bounded::new(3),
        words: RwLock::default(),
        served: Mutex::default(),
        file,
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let state = state.clone();
            spawn(move || serve_jobs(&state, worker))
        })
        .collect();
    let accepting = {
        let state = state.clone();
        spawn(move || {
            let connections: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (state, stream) = (state.clone(), listener.accept().unwrap().0);
                    spawn(move || serve_connection(&state, stream))
                })
                .collect();
            connections.into_iter().for_each(|connection| connection.join().unwrap());
        })
    };
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| spawn(move || ask(address, client, size))).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    accepting.join().unwrap();
    let (sender, _receiver) = mpsc::channel();
    for _ in 0..WORKERS {
        state.jobs.push(Job { line: "stop".into(), answer: sender.clone() });
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    state.served.lock().unwrap().values().sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let mut runtime = Runtime::builder();
    if let Some(micros @ 1..) = arguments.next() {
        runtime = runtime.quantum(Duration::from_micros(micros));
    }
    if let Some(kthreads) = arguments.next() {
        runtime = runtime.kthreads(kthreads as usize);
    }
    let file = std::env::current_exe().expect("a program has a file");
    let served = runtime.run(move || all(file));
    assert_eq!(served, CLIENTS * LINES);
    println!("all as it should be: {served}");
}
