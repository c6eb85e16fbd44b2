//! A latency-critical program with a dispatcher: a server of Curtail's whose one worker shares its core. The
//! dispatcher has the other core, and with it the generator and the core allocator, whose turns are those of
//! its transport.
//!
//! Where the dispatcher gives it none, before it runs, without a core, and after its end, a thread of the
//! kernel does.

use crate::generator::Job;
use crate::service::{Load, Offer, Sojourns, Turn, daemon_of, load, talk, tell};
use curtail::net::{Intake, Peer, Reply, Status, Transport};
use curtail::sync::Mutex;
use curtail::sync::mpsc::{Receiver, TryRecvError};
use curtail::{App, Response, Server, Spec, WorkerId};
use curtail_shm::monotonic_ns;
use curtail_workload::spin::spin;
use curtaild::{Daemon, Stop};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The policy: of two levels, so that the worker ends quanta by itself.
const POLICY: &str = "tq";

/// Plays the service, with a core allocator for both cores.
///
/// # Errors
/// In words, for people.
pub fn serve(offer: &Offer) -> Result<(), String> {
    let path =
        offer.daemon.as_deref().ok_or("a server with a dispatcher needs a core allocator")?;
    let (load, turn, go) = load(offer)?;
    let Load { mix, span_ns, expected, jobs, late } = load;
    let options = daemon_of(Some(path), &offer.cpus, offer.interval_ns).expect("there is a path");
    let host = Host::start(&options)?;
    let wire = Wire { turn, jobs, turns: host.turns.clone(), ended: false };
    let served = Served(Mutex::new(Sojourns::with_capacity(expected)).into());
    let sojourns = served.0.clone();
    let server = Server::builder(served)
        .policy(Spec::preset(POLICY).expect("a preset"))
        .workers(1)
        .transport(Box::new(wire))
        .daemon(path)
        .watchdog(None)
        .build()
        .map_err(|error| error.to_string())?;
    let talk = std::thread::spawn(move || talk(&go, || ()));
    server.run().map_err(|error| error.to_string())?;
    talk.join().map_err(|_| "the talking thread panicked")?;
    host.end()?;
    let sojourns = std::mem::take(&mut *sojourns.lock().unwrap_or_else(PoisonError::into_inner));
    tell(offer, (&mix, span_ns), &late, (&sojourns, 0.0))
}

/// Computes for each request's service time.
struct Served(Arc<Mutex<Sojourns>>);

impl App for Served {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], _: &mut Response) {
        let Some(job) = Job::from_bytes(request) else { return };
        spin(job.iterations);
        if let Some(offset_ns) = job.offset_ns {
            let sojourn_ns = monotonic_ns().saturating_sub(job.at_ns);
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push((offset_ns, sojourn_ns));
        }
    }
}

/// The dispatcher's transport: what the generator sends is what comes.
struct Wire {
    turn: Turn,
    jobs: Receiver<Job>,
    turns: Arc<Turns>,
    ended: bool,
}

impl Transport for Wire {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.ended {
            return Status::Closed;
        }
        self.turns.give();
        (self.turn)(monotonic_ns());
        while into.room() > 0 {
            match self.jobs.try_recv() {
                Ok(job) => into.request(&job.to_bytes(), Peer::None, now_tsc),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.close();
                    return Status::Closed;
                }
            }
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(Silent)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn close(&mut self) {
        self.ended = true;
    }

    fn describe(&self) -> String {
        "a generator".to_owned()
    }
}

/// Nothing is answered.
struct Silent;

impl Reply for Silent {
    fn reply(&self, _: Peer, _: &[u8]) {}

    fn refuse(&self, _: Peer) {}

    fn dropped(&self) -> u64 {
        0
    }

    fn is_gone(&self, _: Peer) -> bool {
        false
    }
}

/// A core allocator, and when the dispatcher gave it a turn last.
struct Turns {
    daemon: std::sync::Mutex<Daemon>,
    last_ns: AtomicU64,
}

/// The time after which a core allocator without a turn has lost its dispatcher.
const LOST: Duration = Duration::from_millis(2);

impl Turns {
    /// The dispatcher's turn, unless the other thread gives one now.
    fn give(&self) {
        self.last_ns.store(monotonic_ns(), Ordering::Relaxed);
        if let Ok(mut daemon) = self.daemon.try_lock() {
            // What goes wrong in it goes wrong again on the other thread.
            let _ = daemon.turn();
        }
    }

    fn is_lost(&self) -> bool {
        let since_ns = monotonic_ns().saturating_sub(self.last_ns.load(Ordering::Relaxed));
        since_ns > LOST.as_nanos() as u64
    }
}

/// The thread of the kernel.
struct Host {
    turns: Arc<Turns>,
    ended: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Host {
    fn start(options: &curtaild::Options) -> Result<Self, String> {
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let daemon = Daemon::new(options, stop).map_err(|error| error.to_string())?;
        let turns = Arc::new(Turns { daemon: daemon.into(), last_ns: AtomicU64::new(0) });
        let ended = Arc::new(AtomicBool::new(false));
        let (shared, over) = (turns.clone(), ended.clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if shared.is_lost() {
                    let mut daemon = shared.daemon.lock().unwrap_or_else(PoisonError::into_inner);
                    daemon.turn().map_err(|error| error.to_string())?;
                    drop(daemon);
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(LOST);
                }
            }
            Ok(())
        });
        Ok(Self { turns, ended, thread })
    }

    fn end(self) -> Result<(), String> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the core allocator's thread panicked")?
    }
}
