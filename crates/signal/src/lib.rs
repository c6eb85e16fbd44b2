//! Pre-emption by signal, for code without safepoints: a timer of the thread's own, or another
//! thread, sends a real-time signal (a *tick*); its handler makes the running fiber yield.
//!
//! **How.** The handler runs on the alternate stack and switches nothing. Where the interrupted
//! fiber may yield, it changes the context to which the kernel returns: the thread goes on in
//! `curtail_safepoint_land` (`crates/fiber/native/stub.S`), on the fiber's own stack below the red zone, with
//! every register as it was.
//!
//! That saves what there is, calls the hook as a safepoint does, and later goes on at the
//! interrupted instruction. So no handler is left half-way, no signal mask outlives it, and the
//! kernel's frame (3 KiB and more) is never on the fiber's stack.
//!
//! **When.** Only where the program counter is in code that was declared the application's
//! ([`allow`]), no critical section is open, the grace of locks is over, the running fiber's task has begun and has not
//! ended, the stack pointer is on its stack with room to spare, and the x87 stack, the tiles of AMX
//! and the registers of APX, which the stub does not save, are not in use.
//!
//! Any other tick is refused, counted by reason, and followed by another one, after a time that
//! doubles with each refusal of the same quantum up to 4 ms.
//!
//! **Who touches what.** An [`Owner`] belongs to one thread: its loop, and the handler on that
//! thread, which interrupts it. Each word is a `Cell` of one machine word, written by one
//! instruction. [`Ticker`]s are for other threads, and atomics.

mod code;
mod context;
mod program;

pub use code::{Code, allow};
pub use curtail_fiber::ticks::{Refusal, Ticks};
pub use program::{Interruptible, interruptible};

use code::CODE;
use context::Interrupted;
use curtail_fiber::safepoint::{Mode, Safepoint};
use curtail_fiber::ticks;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A timer that fires so much too early is in time: it would only fire again.
const SLACK_NS: u64 = 300;
/// After a first refusal.
const RETRY_NS: u64 = 4_000;
/// The time doubles at most so often.
const DOUBLINGS: u32 = 10;

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    taken: AtomicU64,
    early: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// One more. Only the owner's thread counts, so that it needs no locked instruction.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

struct Shared {
    thread: libc::pid_t,
    /// A tick is under way; a second one would queue up behind it.
    under_way: AtomicBool,
    /// When the last one was sent by another thread (TSC).
    raised: AtomicU64,
    counts: Counts,
}

/// Another thread's handle: sends ticks, reads the counts. It may outlive the owner.
#[derive(Clone)]
pub struct Ticker(Arc<Shared>);

impl Ticker {
    /// Ends the quantum that runs on the owner's thread, if it began before `now` (TSC) and is where
    /// it may be interrupted.
    pub fn tick(&self, now: u64) {
        self.0.raised.store(now, Ordering::Relaxed);
        if self.0.under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: plain system calls. If that thread has ended, no thread gets the signal, or
        // another thread of this process whose handler finds that it owns nothing.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0.thread, number()) };
        if sent != 0 {
            self.0.under_way.store(false, Ordering::Relaxed);
        }
    }

    /// What became of the owner's ticks so far.
    #[must_use]
    pub fn counts(&self) -> Ticks {
        let counts = &self.0.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ticks {
            received: read(&counts.received),
            taken: read(&counts.taken),
            early: read(&counts.early),
            refused: std::array::from_fn(|index| read(&counts.refused[index])),
        }
    }
}

struct State {
    shared: Arc<Shared>,
    timer: libc::timer_t,
    safepoint: Safepoint,
    /// Nanoseconds a cycle, as a 32.32 fixed-point number.
    ns_per_cycle: u64,
    slack_cycles: u64,
    /// The timer will fire.
    running: Cell<bool>,
    /// The timer keeps the deadlines (else it serves repeated tries only).
    keeps_time: Cell<bool>,
    /// When the quantum began (TSC).
    begun: Cell<u64>,
    /// Refusals in the present quantum.
    refusals: Cell<u32>,
}

/// The ticks of the thread that made it. Ends with its timer when dropped. Not `Send`.
pub struct Owner {
    state: Box<State>,
    thread: PhantomData<*const ()>,
}

impl Owner {
    /// Makes this thread one that can be interrupted. `ns_per_cycle`: of the TSC, as a 32.32
    /// fixed-point number.
    ///
    /// # Errors
    /// Where no code has been [allowed](allow), vector registers could not be saved, or the
    /// system gives no timer or no signal.
    pub fn new(ns_per_cycle: u64) -> io::Result<Self> {
        if CODE.get().is_none() {
            return Err(io::Error::other("no code is known as the application's"));
        }
        if !ticks::saves_all_registers() {
            return Err(io::Error::other("this processor's vector registers are not saved"));
        }
        curtail_fiber::prepare_thread();
        let signal = install()?;
        // SAFETY: plain system calls on this thread; `timer` is set where the call succeeds.
        let (thread, timer) = unsafe {
            let thread = libc::gettid();
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = thread;
            let mut timer: libc::timer_t = ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut only: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut only);
            libc::sigaddset(&raw mut only, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, ptr::null_mut());
            (thread, timer)
        };
        let shared = Shared {
            thread,
            under_way: AtomicBool::new(false),
            raised: AtomicU64::new(0),
            counts: Counts::default(),
        };
        let state = Box::new(State {
            shared: Arc::new(shared),
            timer,
            safepoint: Safepoint::this_thread(),
            ns_per_cycle,
            slack_cycles: ((u128::from(SLACK_NS) << 32) / u128::from(ns_per_cycle.max(1))) as u64,
            running: Cell::new(false),
            keeps_time: Cell::new(false),
            begun: Cell::new(0),
            refusals: Cell::new(0),
        });
        ticks::set_owner((&raw const *state).cast());
        Ok(Self { state, thread: PhantomData })
    }

    /// The handle for other threads.
    #[must_use]
    pub fn ticker(&self) -> Ticker {
        Ticker(self.state.shared.clone())
    }

    /// Starts a quantum (TSC), as [`Safepoint::arm`] does. `keeps_time`: this thread's timer ends
    /// it; else another thread [ticks](Ticker::tick).
    ///
    /// The timer is not set anew for each quantum: deadlines only grow, so it fires before this one
    /// if it is running at all, and is set to whatever is due then. Quanta that end by themselves
    /// cost no system call.
    #[inline]
    pub fn arm(&self, now: u64, deadline: u64, keeps_time: bool) {
        let state = &*self.state;
        state.begun.set(now);
        state.refusals.set(0);
        state.keeps_time.set(keeps_time);
        state.safepoint.arm(Mode::Signal, now, deadline);
        if keeps_time && !state.running.get() {
            state.set_timer(state.ns(deadline.saturating_sub(now)));
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        ticks::set_owner(ptr::null());
        // SAFETY: our own timer, once. A tick under way finds no state.
        unsafe { libc::timer_delete(self.state.timer) };
    }
}

impl State {
    fn ns(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.ns_per_cycle)) >> 32) as u64
    }

    /// The timer fires after so many nanoseconds.
    fn set_timer(&self, ns: u64) {
        self.running.set(true);
        let ns = ns.max(1); // Zero would stop it.
        let at = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        let once = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: at,
        };
        // SAFETY: our own timer; async-signal-safe.
        unsafe { libc::timer_settime(self.timer, 0, &raw const once, ptr::null_mut()) };
    }

    /// One tick.
    fn tick(&self, by_timer: bool, interrupted: &mut Interrupted) {
        let counts = &self.shared.counts;
        count(&counts.received);
        if by_timer {
            self.running.set(false);
        } else {
            self.shared.under_way.store(false, Ordering::Relaxed);
        }
        if !self.safepoint.awaits_signal() {
            return count(&counts.early);
        }
        let (now, deadline) = (tsc(), self.safepoint.deadline());
        let raised = self.shared.raised.load(Ordering::Relaxed);
        if now + self.slack_cycles < deadline && raised < self.begun.get() {
            count(&counts.early);
            if self.keeps_time.get() && !self.running.get() {
                self.set_timer(self.ns(deadline - now));
            }
            return;
        }
        match self.may_yield(interrupted) {
            Ok(()) => {
                count(&counts.taken);
                self.safepoint.end();
                interrupted.land();
            }
            Err(why) => {
                count(&counts.refused[why as usize]);
                let doublings = self.refusals.get();
                self.refusals.set((doublings + 1).min(DOUBLINGS));
                self.set_timer(RETRY_NS << doublings);
            }
        }
    }

    fn may_yield(&self, interrupted: &Interrupted) -> Result<(), Refusal> {
        if self.safepoint.depth() != 0 && !self.safepoint.is_due(tsc()) {
            return Err(Refusal::Critical);
        }
        CODE.get().ok_or(Refusal::Runtime)?.check(interrupted.address())?;
        let stack = ticks::stack_in_task().ok_or(Refusal::Stack)?;
        if !interrupted.has_room(&stack) {
            return Err(Refusal::Stack);
        }
        if interrupted.has_unsaved_registers() { Err(Refusal::Registers) } else { Ok(()) }
    }
}

fn tsc() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

static NUMBER: AtomicI32 = AtomicI32::new(0);

/// The signal that ticks are; zero: none yet.
fn number() -> libc::c_int {
    NUMBER.load(Ordering::Relaxed)
}

/// Installs the handler, once for the process, for the first real-time signal that has no handler.
/// It stays: a tick under way must find it.
fn install() -> io::Result<libc::c_int> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if number() != 0 {
        return Ok(number());
    }
    for signal in libc::SIGRTMIN() + 1..=libc::SIGRTMAX() {
        // SAFETY: `action` is fully initialised; the handler has the SA_SIGINFO signature and does
        // only what is allowed in one.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &raw mut before) != 0
                || before.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_tick as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            // The return brings back the mask that was there before: no handler that sets it may run
            // on top of this one.
            libc::sigfillset(&raw mut action.sa_mask);
            if libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 {
                NUMBER.store(signal, Ordering::Relaxed);
                return Ok(signal);
            }
        }
    }
    Err(io::Error::other("no real-time signal is free"))
}

/// The handler.
extern "C" fn on_tick(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let state: *const State = ticks::owner().cast();
    if state.is_null() {
        return; // The owner has ended.
    }
    // SAFETY: not null, so it is this thread's, which its owner keeps; `info` and `context` are the
    // kernel's, valid while the handler runs; errno is this thread's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        (*state).tick((*info).si_code == libc::SI_TIMER, &mut Interrupted::new(context));
        *errno = before;
    }
}
