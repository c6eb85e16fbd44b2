//! When connections are to be looked at again: one entry a slot, earliest first, and one timer for
//! all. The dispatcher's alone.
//!
//! Entries may be early: a look that finds that nothing is due yet sets the entry anew. So what
//! moves a deadline back, as every request does, costs nothing.

use super::token::Token;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Stands for the transport itself, which is to end.
pub(super) const ALL: u32 = u32::MAX;

pub(super) struct Deadlines {
    entries: BTreeSet<(Instant, u32)>,
    timer: OwnedFd,
    /// When the timer expires.
    armed: Option<Instant>,
}

impl Deadlines {
    /// The timer makes `epoll` readable.
    pub(super) fn new(epoll: &OwnedFd) -> Result<Self, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(epoll, &timer, Token::Timer.into(), EventFlags::IN)?;
        Ok(Self { entries: BTreeSet::new(), timer, armed: None })
    }

    /// Has `slot` looked at by `at`, or when it was to be before. `entry`: its present one.
    pub(super) fn set(&mut self, slot: u32, entry: &mut Option<Instant>, at: Instant) {
        if entry.is_none_or(|before| at < before) {
            self.clear(slot, entry);
            self.entries.insert((at, slot));
            *entry = Some(at);
        }
    }

    /// Forgets `slot`.
    pub(super) fn clear(&mut self, slot: u32, entry: &mut Option<Instant>) {
        if let Some(at) = entry.take() {
            self.entries.remove(&(at, slot));
        }
    }

    /// Takes out one that is to be looked at.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, slot) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        Some(slot)
    }

    /// The timer has expired.
    pub(super) fn expired(&mut self) {
        crate::socket::drain(&self.timer);
        self.armed = None;
    }

    /// Sets the timer, if the first entry needs it.
    pub(super) fn arm(&mut self) {
        let Some(&(at, _)) = self.entries.first() else { return };
        if self.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would disarm it; what the kernel's time can't hold is as good as for ever.
        let time = at.saturating_duration_since(Instant::now());
        let time = time.clamp(Duration::from_nanos(1), Duration::from_secs(u32::MAX.into()));
        let value = Timespec::try_from(time).unwrap_or(none);
        let times = Itimerspec { it_interval: none, it_value: value };
        // It can't fail: the descriptor is a timer, the time is in range.
        if timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times).is_ok() {
            self.armed = Some(at);
        }
    }
}
