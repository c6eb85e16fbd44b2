//! The watchdog: tells of a kthread that is stuck, while it is stuck.
//!
//! A plain thread looks at all kthreads of a runtime every half limit. A kthread is stuck if it has
//! picked nothing for the limit although something waits for it there, or, where safepoints keep
//! the time themselves, if what it runs has come to none for the limit: it is in a system call that
//! blocks, or in code without safepoints.
//!
//! One that the machine keeps from its core is not stuck. Nor is one in its own sleep whose waker has no
//! core: that is told only where it lasts ([`LONG_SLEEP`]).
//!
//! Stalls are counted by place ([`super::stalls`]). What has not started goes on elsewhere: others
//! steal it, and where all kthreads are stuck, a spare one is started (`spares`). Under a core allocator a
//! kthread that is stuck in the kernel gives its core back; one that is parked is not stuck.

use super::kthread::Shared;
use super::spares::Stuck;
use super::stack_of::look_at;
use super::stalls::{Detail, Stalls, function_of};
use crate::clock::{self, Clock};
use crate::timeline::{self, EventKind};
use curtail_fiber::safepoint::Mode;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The target of what is logged here.
const LOG: &str = "curtail::thread::watchdog";

/// So many limits a kthread sleeps beside its work before that is told.
const LONG_SLEEP: u32 = 100;

/// A kthread is stuck.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// Which kthread, from 0; of a server: which worker.
    pub kthread: usize,
    /// For how long it has picked nothing, at least.
    pub duration: Duration,
    /// What it is doing: the functions on its stack, innermost first. Empty where it went on before it
    /// was asked, or did not answer.
    pub stack: Vec<String>,
    /// What it holds, in words for people: a lock and where it was taken, or a critical section.
    pub holds: Option<String>,
    /// How many stalls there were so far whose innermost function was the same, this one included; of
    /// a sleep, how many long sleeps.
    pub count: u64,
    /// It is in its own sleep, for long, though something waits for it: no code of the program's, but
    /// the kernel, which runs others instead.
    pub asleep: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kthread, duration, .. } = self;
        if self.asleep {
            return write!(
                f,
                "kthread {kthread} has slept for {duration:?} though work waits for it: the kernel \
                 gives its core, or that of the thread that wakes it, to others"
            );
        }
        write!(f, "kthread {kthread} has been stuck for {duration:?}")?;
        if let Some(holds) = &self.holds {
            write!(f, ", holding {holds}")?;
        }
        if self.stack.is_empty() {
            return write!(f, "; it went on before its stack was looked at, or did not answer");
        }
        write!(f, ", in")?;
        if let (Some(function), 2..) = (function_of(&self.stack), self.count) {
            write!(f, " {function} (stall {} there)", self.count)?;
        }
        self.stack.iter().try_for_each(|frame| write!(f, "\n    {frame}"))
    }
}

/// Tells of it in the log, or on standard error where the log takes no warnings; of each place with
/// its stack once ([`Stalls::detail`]).
fn default_on_stall(stalls: Arc<Stalls>) -> OnStall {
    Arc::new(move |stall| {
        let text = stall.to_string();
        match stalls.detail(&stall.stack, stall.count, Instant::now()) {
            Detail::Nothing => {}
            Detail::Line => warn(text.lines().next().unwrap_or_default()),
            Detail::All => warn(&text),
        }
    })
}

/// Warns in the log, or on standard error where the log takes no warnings.
pub(super) fn warn(text: &str) {
    if tracing::enabled!(target: LOG, tracing::Level::WARN) {
        tracing::warn!(target: LOG, "{text}");
    } else {
        // A warning that can't be written is lost.
        let _ = writeln!(std::io::stderr(), "curtail: {text}");
    }
}

/// What is done with a [`Stall`].
type OnStall = Arc<dyn Fn(&Stall) + Send + Sync>;

/// Whether and how stuck kthreads are reported.
#[derive(Clone, Default)]
pub struct Watching {
    /// `None`: as is usual; `Some(None)`: not at all.
    limit: Option<Option<Duration>>,
    on_stall: Option<OnStall>,
    ignores_stalls: bool,
    stalls: Arc<Stalls>,
}

impl Watching {
    /// What was counted so far.
    pub fn stalls(&self) -> Arc<Stalls> {
        self.stalls.clone()
    }

    pub fn set_limit(&mut self, limit: Option<Duration>) {
        self.limit = Some(limit);
    }

    pub fn set_on_stall(&mut self, f: impl Fn(&Stall) + Send + Sync + 'static) {
        self.on_stall = Some(Arc::new(f));
    }

    pub fn ignore_stalls(&mut self) {
        self.ignores_stalls = true;
    }

    /// Watches kthreads; `quanta`: how what runs there is pre-empted. `is_stuck` is called at each look
    /// for each that is stuck, with its index and its count of picks; `looked` after each look.
    pub fn watch(
        &self,
        watched: Watched,
        quanta: Mode,
        is_stuck: impl Fn(usize, u32) + Send + 'static,
        looked: impl Fn(Stuck) + Send + 'static,
    ) -> Option<Watch> {
        let usual = Duration::from_millis(if quanta == Mode::Off { 100 } else { 10 });
        let limit = self.limit.unwrap_or(Some(usual))?;
        let on_stall = self.on_stall.clone();
        let on_stall = on_stall.unwrap_or_else(|| default_on_stall(self.stalls.clone()));
        Some(Watch::over(
            Watchdog {
                limit,
                on_stall: (!self.ignores_stalls).then_some(on_stall),
                stalls: self.stalls.clone(),
                watched,
                // By flag, a thread that runs alone is not asked to yield.
                runs_by_clock: matches!(quanta, Mode::Clock | Mode::Signal),
                seen: Vec::new(),
                sleeps: 0,
                is_stuck: Box::new(is_stuck),
            },
            looked,
        ))
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Kthreads that are watched.
pub struct Watched {
    /// The usual ones, then the spare ones.
    pub kthreads: Box<[Arc<Shared>]>,
    pub usual: usize,
    /// What the first one of each kind is known as.
    pub first: usize,
    pub first_spare: usize,
}

impl Watched {
    pub(super) fn number(&self, index: usize) -> usize {
        match index.checked_sub(self.usual) {
            None => self.first + index,
            Some(spare) => self.first_spare + spare,
        }
    }
}

/// What the watchdog knows of one kthread.
#[derive(Clone, Copy)]
struct Seen {
    beats: u32,
    /// Since when it has been at the same thing.
    picked: Instant,
    /// Since when that was to be told of.
    since: Instant,
    /// Processor time that it had had then.
    cpu: Duration,
    /// When to tell of it again: after twice as long each time.
    tell_after: Duration,
    /// Where it was counted, if it was.
    place: Option<usize>,
}

/// The thread that looks for kthreads that are stuck.
struct Watchdog {
    limit: Duration,
    /// `None`: no stack is looked at, either.
    on_stall: Option<OnStall>,
    stalls: Arc<Stalls>,
    watched: Watched,
    /// What runs comes to a safepoint every quantum, also where nothing waits.
    runs_by_clock: bool,
    seen: Vec<Seen>,
    /// Long ones so far.
    sleeps: u64,
    is_stuck: Box<dyn Fn(usize, u32) + Send>,
}

impl Watchdog {
    /// From one look to the next.
    fn pause(&self) -> Duration {
        self.limit / 2
    }

    /// Looks at all kthreads, and tells of those that are stuck.
    fn look(&mut self) -> Stuck {
        let now = Instant::now();
        let mut found = Stuck { usual: true, all: true };
        for index in 0..self.watched.kthreads.len() {
            let kthread = self.watched.kthreads[index].clone();
            let Some(tid) = kthread.tid() else { continue };
            let waits = kthread.keeps_waiting();
            let is_at_it = self.see(index, &kthread, (tid, waits), now);
            let seen = self.seen[index];
            let stuck_for = now - seen.since;
            let stuck = stuck_for >= self.limit && is_its_own_doing(tid, seen.cpu, self.limit);
            // Where nothing waits, only what is in the kernel may not come to the runtime.
            found.all &= is_at_it && (stuck || is_blocked(tid));
            if index < self.watched.usual {
                found.usual = found.all;
            }
            if stuck && waits {
                (self.is_stuck)(index, kthread.picks());
            }
            // Asked last: what was found before was found in that sleep.
            let asleep = stuck && kthread.parker.rests();
            let is_told = !asleep || stuck_for >= self.limit * LONG_SLEEP;
            if stuck && is_told && stuck_for >= seen.tell_after {
                match asleep {
                    true => self.tell_sleep(index, stuck_for),
                    false => self.tell(index, tid, stuck_for),
                }
            } else if let Some(place) = seen.place {
                self.stalls.extend(place, stuck_for);
            }
            if stuck && is_blocked(tid) {
                kthread.give_core_back();
            }
        }
        found
    }

    /// Notes what a kthread is at; true: at one and the same thing for longer than the limit.
    fn see(
        &mut self,
        index: usize,
        kthread: &Shared,
        (tid, waits): (libc::pid_t, bool),
        now: Instant,
    ) -> bool {
        let (beats, runs) = (kthread.progress.beats(), kthread.runs_something());
        let fresh = Seen {
            beats,
            picked: now,
            since: now,
            cpu: processor_time(tid),
            tell_after: self.limit,
            place: None,
        };
        if self.seen.len() <= index {
            self.seen.resize(index + 1, fresh);
        }
        let seen = &mut self.seen[index];
        let picked = if beats != seen.beats || !runs { now } else { seen.picked };
        let counts = waits || (self.runs_by_clock && runs);
        if beats != seen.beats || !counts {
            *seen = fresh;
        }
        seen.picked = picked;
        runs && !kthread.is_parked() && now - picked >= self.limit
    }

    /// Tells of a long sleep: no stall of the program's, so that it has no place among them.
    fn tell_sleep(&mut self, index: usize, duration: Duration) {
        let seen = &mut self.seen[index];
        self.sleeps += u64::from(seen.tell_after == self.limit);
        seen.tell_after = duration * 2;
        if let Some(on_stall) = &self.on_stall {
            let (kthread, count) = (self.watched.number(index), self.sleeps);
            let (stack, holds) = (Vec::new(), None);
            on_stall(&Stall { kthread, duration, stack, holds, count, asleep: true });
        }
    }

    /// Counts a stall, or goes on with one that was counted, and tells of it.
    fn tell(&mut self, index: usize, tid: libc::pid_t, duration: Duration) {
        let again = self.seen[index].place;
        self.seen[index].tell_after = duration * 2;
        let told = self.on_stall.as_ref();
        let looks = told.is_some() && (again.is_some() || self.stalls.may_look(Instant::now()));
        let (stack, holds) = if looks { look_at(tid) } else { (Vec::new(), None) };
        let (place, count) = match again {
            None => self.stalls.add(&stack, duration),
            Some(place) => self.stalls.go_on(place, &stack, duration),
        };
        self.seen[index].place = Some(place);
        let cycles = Clock::get().cycles(duration.as_nanos() as u64);
        let start = clock::now().saturating_sub(cycles);
        let kthread = self.watched.number(index);
        timeline::note(EventKind::Stalled, (start, cycles), kthread as u32, 0);
        if let Some(on_stall) = told.filter(|_| looks) {
            on_stall(&Stall { kthread, duration, stack, holds, count, asleep: false });
        }
    }
}

/// Whether a kthread that picks nothing runs or waits itself; otherwise the machine keeps it from its
/// core. `since`: its processor time when it last picked something.
fn is_its_own_doing(tid: libc::pid_t, since: Duration, limit: Duration) -> bool {
    processor_time(tid).saturating_sub(since) >= limit / 2 || is_blocked(tid)
}

/// What a thread of this process has had; zero where there is none.
fn processor_time(tid: libc::pid_t) -> Duration {
    // clock_getcpuclockid(3) for threads: the number's complement, and 6 for "this thread's, as the
    // scheduler counts it".
    let clock = !tid << 3 | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours; a clock that does not exist is an error.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}

/// Whether a thread of this process waits in the kernel.
fn is_blocked(tid: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['S', 'D']))
}

/// A watchdog's thread; it ends when this is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    /// Starts it. Where the system gives no thread, nothing is watched, and that is told.
    fn over(mut watchdog: Watchdog, looked: impl Fn(Stuck) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            while !stopped.load(Ordering::Acquire) {
                looked(watchdog.look());
                std::thread::park_timeout(watchdog.pause());
            }
        };
        let thread = std::thread::Builder::new().name("curtail-watchdog".to_owned()).spawn(body);
        let thread = thread
            .map_err(|error| {
                tracing::warn!(
                    target: LOG, %error, "no watchdog"
                )
            })
            .ok();
        Self { stop, thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics if `on_stall` does: that was told.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
