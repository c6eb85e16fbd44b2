//! The end of a kthread's sleep by time: a timer of the kernel's that stays set from one sleep to the next.
//!
//! A sleep with a timeout sets a timer at its beginning and takes it back at its end, which is dear where the
//! processor is a virtual one. Where sleeps end early, because sockets become ready, the alarm is set for the
//! first of them, and the others sleep without a timeout until it has gone off.
//!
//! The kthread's own. The descriptor lies in its epoll; only the kthread empties it.

use crate::clock;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::cell::{Cell, OnceCell};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// An alarm that is so much later is in time: two clocks never agree to the nanosecond.
const SLACK_NS: u64 = 2_000;

/// A timer of the kernel's that ends a kthread's sleep.
#[derive(Default)]
pub(super) struct Alarm {
    /// Made when it is first set; `None` inside: there can be none.
    timer: OnceCell<Option<OwnedFd>>,
    /// When it goes off, by the system's clock; 0: it is not set.
    at_ns: Cell<u64>,
    /// The last sleep ended before its time.
    ends_early: Cell<bool>,
}

/// How a sleep ends by time.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    /// By its own timeout.
    After(Timespec),
    /// By the alarm, or not at all.
    Otherwise,
}

impl Alarm {
    /// A sleep of `most` begins in `epoll`, where the alarm goes by `token`.
    pub(super) fn begin(&self, epoll: BorrowedFd<'_>, token: u64, most: Option<Duration>) -> Ends {
        // More than the kernel's seconds can hold is for ever.
        let Some(timeout) = most.and_then(|most| Timespec::try_from(most).ok()) else {
            return Ends::Otherwise;
        };
        let nanos = most.and_then(|most| u64::try_from(most.as_nanos()).ok()).unwrap_or(u64::MAX);
        if nanos == 0 || cfg!(curtail_virtual_time) {
            return Ends::After(timeout);
        }
        let now = clock::monotonic_ns();
        let due = now.saturating_add(nanos);
        let is_set = (now + 1..=due.saturating_add(SLACK_NS)).contains(&self.at_ns.get());
        match is_set || self.ends_early.get() && self.set(epoll, token, due) {
            true => Ends::Otherwise,
            false => Ends::After(timeout),
        }
    }

    /// The sleep has ended, by its timeout or by what was `found`.
    pub(super) fn end(&self, ends: Ends, found: usize) {
        if matches!(ends, Ends::After(_)) {
            self.ends_early.set(found > 0);
        }
    }

    /// It has gone off.
    pub(super) fn clear(&self) {
        self.at_ns.set(0);
        if let Some(Some(timer)) = self.timer.get() {
            // Without it, the next look would find it again.
            let _ = rustix::io::read(timer, &mut [0; 8]);
        }
        self.ends_early.set(false);
    }

    /// True: it goes off at `at_ns`.
    fn set(&self, epoll: BorrowedFd<'_>, token: u64, at_ns: u64) -> bool {
        let make = || {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
            epoll::add(epoll, &timer, EventData::new_u64(token), EventFlags::IN).ok()?;
            Some(timer)
        };
        let Some(timer) = self.timer.get_or_init(make) else { return false };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec {
            tv_sec: (at_ns / 1_000_000_000) as i64,
            tv_nsec: (at_ns % 1_000_000_000) as i64,
        };
        let once = Itimerspec { it_interval: never, it_value: at };
        let set = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).is_ok();
        self.at_ns.set(if set { at_ns } else { 0 });
        set
    }
}
