//! A runtime of threads: its kthreads, how they find work for each other, and its end.
//!
//! The calling thread becomes the first kthread; the others are started. Each runs its own loop
//! ([`Seat::live`]): look around, run what is ready, steal what has not started elsewhere, and sleep
//! when there is nothing. `idle` has a bit for each kthread that sleeps or is about to: whoever has
//! a thread that could be stolen takes a bit out and wakes its owner; an owner looks at all queues
//! once more between setting its bit and sleeping. The fences on both sides make one see the other.

use super::kthread::{KThread, Quanta, Shared};
use super::parker::Parker;
use super::spawn::Builder;
use super::tcb::Tcb;
use crate::clock::{self, Clock};
use crate::topology::{allowed_cores, pin};
use curtail_fiber::safepoint::{Kind, Mode, kind};
use curtail_policy::{Load, Loot, Thief, WorkerId};
use curtail_ring::{CachePadded, StealRing};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Bits of `idle`.
const MOST_KTHREADS: usize = 64;
const STACK: usize = 256 * 1024;
/// How long the end waits for kthreads that run threads of their own still.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads without a server: see [`run`] and [`Runtime::builder`].
#[derive(Debug)]
pub struct Runtime(());

impl Runtime {
    /// How it is to be.
    #[must_use]
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            kthreads: None,
            cores: None,
            stack_size: STACK,
            quantum: None,
            class_quanta: Vec::new(),
            spin: Duration::from_micros(20),
        }
    }
}

/// Runs `f` as a thread of Curtail's: the calling thread becomes a kthread, and others are started,
/// one for each core that the process may use. Ends when `f` has ended, with its result; threads
/// that run still are left where they are, as when a process ends. (Shenango §4: ordinary blocking
/// code, on threads that cost tens of nanoseconds.)
///
/// # Panics
/// If `f` panics; if the calling thread is a kthread already; where the system gives no threads or
/// memory.
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Runtime::builder().run(f)
}

/// How a runtime is to be.
#[derive(Clone, Debug)]
#[must_use]
pub struct RuntimeBuilder {
    kthreads: Option<usize>,
    cores: Option<Vec<usize>>,
    stack_size: usize,
    quantum: Option<Duration>,
    class_quanta: Vec<(u16, Option<Duration>)>,
    spin: Duration,
}

impl RuntimeBuilder {
    /// How many kthreads, from 1 to 64. Default: one for each core that the process may use.
    pub fn kthreads(mut self, count: usize) -> Self {
        self.kthreads = Some(count);
        self
    }

    /// Pins the kthreads to these cores, in turn. Default: they float.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = Some(cores.into());
        self
    }

    /// Bytes of a thread's stack, from 16 KiB to 1 GiB. Default: 256 KiB. Memory that is never
    /// touched costs address space only.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// How long a thread runs at most while others are ready, if the program was built with
    /// safepoints that time themselves (`cargo curtail build`). A thread that comes in during
    /// another's quantum has the rest of that and then its own. Default: threads run until they
    /// block, yield or end.
    pub fn quantum(mut self, quantum: Duration) -> Self {
        self.quantum = Some(quantum);
        self
    }

    /// The quantum of threads of one class ([`Builder::class`]), in whole multiples of the smallest
    /// of all quanta; `None`: they run to completion.
    pub fn class_quantum(mut self, class: u16, quantum: Option<Duration>) -> Self {
        self.class_quanta.retain(|(other, _)| *other != class);
        self.class_quanta.push((class, quantum));
        self
    }

    /// How long a kthread without work looks for some before it sleeps. Default: 20 µs.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Runs `f` as the first thread: see [`run`].
    ///
    /// # Panics
    /// As [`run`], and where the settings make no sense.
    pub fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        assert!(KThread::try_here().is_none(), "curtail::run inside of a runtime");
        let started = self.start();
        let kthread = started.take_seat(0, &self);
        let common = started.common.clone();
        let stop = common.clone();
        let body = move || {
            let _stop = Stop(stop);
            f()
        };
        let main = Builder::new().name("main");
        let main = main.spawn_here(body).expect("memory for the first thread");
        kthread.seat().live(&kthread);
        let result = match main.is_finished() {
            true => main.join(),
            false => unreachable!("kthreads live until the first thread has ended"),
        };
        drop(kthread);
        started.end();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// The first thread has ended, also by a panic.
struct Stop(Arc<Common>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What all kthreads of a runtime share.
pub(super) struct Common {
    pub peers: Box<[Arc<Shared>]>,
    idle: CachePadded<AtomicU64>,
    stop: AtomicBool,
    spin_cycles: u64,
}

impl Common {
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.peers.iter().for_each(|peer| peer.parker.unpark());
    }
}

/// Started kthreads.
struct Started {
    common: Arc<Common>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl RuntimeBuilder {
    fn start(&self) -> Started {
        let count = self.kthreads.unwrap_or_else(|| allowed_cores().len().min(MOST_KTHREADS));
        assert!(
            (1..=MOST_KTHREADS).contains(&count),
            "{count} kthreads: from 1 to {MOST_KTHREADS}"
        );
        let shared = || Shared::new(Arc::new(CachePadded::new(Parker::default())));
        let common = Arc::new(Common {
            peers: (0..count).map(|_| shared()).collect(),
            idle: CachePadded::new(AtomicU64::new(0)),
            stop: AtomicBool::new(false),
            spin_cycles: Clock::get().cycles(self.spin.as_nanos() as u64),
        });
        let mut started = Started { common, threads: Vec::new() };
        for index in 1..count {
            let (own, settings) =
                (Started { common: started.common.clone(), threads: Vec::new() }, self.clone());
            let thread = std::thread::Builder::new().name(format!("curtail-{index}"));
            let thread = thread.spawn(move || {
                let kthread = own.take_seat(index, &settings);
                kthread.seat().live(&kthread);
            });
            match thread {
                Ok(thread) => started.threads.push(thread),
                Err(error) => {
                    started.common.stop();
                    panic!("kthread {index} could not be started: {error}");
                }
            }
        }
        started
    }
}

impl Started {
    /// Makes the calling thread kthread `index`.
    fn take_seat(&self, index: usize, settings: &RuntimeBuilder) -> Box<KThread> {
        if let Some(cores) = &settings.cores
            && let Err(problem) = pin(cores[index % cores.len()])
        {
            tracing::warn!(%problem, kthread = index);
        }
        let seat = Seat {
            index,
            common: self.common.clone(),
            thief: RefCell::new(Thief::new(
                WorkerId(index as u16),
                self.common.peers.len(),
                None,
                clock::now(),
            )),
        };
        let shared = self.common.peers[index].clone();
        let kthread =
            KThread::new(shared, settings.stack_size, Some(seat)).expect("memory for stacks");
        kthread.set_quanta(settings.quanta());
        crate::calls::hook_safepoints();
        kthread
    }

    /// Waits for the other kthreads. One that runs a thread without end is left behind.
    fn end(self) {
        let until = std::time::Instant::now() + PATIENCE;
        for thread in self.threads {
            while !thread.is_finished() && std::time::Instant::now() < until {
                std::thread::park_timeout(Duration::from_micros(50));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::warn!("a kthread is stuck in a thread and was left behind");
            }
        }
    }
}

impl RuntimeBuilder {
    fn quanta(&self) -> Option<Quanta> {
        let all = self.class_quanta.iter().filter_map(|(_, quantum)| *quantum).chain(self.quantum);
        let least = all.min()?;
        assert!(!least.is_zero(), "a quantum of zero");
        if kind() != Kind::Clock {
            tracing::warn!("no pre-emption: this program has no safepoints that time themselves");
            return None;
        }
        let ticks = |quantum: Option<Duration>| {
            quantum.map(|quantum| (quantum.as_nanos() / least.as_nanos()).max(1) as u32)
        };
        Some(Quanta {
            mode: Mode::Clock,
            cycles: Clock::get().cycles(least.as_nanos() as u64),
            usual: ticks(self.quantum),
            by_class: self.class_quanta.iter().map(|&(class, q)| (class, ticks(q))).collect(),
        })
    }
}

/// A kthread's place in its runtime.
pub(crate) struct Seat {
    index: usize,
    pub(super) common: Arc<Common>,
    thief: RefCell<Thief>,
}

impl Seat {
    /// Somebody who sleeps may steal something now.
    #[inline]
    pub(super) fn wake_idle(&self) {
        if self.common.peers.len() > 1 {
            fence(Ordering::SeqCst);
            if self.common.idle.load(Ordering::Relaxed) != 0 {
                self.wake_one();
            }
        }
    }

    #[cold]
    fn wake_one(&self) {
        let mut idle = self.common.idle.load(Ordering::Relaxed);
        while idle != 0 {
            let bit = 1 << idle.trailing_zeros();
            let before = self.common.idle.fetch_and(!bit, Ordering::AcqRel);
            if before & bit != 0 {
                self.common.peers[bit.trailing_zeros() as usize].parker.unpark();
                return;
            }
            idle = before & !bit;
        }
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.common.stop.load(Ordering::Acquire)
    }

    /// The kthread's life, until the first thread has ended.
    fn live(&self, kthread: &KThread) {
        while !self.is_to_stop() {
            kthread.look_around(clock::now());
            if !kthread.run_threads(u32::MAX) && !self.steal(kthread) {
                self.idle(kthread);
            }
        }
    }

    /// Takes threads that have not started from another kthread; true: there was one.
    fn steal(&self, kthread: &KThread) -> bool {
        let peers = &self.common.peers;
        if peers.len() == 1 {
            return false;
        }
        let load = |kthread: WorkerId| Load {
            ready: peers[kthread.index()].stealable() as u32,
            ..Load::default()
        };
        for _ in 0..peers.len() {
            // Somebody else may have been quicker: then it is asked again.
            let Some(theft) = self.thief.borrow_mut().next(load) else { return false };
            let victim = &peers[theft.victim.index()];
            let most = match theft.loot {
                Loot::Half => StealRing::<Tcb>::MOST,
                Loot::One | Loot::Incoming => 1,
            };
            if kthread.steal_from(victim, most) > 0 {
                // Each that finds more than it needs wakes one more.
                if kthread.has_spare_threads() || victim.stealable() > 0 {
                    self.wake_idle();
                }
                return true;
            }
        }
        false
    }

    fn someone_has_work(&self) -> bool {
        self.common.peers.iter().any(|peer| peer.stealable() > 0)
    }

    /// Looks for work for a while, then sleeps until there is some.
    fn idle(&self, kthread: &KThread) {
        let since = clock::now();
        loop {
            for _ in 0..16 {
                if kthread.has_mail() || self.someone_has_work() || self.is_to_stop() {
                    return;
                }
                std::hint::spin_loop();
            }
            let now = clock::now();
            kthread.look_around(now);
            if kthread.has_threads() {
                return;
            }
            if now - since > self.common.spin_cycles {
                break;
            }
        }
        let bit = 1 << self.index;
        self.common.idle.fetch_or(bit, Ordering::SeqCst);
        kthread.rest(|| self.someone_has_work() || self.is_to_stop(), None);
        self.common.idle.fetch_and(!bit, Ordering::AcqRel);
    }
}
