//! A latency-critical program: threads of Curtail that serve an open-loop load on one core, with the
//! generator on another, where the core allocator is too, if there is one. It measures itself.
//!
//! It is this program, called again. It prints `ready`, waits for a line, prints `begin` when what
//! it counts begins, and a line of JSON when it has ended.

use crate::figures::Quantiles;
use clap::Parser as _;
use curtail::sync::mpsc::{Sender, channel};
use curtail::sync::{Mutex, WaitGroup};
use curtail_shm::kthreads::pin_this_thread;
use curtail_shm::monotonic_ns;
use curtail_workload::spin::{Calibration, spin};
use curtail_workload::{Arrivals, Mix, Named, Request, Requests, Until, named};
use curtaild::{Daemon, Options, Stop};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Left out at the beginning.
const WARMUP_NS: u64 = 300_000_000;

/// What is offered, and how it is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The kinds of requests.
    pub mix: String,
    /// Of the core's capacity.
    pub load: f64,
    /// How long it is offered.
    pub seconds: f64,
    /// Of the generator.
    pub seed: u64,
    /// The core of the generator, and that of the service.
    pub cpus: [u32; 2],
    /// Where the core allocator is to listen; none: there is none.
    pub daemon: Option<PathBuf>,
    /// How often the core allocator looks, in ns.
    pub interval_ns: u64,
    /// How long a kthread without work looks for some, in ns.
    pub spin_ns: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// From the scheduled arrival to the end, in µs.
    pub sojourn_us: Quantiles,
    /// Requests that were counted.
    pub count: usize,
    /// The service time of those, as a share of the time.
    pub share: f64,
    /// The most that a request was handed over after its time, in µs: of one in a thousand.
    pub generator_late_us: f64,
}

/// A request on its way.
struct Job {
    at_ns: u64,
    iterations: u64,
    counts: bool,
}

/// Sends requests when they are due.
struct Generator {
    requests: Peekable<Requests>,
    start_ns: u64,
    per_ns: f64,
    sender: Option<Sender<Job>>,
    late: Vec<u64>,
    report: Option<std::sync::mpsc::SyncSender<Vec<u64>>>,
}

impl Generator {
    /// What is due is sent; true: there was something.
    fn turn(&mut self, now_ns: u64) -> bool {
        let Some(sender) = &self.sender else { return false };
        let mut sent = false;
        while let Some(request) =
            self.requests.next_if(|request| self.start_ns + request.at_ns <= now_ns)
        {
            let Request { at_ns, service_ns, .. } = request;
            let job = Job {
                at_ns: self.start_ns + at_ns,
                iterations: (service_ns as f64 * self.per_ns) as u64,
                counts: at_ns >= WARMUP_NS,
            };
            self.late.push(now_ns - job.at_ns);
            // It has ended early: nothing is served any more.
            sent |= sender.send(job).is_ok();
        }
        if self.requests.peek().is_none() {
            self.sender = None;
            if let Some(report) = self.report.take() {
                let _ = report.send(std::mem::take(&mut self.late));
            }
        }
        sent
    }
}

/// By its name, or as `class:service:share`.
fn mix(text: &str) -> Result<Mix, String> {
    named(text).map(Named::mix).or_else(|_| Mix::parse(text)).map_err(|error| error.to_string())
}

/// Plays the service.
///
/// # Errors
/// In words, for people.
pub fn serve(offer: &Offer) -> Result<(), String> {
    let mix = mix(&offer.mix)?;
    let rate = mix.rate_rps(offer.load, 1);
    let end_ns = WARMUP_NS + (offer.seconds * 1e9) as u64;
    let per_ns = Calibration::measure().iterations_per_us() / 1_000.0;
    let (sender, receiver) = channel::<Job>();
    let (report, late) = std::sync::mpsc::sync_channel(1);
    let expected = (rate * end_ns as f64 / 1e9 * 1.2) as usize + 1_000;
    let requests = Requests::new(&mix, Arrivals::Poisson, rate, offer.seed, Until::Time(end_ns));
    let generator = Generator {
        requests: requests.peekable(),
        start_ns: 0,
        per_ns,
        sender: Some(sender),
        late: Vec::with_capacity(expected),
        report: Some(report),
    };
    let (go, started) = std::sync::mpsc::sync_channel(1);
    let helper = Helper::start(offer, generator, started)?;
    let talk = std::thread::spawn(move || talk(&go));
    let sojourns = Arc::new(Mutex::new(Vec::<u64>::with_capacity(expected)));
    let results = sojourns.clone();
    let serve = move || {
        let all = Arc::new(WaitGroup::new());
        for job in receiver {
            all.add(1);
            let (all, results) = (all.clone(), results.clone());
            curtail::spawn(move || {
                spin(job.iterations);
                if job.counts {
                    let sojourn = monotonic_ns().saturating_sub(job.at_ns);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(sojourn);
                }
                all.done();
            });
        }
        all.wait();
    };
    let runtime = curtail::Runtime::builder()
        .kthreads(1)
        .spin(Duration::from_nanos(offer.spin_ns))
        .watchdog(None);
    let runtime = match &offer.daemon {
        Some(path) => runtime.daemon(path).guaranteed(1),
        None => runtime.cores([offer.cpus[1] as usize]),
    };
    runtime.try_run(serve).map_err(|error| error.to_string())?;
    helper.end()?;
    talk.join().map_err(|_| "the talking thread panicked")?;
    let mut late = late.recv().map_err(|error| error.to_string())?;
    let mut sojourns =
        std::mem::take(&mut *sojourns.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    if sojourns.is_empty() {
        return Err("nothing was served".to_owned());
    }
    let count = sojourns.len();
    let served = Served {
        sojourn_us: Quantiles::of(&mut sojourns, 1_000.0),
        count,
        share: count as f64 * mix.mean_ns() / 1e9 / offer.seconds,
        generator_late_us: Quantiles::of(&mut late, 1_000.0).p99_9,
    };
    let text = serde_json::to_string(&served).map_err(|error| error.to_string())?;
    say(&text);
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Tells the runner that it may begin, and when counting begins.
fn talk(go: &std::sync::mpsc::SyncSender<u64>) {
    say("ready");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let start_ns = monotonic_ns() + 1_000_000;
    let _ = go.send(start_ns);
    let warm = Duration::from_nanos(start_ns + WARMUP_NS - monotonic_ns().min(start_ns));
    std::thread::sleep(warm);
    say("begin");
}

/// The generator's thread, which may be the core allocator's, too.
struct Helper {
    stop: Stop,
    ended: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Helper {
    fn start(
        offer: &Offer,
        mut generator: Generator,
        started: std::sync::mpsc::Receiver<u64>,
    ) -> Result<Self, String> {
        let mut turn = move |now_ns: u64| {
            if generator.start_ns == 0 {
                generator.start_ns = started.try_recv().unwrap_or(0);
            }
            generator.start_ns != 0 && generator.turn(now_ns)
        };
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let ended = Arc::new(AtomicBool::new(false));
        let thread = match &offer.daemon {
            Some(path) => {
                let mut daemon = daemon(offer, path, stop.clone())?;
                daemon.accompany(Box::new(turn));
                std::thread::spawn(move || daemon.run().map_err(|error| error.to_string()))
            }
            None => {
                let (cpu, ended) = (offer.cpus[0], ended.clone());
                std::thread::spawn(move || {
                    pin_this_thread(&[cpu]).map_err(|error| error.to_string())?;
                    while !ended.load(Ordering::Relaxed) {
                        if !turn(monotonic_ns()) {
                            std::hint::spin_loop();
                        }
                    }
                    Ok(())
                })
            }
        };
        Ok(Self { stop, ended, thread })
    }

    fn end(self) -> Result<(), String> {
        self.stop.stop();
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the generator panicked")?
    }
}

fn daemon(offer: &Offer, path: &Path, stop: Stop) -> Result<Daemon, String> {
    let interval = format!("{}ns", offer.interval_ns);
    let core = offer.cpus[1].to_string();
    let arguments = ["curtaild", "--quiet", "--cores", &core, "--interval", &interval, "--socket"];
    let arguments = arguments.map(std::ffi::OsString::from).into_iter().chain([path.into()]);
    let options = Options::try_parse_from(arguments).map_err(|error| error.to_string())?;
    Daemon::new(&options, stop).map_err(|error| error.to_string())
}
