//! A latency-critical program with a dispatcher: a server of Curtail's whose one worker shares its core. The
//! dispatcher has the other core, and with it the generator and the core allocator, whose turns are those of
//! its transport.
//!
//! Before the dispatcher runs, and after it, a thread of the kernel gives the core allocator its turns.

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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, PoisonError};

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
    let wire = Wire { turn, jobs, daemon: None, host: host.place.clone(), ended: false };
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
    daemon: Option<Daemon>,
    host: Place,
    ended: bool,
}

impl Transport for Wire {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        if self.ended {
            return Status::Closed;
        }
        if self.daemon.is_none() {
            self.daemon = self.host.take();
        }
        if let Some(daemon) = &mut self.daemon {
            // What goes wrong in it shows when it is the host's again.
            let _ = daemon.turn();
        }
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
        if let Some(daemon) = self.daemon.take() {
            self.host.give_back(daemon);
        }
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

/// A thread of the kernel that gives the core allocator its turns while nobody has borrowed it.
struct Host {
    place: Place,
    stop: Stop,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

/// Where a core allocator is borrowed.
#[derive(Clone)]
struct Place {
    is_wanted: Arc<AtomicBool>,
    lent: Arc<std::sync::Mutex<mpsc::Receiver<Daemon>>>,
    back: SyncSender<Daemon>,
}

impl Place {
    fn take(&self) -> Option<Daemon> {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.lent.try_lock().ok()?.try_recv().ok()
    }

    fn give_back(&self, daemon: Daemon) {
        let _ = self.back.try_send(daemon);
    }
}

impl Host {
    fn start(options: &curtaild::Options) -> Result<Self, String> {
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let mut daemon = Daemon::new(options, stop.clone()).map_err(|error| error.to_string())?;
        let (lend, lent) = mpsc::sync_channel(1);
        let (back, returned) = mpsc::sync_channel(1);
        let is_wanted = Arc::new(AtomicBool::new(false));
        let lent = Arc::new(std::sync::Mutex::new(lent));
        let place = Place { is_wanted: is_wanted.clone(), lent, back };
        let thread = std::thread::spawn(move || {
            let text = |error: curtaild::Error| error.to_string();
            while !is_wanted.load(Ordering::Relaxed) {
                if !daemon.turn().map_err(text)? {
                    return Ok(());
                }
                std::thread::yield_now();
            }
            let _ = lend.send(daemon);
            let mut daemon =
                returned.recv().map_err(|_| "the dispatcher kept the core allocator")?;
            while daemon.turn().map_err(text)? {
                std::thread::yield_now();
            }
            Ok(())
        });
        Ok(Self { place, stop, thread })
    }

    fn end(self) -> Result<(), String> {
        self.stop.stop();
        self.thread.join().map_err(|_| "the core allocator's thread panicked")?
    }
}
