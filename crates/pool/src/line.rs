//! The way into the pool's server: [`Local`], and the clock of those that wait too long.

use super::shared::Shared;
use curtail_net::{Completion, Intake, Local, Outcome, Reply, Status, Transport};
use curtail_rt::clock::{self, Clock};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// The target of what is logged here.
const LOG: &str = "curtail::pool::line";

pub(super) struct Line {
    local: Local,
    shared: Arc<Shared>,
    /// Readable when the oldest job has waited too long; none: no class has such a limit.
    timer: Option<OwnedFd>,
    /// When the timer ends (TSC); 0: it does not run.
    due: u64,
    /// Dropped when the server's loop has begun.
    begun: Option<SyncSender<()>>,
}

impl Line {
    pub(super) fn new(
        local: Local,
        shared: Arc<Shared>,
        begun: SyncSender<()>,
    ) -> io::Result<Self> {
        let ages = shared.gates.iter().any(|gate| gate.max_age.is_some());
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = ages.then(|| timerfd_create(TimerfdClockId::Monotonic, flags)).transpose()?;
        Ok(Self { local, shared, timer, due: 0, begun: Some(begun) })
    }

    /// Refuses what has waited too long, and has the timer end when the next one will have.
    fn expire(&mut self, now: u64) {
        let Some(timer) = &self.timer else { return };
        let next = self.shared.expire(now);
        if self.due != 0 && self.due <= now {
            // What it says is known.
            let _ = rustix::io::read(timer, &mut [0; 8]);
            self.due = 0;
        }
        let Some(next) = next else { return };
        if self.due != 0 && self.due <= next {
            return;
        }
        let ns = Clock::get().ns(next.saturating_sub(clock::now())).max(1);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: zero, it_value: after };
        match timerfd_settime(timer, TimerfdTimerFlags::empty(), &once) {
            Ok(_) => self.due = next,
            // The server looks every 100 ms anyway.
            Err(error) => tracing::warn!(target: LOG, %error, "timerfd"),
        }
    }
}

impl Transport for Line {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.begun.take();
        self.expire(now_tsc);
        self.local.poll(now_tsc, into)
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.local.reply()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        let mut fds = self.local.wait_fds();
        fds.extend(self.timer.as_ref().map(AsRawFd::as_raw_fd));
        fds
    }

    fn completed(&mut self, completion: &Completion) {
        if completion.outcome == Outcome::Abandoned {
            self.shared.abandoned(&completion.tag.to_le_bytes());
        }
        self.local.completed(completion);
    }

    fn close(&mut self) {
        self.local.close();
    }

    fn describe(&self) -> String {
        format!("pool, {}", self.local.describe())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.local.counters()
    }
}
