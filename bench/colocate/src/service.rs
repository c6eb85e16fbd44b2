//! A latency-critical program: threads of Curtail that serve an open-loop load on one core, with the
//! generator on another, where the core allocator is too, if there is one. It measures itself.
//!
//! It is this program, called again. It prints `ready`, waits for a line, prints `begin` when what
//! it counts begins, and a line of JSON when it has ended.

use crate::figures::Quantiles;
use crate::generator::{Generator, Job, Steps, WARMUP_NS, steady, stepped};
use clap::Parser as _;
use colocate_montecarlo::simulate;
use curtail::sync::mpsc::{Receiver, channel};
use curtail::sync::{Mutex, WaitGroup};
use curtail_load::{Lateness, Pace};
use curtail_shm::kthreads::pin_this_thread;
use curtail_shm::monotonic_ns;
use curtail_workload::spin::{Calibration, spin};
use curtail_workload::{Mix, Named, named};
use curtaild::{Daemon, Options, Stop};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The windows of a load that steps.
pub const WINDOW_NS: u64 = 10_000_000;

/// What is offered, and how it is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The kinds of requests.
    pub mix: String,
    /// Of the core's capacity.
    pub load: f64,
    /// Instead of that: a load that steps.
    pub steps: Option<Steps>,
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
    /// Batch work of its own: in a batch thread.
    pub inside: Option<Inside>,
    /// It is a server with a dispatcher, which has the generator's core.
    #[serde(default)]
    pub dispatcher: bool,
}

/// How batch work inside the service makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inside {
    /// It is cut at safepoints.
    Cut,
    /// It yields by hand, after some tens of microseconds each.
    Yields,
}

/// A window of a load that steps, in all cycles together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Since the cycle's beginning, in ms.
    pub at_ms: f64,
    /// From the scheduled arrival to the end, in µs.
    pub sojourn_us: Quantiles,
    /// Requests that were to arrive in it.
    pub count: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// From the scheduled arrival to the end, in µs.
    pub sojourn_us: Quantiles,
    /// Requests that were counted.
    pub count: usize,
    /// The service time of those, as a share of the time.
    pub share: f64,
    /// The most that a request was handed over after its time, in µs: of one in a thousand.
    pub generator_late_us: f64,
    /// What the batch work inside did, in units per ns.
    pub batch_rate: f64,
    /// Of a load that steps.
    pub windows: Vec<Window>,
}

/// By its name, or as `class:service:share`.
fn mix(text: &str) -> Result<Mix, String> {
    named(text).map(Named::mix).or_else(|_| Mix::parse(text)).map_err(|error| error.to_string())
}

/// What a service needs, and what it has to tell at the end.
pub(crate) struct Load {
    pub mix: Mix,
    /// How long it is offered.
    pub span_ns: u64,
    /// Requests that are expected, at most.
    pub expected: usize,
    /// What the generator has sent. It ends with the generator.
    pub jobs: Receiver<Job>,
    /// At the end, how late they were.
    pub late: std::sync::mpsc::Receiver<Lateness>,
}

/// A generator's turn at a time, by the monotonic clock; true: it has sent something.
pub(crate) type Turn = Box<dyn FnMut(u64) -> bool + Send>;

/// A load of which nothing is sent before its channel brings the time to begin.
pub(crate) fn load(
    offer: &Offer,
) -> Result<(Load, Turn, std::sync::mpsc::SyncSender<u64>), String> {
    let mix = mix(&offer.mix)?;
    let span_ns = match offer.steps {
        Some(steps) => 2 * steps.cycles * steps.step_ns,
        None => (offer.seconds * 1e9) as u64,
    };
    let requests = match offer.steps {
        Some(steps) => stepped(&mix, steps, offer.seed),
        None => steady(&mix, offer.load, offer.seed, span_ns),
    };
    let rate = mix.rate_rps(offer.steps.map_or(offer.load, |it| it.loads[0].max(it.loads[1])), 1);
    let expected = (rate * (WARMUP_NS + span_ns) as f64 / 1e9 * 1.2) as usize + 1_000;
    let (sender, jobs) = channel::<Job>();
    let (report, late) = std::sync::mpsc::sync_channel(1);
    let mut generator = Generator {
        pace: Pace::new(requests, u64::MAX),
        start_ns: 0,
        per_ns: Calibration::measure().iterations_per_us() / 1_000.0,
        sender: Some(sender),
        late: Some((Lateness::new(u64::MAX), report)),
    };
    let (go, started) = std::sync::mpsc::sync_channel(1);
    let turn = move |now_ns: u64| {
        if generator.start_ns == 0 {
            generator.start_ns = started.try_recv().unwrap_or(0);
        }
        generator.start_ns != 0 && generator.turn(now_ns)
    };
    Ok((Load { mix, span_ns, expected, jobs, late }, Box::new(turn), go))
}

/// Tells of what was served, of which there must be something.
pub(crate) fn tell(
    offer: &Offer,
    (mix, span_ns): (&Mix, u64),
    late: &std::sync::mpsc::Receiver<Lateness>,
    (sojourns, batch_rate): (&Sojourns, f64),
) -> Result<(), String> {
    let late = late.recv().map_err(|error| error.to_string())?;
    if sojourns.is_empty() {
        return Err("nothing was served".to_owned());
    }
    let mut all: Vec<u64> = sojourns.iter().map(|it| it.1).collect();
    let served = Served {
        sojourn_us: Quantiles::of(&mut all, 1_000.0),
        count: all.len(),
        share: all.len() as f64 * mix.mean_ns() / span_ns as f64,
        generator_late_us: late.percentile_ns(99.9) as f64 / 1_000.0,
        batch_rate,
        windows: offer.steps.map_or_else(Vec::new, |steps| windows(steps, sojourns)),
    };
    say(&serde_json::to_string(&served).map_err(|error| error.to_string())?);
    Ok(())
}

/// Plays the service, a program of threads.
///
/// # Errors
/// In words, for people.
pub fn serve(offer: &Offer) -> Result<(), String> {
    let (load, turn, go) = load(offer)?;
    let Load { mix, span_ns, expected, jobs, late } = load;
    let daemon = daemon_of(offer.daemon.as_deref(), &offer.cpus[1..], offer.interval_ns);
    let helper = Helper::start(daemon, offer.cpus[0], turn)?;
    let batch = Arc::new(Batch::default());
    let begun = batch.clone();
    let talk = std::thread::spawn(move || talk(&go, || begun.progress()));
    let runtime = curtail::Runtime::builder()
        .kthreads(1)
        .spin(Duration::from_nanos(offer.spin_ns))
        .watchdog(None);
    let runtime = match &offer.daemon {
        Some(path) => runtime.daemon(path).guaranteed(1),
        None => runtime.cores([offer.cpus[1] as usize]),
    };
    let (inside, computes) = (offer.inside, batch.clone());
    let body = move || {
        let handle = inside.map(|inside| computes.start(inside));
        let sojourns = serve_all(jobs, expected);
        let ended = computes.progress();
        computes.end(handle);
        (sojourns, ended)
    };
    let (sojourns, ended) = runtime.try_run(body).map_err(|error| error.to_string())?;
    helper.end()?;
    let begun = talk.join().map_err(|_| "the talking thread panicked")?;
    let rate = (ended.0 - begun.0) as f64 / (ended.1 - begun.1).max(1) as f64;
    tell(offer, (&mix, span_ns), &late, (&sojourns, rate))
}

/// When requests that count were to arrive, since that began, and how long each took, in ns.
pub(crate) type Sojourns = Vec<(u64, u64)>;

/// Serves what comes until the generator has ended.
fn serve_all(receiver: Receiver<Job>, expected: usize) -> Sojourns {
    let results = Arc::new(Mutex::new(Sojourns::with_capacity(expected)));
    let all = Arc::new(WaitGroup::new());
    for job in receiver {
        all.add(1);
        let (all, results) = (all.clone(), results.clone());
        curtail::spawn(move || {
            spin(job.iterations);
            if let Some(offset_ns) = job.offset_ns {
                let sojourn_ns = monotonic_ns().saturating_sub(job.at_ns);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.push((offset_ns, sojourn_ns));
            }
            all.done();
        });
    }
    all.wait();
    std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner))
}

fn windows(steps: Steps, sojourns: &[(u64, u64)]) -> Vec<Window> {
    let cycle_ns = 2 * steps.step_ns;
    let mut pooled = vec![Vec::new(); cycle_ns.div_ceil(WINDOW_NS) as usize];
    for (offset_ns, sojourn_ns) in sojourns {
        pooled[(offset_ns % cycle_ns / WINDOW_NS) as usize].push(*sojourn_ns);
    }
    let window = |(at, sojourns): (usize, Vec<u64>)| {
        let (count, mut sojourns) = (sojourns.len(), sojourns);
        let at_ms = at as f64 * WINDOW_NS as f64 / 1e6;
        let sojourn_us = match count {
            0 => Quantiles::default(),
            _ => Quantiles::of(&mut sojourns, 1_000.0),
        };
        Window { at_ms, sojourn_us, count }
    };
    pooled.into_iter().enumerate().map(window).collect()
}

/// Batch work in the service.
#[derive(Default)]
pub(crate) struct Batch {
    stop: AtomicBool,
    units: AtomicU64,
}

impl Batch {
    pub(crate) fn start(self: &Arc<Self>, inside: Inside) -> curtail::JoinHandle<f64> {
        let batch = self.clone();
        let body = move || {
            let mut between = || {
                if inside == Inside::Yields {
                    curtail::yield_now();
                }
            };
            simulate(1, &batch.stop, &batch.units, &mut between)
        };
        curtail::Builder::new().batch().spawn(body).expect("memory for a thread")
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(&self, handle: Option<curtail::JoinHandle<f64>>) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = handle.map(curtail::JoinHandle::join);
    }

    /// What it has done, and when that was.
    fn progress(&self) -> (u64, u64) {
        (self.units.load(Ordering::Relaxed), monotonic_ns())
    }
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Tells the runner that it may begin, and when counting begins. What there was to note then.
pub(crate) fn talk<T>(go: &std::sync::mpsc::SyncSender<u64>, note: impl FnOnce() -> T) -> T {
    say("ready");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let start_ns = monotonic_ns() + 1_000_000;
    let _ = go.send(start_ns);
    let warm = Duration::from_nanos(start_ns + WARMUP_NS - monotonic_ns().min(start_ns));
    std::thread::sleep(warm);
    let begun = note();
    say("begin");
    begun
}

/// The generator's thread, which may be the core allocator's, too.
pub(crate) struct Helper {
    stop: Stop,
    ended: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Helper {
    /// Calls `turn` again and again on that core, in the core allocator's loop if there is one.
    pub(crate) fn start(
        daemon: Option<Options>,
        cpu: u32,
        mut turn: impl FnMut(u64) -> bool + Send + 'static,
    ) -> Result<Self, String> {
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let ended = Arc::new(AtomicBool::new(false));
        let thread = match daemon {
            Some(options) => {
                let daemon = Daemon::new(&options, stop.clone());
                let mut daemon = daemon.map_err(|error| error.to_string())?;
                daemon.accompany(Box::new(turn));
                std::thread::spawn(move || daemon.run().map_err(|error| error.to_string()))
            }
            None => {
                let ended = ended.clone();
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

    pub(crate) fn end(self) -> Result<(), String> {
        self.stop.stop();
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the generator panicked")?
    }
}

/// A core allocator that manages these cores; none: there is to be none.
pub(crate) fn daemon_of(path: Option<&Path>, cpus: &[u32], interval_ns: u64) -> Option<Options> {
    let interval = format!("{interval_ns}ns");
    let cores = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let arguments = ["curtaild", "--quiet", "--cores", &cores, "--interval", &interval, "--socket"];
    let arguments = arguments.map(std::ffi::OsString::from).into_iter().chain([path?.into()]);
    Some(Options::try_parse_from(arguments).expect("arguments of its own"))
}
