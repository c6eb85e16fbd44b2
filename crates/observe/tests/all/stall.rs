//! A library that computes for 20 ms without a safepoint is named by `curtail top`, in the log and
//! in the metrics, with settings as they are where nothing is set.

use curtail::net::Local;
use curtail::{App, Handle, Response, Server, Spec, WorkerId};
use curtail_observe::{Observable, address, metrics_at};
use curtail_report::Live;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

const STALL: Duration = Duration::from_millis(20);

const FUNCTION: &str = "library_that_computes";

#[inline(never)]
fn library_that_computes() {
    let since = Instant::now();
    while since.elapsed() < STALL {
        // Hardly ever in the clock's code, whose stacks end early.
        (0..1 << 14).for_each(|_| std::hint::spin_loop());
    }
}

struct Calls;

impl App for Calls {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        library_that_computes();
        response.write(b"done");
    }
}

/// Ends the server, also where an assertion fails.
struct End(Handle);

impl Drop for End {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What `curtail top` shows.
fn top() -> Live {
    let pid = std::process::id();
    let mut stream = UnixStream::connect_addr(&address(pid).unwrap()).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(b"look stalls\n").unwrap();
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line).unwrap();
    Live::parse(pid, &line).unwrap()
}

/// What Prometheus reads.
fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Which of the three name it: the table of `top`, the log, the metrics.
fn named(log: &Log, prometheus: SocketAddr) -> [bool; 3] {
    let live = top();
    let here = |stall: &&curtail_report::LiveStall| stall.function.contains(FUNCTION);
    let in_top = live.stalls.iter().find(here).is_some_and(|stall| {
        let on_stack = |frame: &String| frame.contains(FUNCTION);
        assert!(stall.stack.iter().any(on_stack) && stall.longest_ns > 0, "{stall:?}");
        live.table().contains(FUNCTION)
    });
    let line = |line: &str| line.starts_with("curtail_stalls_total{") && line.contains(FUNCTION);
    [in_top, log.text().contains(FUNCTION), metrics(prometheus).lines().any(line)]
}

#[test]
fn a_stall_of_20_ms_is_named_by_top_by_the_log_and_by_the_metrics() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    subscriber.with_writer(Mutex::new(log.clone())).init();
    let (local, user) = Local::new(16).unwrap();
    let server = Server::builder(Calls)
        .policy(Spec::preset("tq").unwrap())
        .workers(1)
        .safepoints_by_hand()
        .transport(Box::new(local))
        .observable("stalls")
        .build()
        .unwrap();
    let end = End(server.handle());
    let client = std::thread::spawn(move || {
        let _end = end;
        let prometheus = metrics_at("127.0.0.1:0").unwrap();
        let begun = Instant::now();
        // One is enough, but where the machine is busy the watchdog may not run within 20 ms, and
        // one whose stack was taken in the clock's code is counted there.
        for stalls in 1.. {
            let ticket = user.submit(Vec::new()).unwrap();
            assert_eq!(ticket.wait_timeout(STUCK).unwrap().unwrap(), b"done");
            let named = named(&log, prometheus);
            if named == [true; 3] {
                println!("named after {stalls} stalls, {:?}", begun.elapsed());
                break;
            }
            assert!(begun.elapsed() < STUCK, "{named:?}: {}\n{}", log.text(), top().table());
        }
        let warning = |line: &str| line.contains("WARN") && line.contains("has been stuck for");
        assert!(log.text().lines().any(warning), "{}", log.text());
    });
    server.run().unwrap();
    client.join().unwrap();
}
