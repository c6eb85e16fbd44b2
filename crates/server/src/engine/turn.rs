//! The engine's part of its kthread's own loop: requests and threads in turn, what the dispatcher sends
//! and is told, and what others may do meanwhile.

use super::{Config, Engine};
use crate::message::{Event, Message};
use crate::remote::Remote;
use curtail_policy::{AnyCore, Kind, Nanos};
use curtail_ring::spsc;
use curtail_rt::clock;
use curtail_rt::thread::is_wanted;
use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex};

/// Switches between threads before requests are looked at again.
const THREADS_A_TURN: u32 = 8;

/// So long a worker that has a core and nothing to do waits for its dispatcher, where that is about to send
/// something.
const STAY_NS: u64 = 1_000_000;

/// What a worker is to look at when its epoch is raised.
pub(crate) type Orders = Mutex<Option<(Config, AnyCore)>>;

/// The links of a worker to its dispatcher.
pub(crate) struct Links {
    pub inbox: spsc::Consumer<Message>,
    pub events: spsc::Producer<Event>,
    pub orders: Arc<Orders>,
    /// The dispatcher's, to wake it; none: it never sleeps. Then news needs no fence, which would
    /// have to wait until the news has its line, that is for a whole trip between the cores.
    pub dispatcher: Option<Arc<Remote>>,
}

impl Links {
    /// Sends the news, and wakes the dispatcher where it would want to know now.
    fn publish(&mut self, news: &mut VecDeque<Event>) {
        let mut any = false;
        while let Some(event) = news.pop_front() {
            if let Err(full) = self.events.stage(event) {
                news.push_front(full.into_inner());
                break;
            }
            any = true;
        }
        if any {
            self.events.publish();
            if let Some(dispatcher) = &self.dispatcher {
                dispatcher.parker.unpark();
            }
        }
    }
}

/// Whether a request or a thread is next; `None`: nothing is ready.
fn next_kind(engine: &mut Engine) -> Option<Kind> {
    let request = engine.has_ready().then_some(Nanos::ZERO);
    let thread = engine.kthread.has_threads().then_some(Nanos::ZERO);
    let turn = engine.mix.pick(request, thread);
    turn.or_else(|| engine.has_last().then_some(Kind::Request))
}

/// Whether the worker keeps its core for what the dispatcher is about to send.
#[cold]
fn stays(engine: &mut Engine) -> bool {
    let waited = clock::now().saturating_sub(engine.idle_tsc);
    let stays = waited < engine.shared.clock.cycles(STAY_NS) && engine.remote.signals.stays.any();
    if !stays {
        engine.idle_tsc = 0;
    }
    stays
}

/// Under a core allocator: tells of the requests that wait here, and could run elsewhere.
#[inline]
pub(super) fn publish_ready(engine: &Engine) {
    if let Some(client) = engine.kthread.client() {
        client.publish_waiting(engine.unstarted);
    }
}

impl Engine {
    /// Runs what is ready, until nothing is or the kthread is asked for something; true: something ran.
    /// `now`: a fresh reading.
    ///
    /// # Safety
    /// `this` is this thread's engine, on which nothing runs; the caller holds no reference into it.
    pub(super) unsafe fn run_ready(this: *mut Self, mut now: u64) -> bool {
        let mut any = false;
        loop {
            // SAFETY: by contract. The borrow ends before something runs.
            let (ran, engine) = unsafe { (Self::turn(this, now), &mut *this) };
            let Some(end) = ran else {
                engine.nothing_runs();
                if any && engine.links.is_some() && engine.kthread.client().is_some() {
                    engine.idle_tsc = now;
                }
                return any;
            };
            (now, any) = (end, true);
            publish_ready(engine);
            if is_wanted(engine.kthread, now) {
                return true;
            }
        }
    }

    /// Takes in what came, runs one request, or some threads, and tells the dispatcher of it. When it
    /// ended (TSC); `None`: nothing is ready. `now`: a fresh reading.
    ///
    /// # Safety
    /// As for [`Engine::run_ready`].
    pub(crate) unsafe fn turn(this: *mut Self, now: u64) -> Option<u64> {
        // SAFETY: by contract. Each borrow ends before something runs.
        let kind = unsafe {
            let engine = &mut *this;
            engine.poll_if_due(now);
            engine.apply_commands(now);
            next_kind(engine)
        };
        let ran = match kind {
            // SAFETY: by contract.
            Some(Kind::Request) => unsafe { Self::run(this, now) },
            Some(Kind::Thread) => {
                // SAFETY: as above.
                unsafe {
                    let kthread = (*this).kthread;
                    Self::away(this, || kthread.run_threads(THREADS_A_TURN));
                }
                Some(clock::now())
            }
            None => None,
        };
        // SAFETY: as above.
        let engine = unsafe { &mut *this };
        if let Some(links) = &mut engine.links {
            links.publish(&mut engine.outbox);
        }
        ran
    }

    /// Takes a new configuration, if there is one.
    fn apply_commands(&mut self, now: u64) {
        let epoch = self.remote.signals.epoch.load(Ordering::Acquire);
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        let orders = self.links.as_ref().map(|links| &links.orders);
        let orders =
            orders.and_then(|orders| orders.lock().unwrap_or_else(|p| p.into_inner()).take());
        if let Some((config, core)) = orders {
            self.reconfigure(config, core, now);
        }
    }

    /// Whether there is something to do: mail, news that had no room, a new configuration.
    #[inline]
    pub(super) fn has_reason(&mut self) -> bool {
        self.has_mail()
            || !self.outbox.is_empty()
            || self.remote.signals.epoch.load(Ordering::Relaxed) != self.epoch
            || self.idle_tsc != 0 && stays(self)
    }

    /// The kthread has given its core back, or has one again: the dispatcher is to know.
    pub(super) fn tell_dispatcher(&mut self) {
        let parked = self.kthread.shared.is_parked();
        self.idle_tsc = if parked || self.links.is_none() { 0 } else { clock::now() };
        if parked && self.links.is_some() {
            // What the dispatcher sent before it could know.
            fence(Ordering::SeqCst);
            if self.inbox().is_some_and(|inbox| !inbox.is_empty()) {
                self.kthread.shared.announce_packets();
            }
        }
        if let Some(dispatcher) = self.links.as_ref().and_then(|links| links.dispatcher.as_ref()) {
            dispatcher.parker.unpark();
        }
    }
}
