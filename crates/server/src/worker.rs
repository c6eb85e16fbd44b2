//! A worker's thread: an engine, its rings, and what it does when there is nothing to do.

use crate::engine::{Config, Counts, Engine};
use crate::message::Event;
use crate::remote::Remote;
use curtail_policy::{AnyCore, Kind, Mix, Nanos};
use curtail_ring::spsc;
use curtail_rt::clock;
use curtail_rt::thread::KThread;
use curtail_rt::topology::Idle;
use curtail_rt::yields::Yields;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU32;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::worker";

/// Switches between threads before requests are looked at again.
const THREADS_A_TURN: u32 = 8;
/// Turns of one kind in a row while the other has something.
const ONE: NonZeroU32 = NonZeroU32::new(1).expect("one");

/// What a worker is to look at when its epoch is raised.
pub(crate) type Orders = Mutex<Option<(Config, AnyCore)>>;

/// What a worker leaves behind.
pub(crate) struct WorkerReport {
    pub counts: Counts,
    pub idle_cycles: u64,
    pub total_cycles: u64,
    /// Processor time, without what was spun away waiting.
    pub busy: Duration,
}

/// The links of a worker to its dispatcher.
pub(crate) struct Links {
    pub events: spsc::Producer<Event>,
    pub remote: Arc<Remote>,
    pub orders: Arc<Orders>,
    /// The dispatcher's, to wake it; none: it never sleeps. Then news needs no fence, which would
    /// have to wait until the news has its line, that is for a whole trip between the cores.
    pub dispatcher: Option<Arc<Remote>>,
}

struct Worker {
    engine: *mut Engine,
    links: Links,
    idle: Idle,
    yields: Yields,
    mix: Mix,
    epoch: u32,
    idle_cycles: u64,
    /// Spent waiting, gaps left out: what waiting took of the processor.
    spun_cycles: u64,
}

/// The worker's life, until it is told to stop.
pub(crate) fn work(mut engine: Box<Engine>, links: Links, idle: Idle) -> WorkerReport {
    let mut worker = Worker {
        engine: &raw mut *engine,
        links,
        idle,
        yields: Yields::new(),
        mix: Mix::new(ONE),
        epoch: 0,
        idle_cycles: 0,
        spun_cycles: 0,
    };
    let born = clock::now();
    worker.links.remote.engine.store(worker.engine, Ordering::Release);
    worker.live();
    worker.links.remote.engine.store(ptr::null_mut(), Ordering::Release);
    let total_cycles = clock::now() - born;
    let idle_cycles = worker.idle_cycles;
    // SAFETY: `worker` is done with its pointer, the engine's box is whole again.
    let engine = unsafe { &mut *worker.engine };
    let busy = processor_time().saturating_sub(engine.duration(worker.spun_cycles));
    WorkerReport { counts: engine.take_counts(), idle_cycles, total_cycles, busy }
}

/// What this thread has had.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Worker {
    /// Short borrows only: while a fiber runs, the hook uses the engine.
    #[allow(clippy::mut_from_ref)] // The pointer is this thread's own; see `Engine`.
    fn engine(&self) -> &mut Engine {
        // SAFETY: the engine outlives the worker, and no fiber runs while this thread is here.
        unsafe { &mut *self.engine }
    }

    fn live(&mut self) {
        let mut now = clock::now();
        loop {
            self.engine().take_in_due(now);
            self.apply_commands(now);
            let ran = self.turn(now);
            self.publish_events();
            if self.is_to_stop() {
                return self.end_threads();
            }
            now = match ran {
                Some(end) => end,
                None => self.wait(now),
            };
        }
    }

    /// Runs a request or some threads, in turn. Returns the time at the end; `None`: nothing is
    /// ready.
    fn turn(&mut self, now: u64) -> Option<u64> {
        let kthread = KThread::here();
        let request = self.engine().has_ready().then_some(Nanos::ZERO);
        let thread = kthread.has_threads().then_some(Nanos::ZERO);
        let turn = self.mix.pick(request, thread);
        match turn.or_else(|| self.engine().has_last().then_some(Kind::Request))? {
            // SAFETY: this thread's engine; no reference into it is alive.
            Kind::Request => unsafe { Engine::run(self.engine, now) },
            Kind::Thread => {
                // SAFETY: as above.
                unsafe { Engine::away(self.engine, || kthread.run_threads(THREADS_A_TURN)) };
                Some(clock::now())
            }
        }
    }

    /// The requests have ended: what handlers spawned may end, too, for a while.
    fn end_threads(&self) {
        let kthread = KThread::here();
        let until = clock::now() + self.idle.patience_cycles;
        while kthread.alive() > 0 && clock::now() < until {
            kthread.look_around(clock::now());
            if !kthread.run_threads(THREADS_A_TURN) {
                kthread.rest(|| kthread.has_threads(), Some(Duration::from_millis(1)));
            }
        }
        if kthread.alive() > 0 {
            tracing::warn!(
                target: LOG, threads = kthread.alive(), "left behind when the server ended"
            );
        }
    }

    /// The dispatcher says so when every job has left, or when it will wait no longer.
    fn is_to_stop(&self) -> bool {
        self.links.remote.signals.stop.load(Ordering::Acquire)
    }

    /// Sends the engine's news, and wakes the dispatcher where it would want to know now.
    fn publish_events(&mut self) {
        let mut told = false;
        while let Some(event) = self.engine().next_event() {
            if let Err(full) = self.links.events.stage(event) {
                self.engine().push_event_back(full.into_inner());
                break;
            }
            told = true;
        }
        if told {
            self.links.events.publish();
            if let Some(dispatcher) = &self.links.dispatcher {
                dispatcher.parker.unpark();
            }
        }
    }

    /// Takes a new configuration, if there is one.
    fn apply_commands(&mut self, now: u64) {
        let epoch = self.links.remote.signals.epoch.load(Ordering::Acquire);
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        let orders = self.links.orders.lock().unwrap_or_else(|p| p.into_inner()).take();
        if let Some((config, core)) = orders {
            self.engine().reconfigure(config, core, now);
        }
    }

    /// Waits for mail: spins, then yields, then sleeps, as far as the machine has room. Returns the
    /// time.
    fn wait(&mut self, since: u64) -> u64 {
        self.engine().nothing_runs();
        let mut before = since;
        let mut spins = 0_u32;
        loop {
            if self.has_reason() {
                let now = clock::now();
                self.idle_cycles += now - since;
                return now;
            }
            std::hint::spin_loop();
            spins += 1;
            if !spins.is_multiple_of(16) {
                continue;
            }
            let now = clock::now();
            KThread::here().look_closely(now);
            let passed = now - before;
            if !self.engine().watch(passed, now) {
                self.spun_cycles += passed;
            }
            before = now;
            let stays = now - since <= self.idle.spin_cycles;
            if stays && !self.idle.shares_core {
                continue;
            }
            let yielded = stays.then(|| self.yields.pass(now)).flatten();
            before = yielded.unwrap_or_else(|| {
                self.rest();
                clock::now()
            });
        }
    }

    /// Why to stop waiting: mail, news that had no room, new orders, the end.
    fn has_reason(&self) -> bool {
        let signals = &self.links.remote.signals;
        self.engine().has_mail()
            || KThread::here().has_threads()
            || self.engine().has_news()
            || signals.epoch.load(Ordering::Relaxed) != self.epoch
            || self.is_to_stop()
    }

    fn rest(&mut self) {
        self.engine().give_back();
        KThread::here().rest(|| self.has_reason(), Some(Duration::from_millis(100)));
    }
}
