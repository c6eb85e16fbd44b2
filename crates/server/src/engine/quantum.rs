//! A job's quantum: when it begins and ends, and what the hook of the safepoints decides then.

use super::Engine;
use super::alone::Words;
use super::turn::publish_ready;
use curtail_fiber::safepoint::Mode;
use curtail_policy::CorePolicy;
use curtail_rt::clock;
use curtail_rt::thread::is_wanted;
use std::sync::atomic::{Ordering, fence};

impl Engine {
    pub(super) fn armed(&self) -> bool {
        self.quantum_cycles != 0 && self.config.mode != Mode::Off
    }

    /// For how long the running job has been due to yield: since its deadline, or since the
    /// dispatcher asked for it (before that no other job wanted its place).
    pub(super) fn late(&self, now: u64) -> u64 {
        let due = match self.config.mode {
            Mode::Off => return 0,
            _ if !self.config.watched => self.safepoint.deadline(),
            _ => match self.remote.signals.raised.load(Ordering::Relaxed) {
                raised if raised < self.run_start => return 0,
                raised => raised,
            },
        };
        now.saturating_sub(due)
    }

    /// Work that goes on long after it was due to yield was interrupted by the machine: safepoints
    /// are close.
    pub(super) fn note_late(&self, late: u64, now: u64) {
        self.kthread.note_quiet(now - late, now);
    }

    pub(super) fn arm(&mut self, now: u64) {
        if !self.armed() {
            return;
        }
        self.alone.end(self.safepoint);
        let deadline = now + self.quantum_cycles;
        self.kthread.arm_by(self.config.mode, (now, deadline), !self.config.watched);
        if self.config.watched {
            self.remote.progress.running.store(now, Ordering::Release);
        }
    }

    pub(super) fn disarm(&mut self) {
        if self.armed() {
            self.alone.end(self.safepoint);
            self.safepoint.disarm();
        }
    }

    /// The thread is about to wait: its time need not be kept.
    pub(crate) fn nothing_runs(&self) {
        if self.config.watched {
            self.remote.progress.running.store(0, Ordering::Relaxed);
        }
    }

    /// Whether another job wants the place of the job that runs.
    fn others_wait(&mut self, now: u64) -> bool {
        // SAFETY: `running` is the request that calls us.
        let ran = unsafe { (*self.running).task.ran(now) };
        self.links.is_none()
            || is_wanted(self.kthread, now)
            || self.runs_last() && (!self.core.is_empty() || self.kthread.has_threads())
            || self.runs_for_nothing()
            || self.core.wants_place(self.shared.clock.nanos(ran))
            || self.has_mail()
            || (self.config.central && self.remote.signals.contended.load(Ordering::Relaxed) != 0)
    }

    /// What the hook decides: true, yield; false, another quantum.
    pub(crate) fn expired(&mut self) -> bool {
        if self.beats {
            return beat(self);
        }
        self.expect_mail();
        // SAFETY: `running` is the request that calls us.
        unsafe { self.alone.count(self.running, &mut self.quanta) };
        let now = self.safepoint.last_reading().unwrap_or_else(clock::now);
        let late = self.late(now);
        if late <= self.gap_cycles || !self.alone.is_selective(now) {
            self.counts.late_ns.saturating_record(self.shared.clock.ns(late));
        }
        self.note_late(late, now);
        if self.config.mode == Mode::Clock && self.safepoint.last_reading().is_none() {
            curtail_rt::held::note_put_off(self.safepoint.deadline(), now);
        }
        publish_ready(self);
        let unwinds = std::thread::panicking();
        let mut waits = !unwinds && self.others_wait(now);
        let by_words = self.config.mode == Mode::Clock && self.core.is_empty() && !self.runs_last();
        let mut attention = None;
        if !unwinds && !waits && by_words {
            // The word is cleared before the last look, which sees what was made ready before.
            attention = Some(self.kthread.watch_attention());
            waits = self.others_wait(now);
        }
        if !waits {
            self.arm(now);
            if let (Some(attention), Some(links)) = (attention, &self.links) {
                let contended = self.config.central.then_some(&self.remote.signals.contended);
                let words = Words { inbox: links.inbox.watched(), attention, contended };
                // SAFETY: ring, kthread and `remote` live as long as the engine, whose end disarms.
                unsafe { self.alone.begin(self.safepoint, words, now, self.quantum_cycles) };
            }
            // SAFETY: `running` is the request that calls us.
            unsafe { (*self.running).task.count_cuts(1) };
            self.quanta += 1;
            self.kthread.note_pick(0);
            return false;
        }
        self.counts.preemptions += 1;
        self.remote.progress.preemptions.store(self.counts.preemptions, Ordering::Relaxed);
        self.quanta += 1;
        true
    }

    /// A job that is not armed looks now and then what a core allocator asks.
    pub(super) fn arm_beat(&mut self, now: u64) {
        self.beats = false;
        if !self.armed()
            && let Some((mode, cycles)) = self.shared.beat
        {
            self.beats = true;
            self.safepoint.arm(mode, now, now + cycles);
            if mode == Mode::Flag {
                // What was raised before is forgotten: what it was raised for is seen here.
                fence(Ordering::SeqCst);
                if is_wanted(self.kthread, now) {
                    self.safepoint.ask_from_handler();
                }
            }
        }
    }
}

/// What the hook decides of such a job: true, yield.
fn beat(engine: &mut Engine) -> bool {
    let now = engine.safepoint.last_reading().unwrap_or_else(clock::now);
    engine.poll_if_due(now);
    publish_ready(engine);
    if !std::thread::panicking() && is_wanted(engine.kthread, now) {
        engine.counts.preemptions += 1;
        engine.quanta += 1;
        return true;
    }
    engine.arm_beat(now);
    false
}
