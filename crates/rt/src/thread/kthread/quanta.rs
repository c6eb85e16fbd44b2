//! Quanta: when a thread that runs on is cut.
//!
//! The quantum is the kthread's: a thread that blocks or yields leaves the rest of it to the next,
//! so that a switch needs no clock and arms nothing. A thread that came in during a quantum gets a
//! whole one when it is over, so it has between one quantum and two.

use super::KThread;
use super::switch::note_leaving;
use crate::clock::{self, Clock};
use crate::signal::{Owner as Signals, Ticker};
use crate::thread::elastic::AllocatorClient;
use crate::thread::serving;
use crate::thread::tcb::Tcb;
use crate::timeline::EventKind;
use curtail_fiber::safepoint::Mode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// When and how its threads are pre-empted.
#[derive(Clone, Debug)]
pub struct Quanta {
    pub mode: Mode,
    /// One tick: the smallest quantum. It may change.
    pub cycles: Arc<AtomicU64>,
    /// A thread's quantum in ticks; 0: it runs to completion. It may change.
    pub usual: Arc<AtomicU32>,
    /// The quanta of classes of threads that have one of their own, in cycles; `None`: to completion.
    pub by_class: Box<[(u16, Option<u64>)]>,
}

impl Quanta {
    /// One quantum for all threads: of one tick, or, where there is no quantum, to completion.
    pub fn of_all(mode: Mode, cycles: u64, quantum: bool) -> Self {
        Self {
            mode,
            cycles: Arc::new(AtomicU64::new(cycles)),
            usual: Arc::new(AtomicU32::new(u32::from(quantum))),
            by_class: Box::default(),
        }
    }

    /// These quanta, with quanta of their own for classes of threads: those, in cycles.
    #[must_use]
    pub fn with_classes(self, classes: impl IntoIterator<Item = (u16, Option<u64>)>) -> Self {
        Self { by_class: classes.into_iter().collect(), ..self }
    }

    /// From the next tick on: quanta of so many cycles for all whose class has none of its own, or none,
    /// and then ticks of `beat` cycles, unless a class has a shorter quantum.
    pub fn set(&self, quantum: Option<u64>, beat: u64) {
        let of_classes = self.by_class.iter().filter_map(|&(_, quantum)| quantum);
        let tick = of_classes.chain([quantum.unwrap_or(beat)]).min().expect("there is one").max(1);
        self.cycles.store(tick, Ordering::Relaxed);
        self.usual.store(quantum.map_or(0, |quantum| ticks(quantum, tick)), Ordering::Relaxed);
    }

    /// How long that thread runs while others of its kind are ready, in cycles.
    pub(super) fn cycles_of(&self, tcb: &Tcb) -> Option<u64> {
        self.of(tcb).map(|ticks| u64::from(ticks) * self.cycles.load(Ordering::Relaxed))
    }

    /// Its quantum in ticks. A request's class is another matter: it has the usual quantum.
    fn of(&self, tcb: &Tcb) -> Option<u32> {
        let class = tcb.class.get();
        let own = self.by_class.iter().find(|(one, _)| *one == class && tcb.task().is_none());
        match own {
            Some((_, own)) => own.map(|own| ticks(own, self.cycles.load(Ordering::Relaxed))),
            None => Some(self.usual.load(Ordering::Relaxed)).filter(|&ticks| ticks != 0),
        }
    }
}

/// So many ticks make a quantum, one at least: both in cycles.
fn ticks(quantum: u64, tick: u64) -> u32 {
    let tick = tick.max(1);
    u32::try_from(quantum.saturating_add(tick / 2) / tick).unwrap_or(u32::MAX).max(1)
}

impl KThread {
    #[inline]
    pub(super) fn arm(&self, now: u64) {
        if let Some(quanta) = self.quanta.get() {
            self.quantum_pick.set(self.shared.progress.picks.load(Ordering::Relaxed));
            let deadline = now + quanta.cycles.load(Ordering::Relaxed);
            self.arm_by(quanta.mode, (now, deadline), true);
            // What was raised before is forgotten; what it was raised for was there before it. A core
            // allocator raises the word from another core: it either sees it taken back, or is seen.
            if quanta.mode == Mode::Flag {
                fence(Ordering::SeqCst);
                if self.is_asked() {
                    self.safepoint.ask_from_handler();
                }
            }
        }
    }

    /// Starts a quantum (TSC), which ends in that way; by a signal, its own timer ends it (`keeps_time`), or
    /// another thread does.
    #[inline]
    pub fn arm_by(&self, mode: Mode, (now, deadline): (u64, u64), keeps_time: bool) {
        match self.signals.get() {
            Some(signals) if mode == Mode::Signal => signals.arm(now, deadline, keeps_time),
            _ => self.safepoint.arm(mode, now, deadline),
        }
    }

    /// Has signals end its quanta where that is asked for. By which others may end them.
    ///
    /// # Errors
    /// What the system says, or that no code is known as the application's.
    pub fn prepare_signals(&self) -> std::io::Result<Ticker> {
        if let Some(signals) = self.signals.get() {
            return Ok(signals.ticker());
        }
        let signals = Signals::new(Clock::get().ns_per_cycle())?;
        Ok(self.signals.get_or_init(|| signals).ticker())
    }

    #[inline]
    pub(super) fn disarm(&self) {
        if self.quanta.get().is_some() {
            self.safepoint.disarm();
        }
    }

    /// A safepoint of the running thread found that the quantum is over. The quantum is the
    /// kthread's: switches between threads don't begin a new one, so that they need no clock. A
    /// thread that came in meanwhile gets a whole one now.
    pub(crate) fn expired(&self, me: &Tcb) {
        let read = self.safepoint.last_reading();
        let now = read.unwrap_or_else(clock::now);
        self.shared.progress.tick();
        if !me.context.has_own_locals() {
            return self.arm(now); // A light thread: others would find its thread-locals half written.
        }
        if me.is_batch() {
            return self.look_from_batch(me, now);
        }
        let same = self.quantum_pick.get() == self.shared.progress.picks.load(Ordering::Relaxed);
        // Without a reading it was held up by a critical section, or has been asked to yield; where
        // others ran in this quantum, these may have been in the kernel, to answer, say.
        if same && read.is_some() {
            self.note_late(now);
        }
        let by_clock = self.quanta.get().is_some_and(|quanta| quanta.mode == Mode::Clock);
        if by_clock && read.is_none() {
            crate::held::note_put_off(self.safepoint.deadline(), now);
        }
        if serving::is_wanted(self, now) && !std::thread::panicking() {
            self.clock_out(me);
            self.push_started(me);
            note_leaving(EventKind::RanUntilPreempted);
            return self.switch_from(me, &raw const self.base);
        }
        self.ticks.set(if same { self.ticks.get() + 1 } else { 0 });
        self.arm(now);
        let ticks = self.quanta.get().and_then(|quanta| quanta.of(me));
        if ticks.is_none() && self.has_mail() && !std::thread::panicking() {
            // What runs to completion is looked at all the same.
            self.drain_inbox();
            self.handle_notices();
        }
        if ticks.is_none_or(|ticks| self.ticks.get() < ticks) || std::thread::panicking() {
            return;
        }
        self.poll(now);
        self.handle_notices();
        if let Some(scheduler) = &self.scheduler {
            scheduler.want_lookout();
        }
        self.shared.progress.ready.store(self.local.len() + 1, Ordering::Relaxed);
        let has_requests = has_requests(self);
        if has_requests || self.has_threads() {
            self.shared.count_cut();
            if let Some(task) = me.task() {
                task.note_cut(now);
            }
            self.push_started(me);
            note_leaving(EventKind::RanUntilPreempted);
            let next = if has_requests { &raw const self.base } else { self.next() };
            self.quantum_pick.set(self.shared.progress.picks.load(Ordering::Relaxed));
            self.ticks.set(0);
            self.switch_from(me, next);
        }
    }

    /// Under a core allocator: tells of the queues; true: it has to be looked at what that asks.
    #[inline]
    pub(in crate::thread) fn beat(&self, now: u64) -> bool {
        self.client.as_ref().is_some_and(|client| beat_of(self, client, now))
    }

    /// How its threads are pre-empted. Once, before the first runs.
    pub fn set_quanta(&self, quanta: Option<Quanta>) {
        if let Some(quanta) = quanta {
            if quanta.mode == Mode::Signal
                && let Err(error) = self.prepare_signals()
            {
                return tracing::warn!(%error, "no pre-emption by signal");
            }
            self.quanta.set(quanta).expect("set once");
        }
    }
}

/// Whether requests that a dispatcher has sent want the processor that a thread is on.
pub(super) fn has_requests(here: &KThread) -> bool {
    // SAFETY: this kthread's own, and a thread runs here.
    here.run_queue.get().is_some_and(|queue| unsafe { (queue.waits)(queue.owner) })
}

fn beat_of(kthread: &KThread, client: &AllocatorClient, now: u64) -> bool {
    client.follow_orders();
    kthread.drain_inbox();
    client.publish_age(now);
    client.watch_packets(kthread, now);
    client.is_to_look() || kthread.shared.is_disowned()
}
