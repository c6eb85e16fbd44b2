//! A program of one's own shows itself: over the socket, to Prometheus, by its stacks.

use curtail::net::Local;
use curtail::{App, Response, Server, WorkerId};
use curtail_observe::{Observable, address, metrics_at};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// Tests share this process's socket.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Peer(BufReader<UnixStream>);

impl Peer {
    fn connect() -> Self {
        let stream = UnixStream::connect_addr(&address(std::process::id()).unwrap()).unwrap();
        stream.set_read_timeout(Some(STUCK)).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, question: &str) -> Value {
        self.0.get_mut().write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn when(&mut self, question: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.ask(question);
            if is_so(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < STUCK, "{answer}");
        }
    }
}

/// Runs until it is to stop, with no safepoint.
struct Stalls(Arc<AtomicBool>);

#[inline(never)]
fn library_without_safepoints(stop: &AtomicBool) {
    let since = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        assert!(since.elapsed() < STUCK, "it is never told to stop");
        std::hint::spin_loop();
    }
}

impl App for Stalls {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        library_without_safepoints(&self.0);
        response.write(b"done");
    }
}

#[test]
fn a_server_shows_its_requests_its_stalls_and_its_stacks() {
    let _one = ONE_AT_A_TIME.lock();
    let stop = Arc::new(AtomicBool::new(false));
    let (local, user) = Local::new(16).unwrap();
    let server = Server::builder(Stalls(stop.clone()))
        .workers(1)
        .safepoints_by_hand()
        .watchdog(Some(Duration::from_millis(2)))
        .on_stall(|_| {})
        .transport(Box::new(local))
        .observable("mine")
        .build()
        .unwrap();
    let handle = server.handle();
    let client = std::thread::spawn(move || {
        let mut peer = Peer::connect();
        let ticket = user.submit(Vec::new()).unwrap();
        // While it lasts.
        let named =
            |live: &Value| live["stalls"].to_string().contains("library_without_safepoints");
        let live = peer.when("", named);
        assert_eq!((&live["app"], &live["in_system"]), (&"mine".into(), &1.into()), "{live}");
        assert_eq!(live["requests"][0]["state"], "on worker 0", "{live}");
        assert!(live["workers"][0]["cpu_share"].is_number(), "{live}");
        let stacks = peer.when("stacks", |stacks| {
            stacks["threads"].as_array().unwrap().iter().any(|thread| {
                let runs = thread["frames"].to_string().contains("library_without_safepoints");
                thread["name"] == "curtail-0" && runs
            })
        });
        assert_eq!(stacks["pid"], std::process::id());
        let address = metrics_at("127.0.0.1:0").unwrap();
        let mut http = TcpStream::connect(address).unwrap();
        http.set_read_timeout(Some(STUCK)).unwrap();
        http.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        http.read_to_string(&mut text).unwrap();
        let stalls = text.lines().find(|line| line.starts_with("curtail_stalls_total{"));
        assert!(stalls.is_some_and(|line| line.contains("server=\"mine\"")), "{text}");
        assert!(text.contains("curtail_in_system{server=\"mine\"} 1\n"), "{text}");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), b"done");
        let served = |text: &Value| {
            let mut lines = text.as_str().unwrap().lines();
            lines.any(|line| line.contains("outcome=\"completed\"") && line.ends_with(" 1"))
        };
        let text = peer.when("metrics", served);
        let text = text.as_str().unwrap();
        assert!(text.contains("curtail_sojourn_seconds_count{"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        handle.shutdown();
    });
    server.run().unwrap();
    client.join().unwrap();
}

#[inline(never)]
fn waits_for_a_permit(permits: &curtail::sync::Semaphore) {
    let permit = permits.acquire();
    std::hint::black_box(&permit);
}

#[test]
fn a_runtime_of_threads_shows_its_kthreads_and_what_is_suspended() {
    let _one = ONE_AT_A_TIME.lock();
    curtail::Runtime::builder().kthreads(2).observable("threads").run(|| {
        let wait = curtail::sync::Arc::new(curtail::sync::Semaphore::new(0));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let wait = wait.clone();
                curtail::spawn(move || waits_for_a_permit(&wait))
            })
            .collect();
        let live = curtail::blocking(|| {
            let mut peer = Peer::connect();
            let waiting = |stack: &Value| {
                stack["frames"].to_string().contains("waits_for_a_permit") && stack["count"] == 3
            };
            let stacks = peer.when("stacks", |stacks| {
                stacks["suspended"].as_array().unwrap().iter().any(waiting)
            });
            let all = stacks["suspended"].as_array().unwrap();
            let waiting = all.iter().find(|stack| waiting(stack)).unwrap();
            assert_eq!((&waiting["what"], &waiting["class"]), (&"thread".into(), &0.into()));
            assert_eq!(waiting["numbers"].as_array().unwrap().len(), 3, "{waiting}");
            assert!(stacks["left_out"].is_number(), "{stacks}");
            // The first thread, and three that wait.
            peer.when("look threads", |live| live["in_system"] == 4)
        });
        assert_eq!((&live["policy"], &live["app"]), (&"threads".into(), &"threads".into()));
        assert_eq!(live["workers"].as_array().unwrap().len(), 2, "{live}");
        // Each gives it back.
        wait.add_permits(1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
