//! What recording costs, one way at a time: `./x bench trace` runs this in turns.
//!
//! `recording LOAD RECORDER UNITS`. LOAD is `server` (0.5% of the requests are a thousand times as
//! long as the others, under `tq`) or `threads` (eight that yield after half a microsecond's work).
//! RECORDER is `off`, `on` (events are taken every 5 ms and thrown away), or `sent` (as `curtail
//! trace` has it, over the socket, and thrown away there). Prints one line of JSON.
//!
//! Work is counted in steps, not in time, and safepoints are by hand, so that all runs do the same.

use curtail::net::{Local, LocalClient};
use curtail::timeline::Timeline;
use curtail::{App, Response, Server, Spec, WorkerId};
use curtail_observe::{Observable, address};
use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// About half a microsecond.
const SHORT: u64 = 400;
const LONG: u64 = 1_000 * SHORT;
/// One in so many is long.
const EVERY: usize = 200;
/// Requests that are handed in at once.
const BATCH: usize = 4_000;
const THREADS: usize = 8;
const PAUSE: Duration = Duration::from_millis(5);

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [load, recorder, units] = &arguments[..] else {
        return Err("recording server|threads off|on|sent UNITS".into());
    };
    let units: usize = units.parse()?;
    let recorder = Recorder::named(recorder)?;
    let (elapsed, units, recorded) = match load.as_str() {
        "server" => server(recorder, units.div_ceil(BATCH))?,
        "threads" => threads(recorder, units.div_ceil(THREADS))?,
        other => return Err(format!("no load `{other}`").into()),
    };
    let ns = elapsed.as_nanos() as f64 / units as f64;
    let (events, dropped) = (recorded.events, recorded.dropped);
    println!(r#"{{"ns":{ns:.2},"units":{units},"events":{events},"dropped":{dropped}}}"#);
    Ok(())
}

/// A safepoint every few dozen steps.
fn work(steps: u64) {
    let mut x = 1_u64;
    for step in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        if step % 64 == 0 {
            curtail::safepoint();
        }
    }
    black_box(x);
}

struct Work;

impl App for Work {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        work(if request.is_empty() { SHORT } else { LONG });
        response.write(b"done");
    }
}

/// How long so many batches of requests take, after a tenth of that to warm up.
fn server(recorder: Recorder, batches: usize) -> Result<(Duration, usize, Recorded), Failed> {
    let (local, client) = Local::new(2 * BATCH)?;
    let server = Server::builder(Work)
        .transport(Box::new(local))
        .policy(Spec::preset("tq")?)
        .workers(1)
        // Of those before, some are answered and still to be counted.
        .capacity(2 * BATCH)
        .safepoints_by_hand()
        .observable("recording")
        .build()?;
    let handle = server.handle();
    let server = std::thread::spawn(move || server.run().map(drop));
    (0..batches.div_ceil(10)).try_for_each(|_| batch(&client))?;
    let recording = recorder.start()?;
    let begun = Instant::now();
    (0..batches).try_for_each(|_| batch(&client))?;
    let elapsed = begun.elapsed();
    let recorded = recording.end()?;
    handle.shutdown();
    server.join().map_err(|_| "the server panicked")??;
    Ok((elapsed, batches * BATCH, recorded))
}

fn batch(client: &LocalClient) -> Result<(), Failed> {
    let request = |index: usize| if index.is_multiple_of(EVERY) { vec![0] } else { Vec::new() };
    let submit = |index| client.submit(request(index)).map_err(|_| "there is no room");
    let tickets = (0..BATCH).map(submit).collect::<Result<Vec<_>, _>>()?;
    for ticket in tickets {
        ticket.wait().map_err(|_| "a request was not answered")?;
    }
    Ok(())
}

/// How long it takes eight threads to yield so often each, after a tenth of that to warm up.
fn threads(recorder: Recorder, yields: usize) -> Result<(Duration, usize, Recorded), Failed> {
    let turns = |yields: usize| {
        let turn = move || {
            for _ in 0..yields {
                work(SHORT);
                curtail::yield_now();
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| curtail::spawn(turn)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked"))
    };
    let runtime = curtail::Runtime::builder().kthreads(1).watchdog(None).observable("recording");
    runtime.run(move || {
        turns(yields.div_ceil(10))?;
        let recording = curtail::blocking(|| recorder.start())?;
        let begun = Instant::now();
        turns(yields)?;
        let elapsed = begun.elapsed();
        let recorded = curtail::blocking(|| recording.end())?;
        Ok((elapsed, yields * THREADS, recorded))
    })
}

#[derive(Clone, Copy)]
enum Recorder {
    Off,
    On,
    Sent,
}

#[derive(Clone, Copy, Default)]
struct Recorded {
    /// Or, of what was sent, lines.
    events: u64,
    dropped: u64,
}

/// Runs from its start to its end.
struct Recording {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Recorded, Failed>>>,
}

impl Recorder {
    fn named(name: &str) -> Result<Self, Failed> {
        match name {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            "sent" => Ok(Self::Sent),
            other => Err(format!("no recorder `{other}`: off, on or sent").into()),
        }
    }

    fn start(self) -> Result<Recording, Failed> {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let thread = match self {
            Self::Off => None,
            Self::On => {
                let timeline = Timeline::start().ok_or("it is being recorded already")?;
                Some(std::thread::spawn(move || Ok(take(timeline, &stops))))
            }
            Self::Sent => {
                let mut stream = UnixStream::connect_addr(&address(std::process::id())?)?;
                stream.write_all(b"trace 600000\n")?;
                Some(std::thread::spawn(move || receive(&mut stream, &stops)))
            }
        };
        Ok(Recording { stop, thread })
    }
}

impl Recording {
    fn end(self) -> Result<Recorded, Failed> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread else { return Ok(Recorded::default()) };
        thread.join().map_err(|_| "the recorder panicked")?
    }
}

fn take(mut timeline: Timeline, stop: &AtomicBool) -> Recorded {
    let mut events = 0;
    while !stop.load(Ordering::Relaxed) {
        events += black_box(timeline.take()).len() as u64;
        std::thread::sleep(PAUSE);
    }
    events += timeline.take().len() as u64;
    Recorded { events, dropped: timeline.dropped() }
}

/// Lines, until it is to stop; then it goes, as a peer that has had enough may.
fn receive(stream: &mut UnixStream, stop: &AtomicBool) -> Result<Recorded, Failed> {
    stream.set_read_timeout(Some(PAUSE))?;
    let mut bytes = vec![0; 1 << 20];
    let mut events = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Err("the program sends no more".into()),
            Ok(count) => {
                events += bytes[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Recorded { events, dropped: 0 })
}
