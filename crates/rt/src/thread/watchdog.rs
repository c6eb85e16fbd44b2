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
//! steal it, and where all kthreads are stuck, a spare one is started. Under a core allocator a
//! kthread that is stuck in the kernel gives its core back; one that is parked is not stuck.

use super::kthread::Shared;
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

    /// Watches `kthreads`, which are known as `first` and so on; `quanta`: how what runs there is
    /// pre-empted. `is_stuck` is called at each look for each that is stuck, with its index and its
    /// count of picks; `all_stuck` at each look that finds all of them stuck.
    pub fn watch(
        &self,
        kthreads: impl AsRef<[Arc<Shared>]> + Send + 'static,
        first: usize,
        quanta: Mode,
        is_stuck: impl Fn(usize, u32) + Send + 'static,
        all_stuck: impl Fn() + Send + 'static,
    ) -> Option<Watch> {
        let usual = Duration::from_millis(if quanta == Mode::Off { 100 } else { 10 });
        let limit = self.limit.unwrap_or(Some(usual))?;
        let on_stall = self.on_stall.clone();
        let on_stall = on_stall.unwrap_or_else(|| default_on_stall(self.stalls.clone()));
        Some(Watch::over(
            kthreads,
            Watchdog {
                limit,
                on_stall: (!self.ignores_stalls).then_some(on_stall),
                stalls: self.stalls.clone(),
                first,
                // By flag, a thread that runs alone is not asked to yield.
                runs_by_clock: matches!(quanta, Mode::Clock | Mode::Signal),
                seen: Vec::new(),
                sleeps: 0,
                is_stuck: Box::new(is_stuck),
            },
            all_stuck,
        ))
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// What the watchdog knows of one kthread.
#[derive(Clone, Copy)]
struct Seen {
    beats: u32,
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
    /// The first kthread's number.
    first: usize,
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

    /// Looks at all kthreads, and tells of those that are stuck; true: all that live are.
    fn look(&mut self, kthreads: &[Arc<Shared>]) -> bool {
        let now = Instant::now();
        let fresh =
            Seen { beats: 0, since: now, cpu: Duration::ZERO, tell_after: self.limit, place: None };
        self.seen.resize(kthreads.len(), fresh);
        let mut all = true;
        for (index, kthread) in kthreads.iter().enumerate() {
            let Some(tid) = kthread.tid() else { continue };
            let (beats, waits) = (kthread.progress.beats(), kthread.keeps_waiting());
            let counts = waits || (self.runs_by_clock && kthread.runs_something());
            if beats != self.seen[index].beats || !counts {
                self.seen[index] = Seen { beats, cpu: processor_time(tid), ..fresh };
            }
            let seen = self.seen[index];
            let stuck_for = now - seen.since;
            let stuck = stuck_for >= self.limit && is_its_own_doing(tid, seen.cpu, self.limit);
            // It is reported before a spare one takes its queue: after that nothing waits for it.
            all &= stuck && waits;
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
        all
    }

    /// Tells of a long sleep: no stall of the program's, so that it has no place among them.
    fn tell_sleep(&mut self, index: usize, duration: Duration) {
        let seen = &mut self.seen[index];
        self.sleeps += u64::from(seen.tell_after == self.limit);
        seen.tell_after = duration * 2;
        if let Some(on_stall) = &self.on_stall {
            let (kthread, count) = (self.first + index, self.sleeps);
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
        let kthread = (self.first + index) as u32;
        timeline::note(EventKind::Stalled, (start, cycles), kthread, 0);
        if let Some(on_stall) = told.filter(|_| looks) {
            let kthread = self.first + index;
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
    fn over(
        kthreads: impl AsRef<[Arc<Shared>]> + Send + 'static,
        mut watchdog: Watchdog,
        all_stuck: impl Fn() + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            while !stopped.load(Ordering::Acquire) {
                if watchdog.look(kthreads.as_ref()) {
                    all_stuck();
                }
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
