//! A runtime's kthreads for a server: started and ended by a thread that gives them requests, and may be
//! one of them itself ([`KthreadPool::join`]).
//!
//! Work comes from outside ([`KthreadPool::submit`]): into the queue of one kthread, of those that others
//! may take from. A kthread whose handler runs for long does not keep what lies there.
//!
//! Under a core allocator the kthreads are elastic (`super::elastic`), and what is handed in counts
//! in the line of the kthread that it is handed to.

use super::Task;
use super::common::Common;
use super::elastic::Elastic;
use super::grace::TaskSettings;
use super::kthread::{GapCounts, KThread, Quanta, Shared};
use super::runtime::SPIN_ELASTIC;
use super::scheduler::KthreadScheduler;
use super::spares::{SPARES, Spares, Stuck};
use super::watchdog::Watched;
use crate::clock::{self, Clock};
use crate::socket::uring::IoPlan;
use crate::topology::{Idle, pin};
use crate::wait;
use curtail_fiber::StackError;
use rustix::time::{ClockId, clock_gettime};
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The target of what is logged here.
const LOG: &str = "curtail::thread::kthread_pool";

/// How long a kthread may take to come back from what it runs, at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// From one look to the next at kthreads that are to end.
const WAKE_AGAIN: Duration = Duration::from_millis(1);

/// How the kthreads are to be.
#[derive(Clone)]
pub struct Plan {
    /// What others know the first of them by, which have the numbers that follow, and the first spare
    /// one.
    pub first: usize,
    pub first_spare: usize,
    /// Each kthread's core; without effect under a core allocator.
    pub cores: Vec<usize>,
    /// Kthreads are not pinned to their cores.
    pub floats: bool,
    pub tasks: TaskSettings,
    pub quanta: Option<Quanta>,
}

/// How a kthread's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct KthreadReport {
    pub total_cycles: u64,
    /// Without work, asleep or looking for some.
    pub idle_cycles: u64,
    /// Processor time, without what was spun away waiting.
    pub busy: Duration,
    /// The machine's.
    pub gaps: GapCounts,
}

struct Started {
    index: usize,
    thread: thread::JoinHandle<()>,
    is_ready: Receiver<Result<(), String>>,
    lived: Receiver<KthreadReport>,
}

/// A runtime's kthreads for a server.
pub struct KthreadPool {
    common: Arc<Common>,
    /// How many it starts: the first of `common`'s. Then come those that are joined, then spare ones.
    count: usize,
    /// What the first one is known as, and the first spare one.
    first: (usize, usize),
    members: Vec<Started>,
    spares: Option<Arc<Spares<Started>>>,
    has_stopped: bool,
}

/// What a kthread keeps until it ends: made and dropped on its thread.
pub type KthreadState = Box<dyn Any>;

impl KthreadPool {
    /// Of `count` kthreads that are to be started, and `joined` that threads of the caller's become.
    /// `elastic`: the core allocator that all of these are registered with.
    pub fn new((count, joined): (usize, usize), idle: Idle, elastic: Option<Arc<Elastic>>) -> Self {
        let all = count + joined;
        let spin_cycles = match &elastic {
            Some(_) => Clock::get().cycles(SPIN_ELASTIC.as_nanos() as u64),
            None => idle.spin_cycles,
        };
        let shares_core = idle.shares_core && elastic.is_none();
        let io = IoPlan::inherited();
        let common = Common::new((all, SPARES), spin_cycles, shares_core, elastic, io);
        let (first, members) = ((0, count), Vec::new());
        Self { common, count, first, members, spares: None, has_stopped: false }
    }

    /// Starts the kthreads. `enter` is called on each one's thread, with its place among the usual ones
    /// and the spare ones after them, before it runs anything.
    ///
    /// # Errors
    /// Which kthread could not be started, and why. Then all have ended.
    pub fn start(
        &mut self,
        plan: &Plan,
        enter: impl Fn(usize) -> Result<KthreadState, String> + Clone + Send + 'static,
    ) -> Result<(), (usize, String)> {
        self.first = (plan.first, plan.first_spare);
        if let Some(elastic) = &self.common.elastic {
            elastic.watch(&self.common);
        }
        for index in 0..self.count {
            let started = start_one(&self.common, (index, index), plan, enter.clone());
            let ended = |_| Err("it ended by a panic of the runtime".to_owned());
            let started = started.map_err(|error| error.to_string()).and_then(|started| {
                started.is_ready.recv().unwrap_or_else(ended).map(|()| started)
            });
            match started {
                Ok(started) => self.members.push(started),
                Err(error) => {
                    self.stop(&mut Vec::new(), |_| {});
                    return Err((index, error));
                }
            }
        }
        let (common, plan, joined) =
            (self.common.clone(), plan.clone(), self.common.usual - self.count);
        self.spares = Some(Spares::new(&self.common, move |seat| {
            start_one(&common, (seat - joined, seat), &plan, enter.clone())
        }));
        Ok(())
    }

    /// Where a kthread sits: one that it starts, or a spare one after those.
    fn seat(&self, index: usize) -> usize {
        if index < self.count { index } else { self.common.usual + index - self.count }
    }

    /// Makes the calling thread one of the kthreads that are not started, from now on and until the
    /// answer is dropped. It does not run the kthread's own loop.
    ///
    /// # Errors
    /// There is no memory for stacks.
    pub fn join(
        &self,
        index: usize,
        tasks: TaskSettings,
        quanta: Option<Quanta>,
    ) -> Result<Box<KThread>, StackError> {
        debug_assert!(index >= self.count);
        KthreadScheduler::take(&self.common, index, tasks, quanta)
    }

    /// What others may touch of a kthread.
    pub fn peer(&self, index: usize) -> &Arc<Shared> {
        &self.common.peers[self.seat(index)]
    }

    /// What others may touch of the first kthread that is joined.
    pub fn joined(&self) -> &Arc<Shared> {
        &self.common.peers[self.count]
    }

    /// Under which core allocator they are.
    pub fn elastic(&self) -> Option<&Arc<Elastic>> {
        self.common.elastic.as_ref()
    }

    /// The kthreads that it starts, for the watchdog.
    pub fn watched(&self) -> Watched {
        let kthreads = (0..self.count + SPARES).map(|index| self.peer(index).clone()).collect();
        Watched { kthreads, usual: self.count, first: self.first.0, first_spare: self.first.1 }
    }

    /// What starts spare kthreads where the watchdog finds all others stuck.
    pub fn spares(&self) -> impl Fn(Stuck) + Send + use<> {
        let spares = self.spares.clone();
        move |stuck| spares.iter().for_each(|spares| spares.look(stuck))
    }

    /// What starts a spare kthread, if there is a place.
    pub fn start_spare(&self) -> impl Fn() -> bool + Send + use<> {
        let spares = self.spares.clone();
        move || spares.as_ref().is_some_and(|spares| spares.start())
    }

    /// How many kthreads it starts at the beginning.
    #[allow(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// How many have been started, spare ones included.
    pub fn started(&self) -> usize {
        self.count + self.spares.as_ref().map_or(0, |spares| spares.started())
    }

    /// A thread is to start on this kthread, or on one that takes it from there.
    ///
    /// # Safety
    /// [`Task::renew`] was called, and it has not been handed in since.
    #[inline]
    pub unsafe fn submit(&self, index: usize, task: *mut Task) {
        // SAFETY: by contract.
        self.common.peers[index].submit(unsafe { &*task }.tcb());
        self.common.wake_for(index);
    }

    /// Has all kthreads look which of their requests are cancelled.
    pub fn notify_all(&self) {
        self.common.notify_all();
    }

    /// How many threads have started on the kthreads that it starts, and have not ended.
    fn alive(&self) -> usize {
        (0..self.count + SPARES).map(|index| self.peer(index).alive()).sum()
    }

    /// Whether a kthread has a core, as far as that is the core allocator's affair.
    pub fn has_core(&self, index: usize) -> bool {
        !self.peer(index).is_parked()
    }

    /// Whether a core allocator has given a core to a kthread since that time (TSC), or has got one back.
    pub fn has_moved_since(&self, tsc: u64) -> bool {
        self.common.peers.iter().any(|peer| peer.moved_tsc() >= tsc)
    }

    /// The kernel's number of a kthread.
    pub fn tid(&self, index: usize) -> Option<u32> {
        self.peer(index).tid().map(i32::cast_unsigned)
    }

    /// How often threads of a kthread were made to yield.
    pub fn cuts(&self, index: usize) -> u64 {
        self.peer(index).cuts()
    }

    /// Waits until no thread is left, for `most` at most.
    pub fn settle(&self, most: Duration) {
        let until = Instant::now() + most;
        let rests = || self.common.peers.iter().any(|peer| peer.stealable() + peer.batch() > 0);
        while (self.alive() > 0 || rests()) && Instant::now() < until {
            thread::park_timeout(Duration::from_micros(100));
        }
        if self.alive() > 0 {
            tracing::warn!(
                target: LOG, threads = self.alive(), "left behind when the server ended"
            );
        }
    }

    /// Ends the kthreads; how their time went. One that never comes back (a handler in an endless
    /// loop without a safepoint) is left behind, and that is said. `nudge` is called again and again with
    /// one that does not come: to have what runs there yield.
    pub fn stop(&mut self, notes: &mut Vec<String>, nudge: impl Fn(usize)) -> Vec<KthreadReport> {
        self.has_stopped = true;
        self.common.stop();
        let mut lives = Vec::new();
        let until = Instant::now() + PATIENCE;
        let mut members = std::mem::take(&mut self.members);
        members.extend(self.spares.iter().flat_map(|spares| spares.take()));
        for started in members {
            let index = started.index;
            let number = self.watched().number(index);
            match self.wait_for(&started, until, || nudge(index)) {
                Ok(lived) => {
                    lives.push(lived);
                    let _ = started.thread.join();
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = started.thread.join();
                    let error = started.is_ready.try_recv().ok().and_then(Result::err);
                    let error = error.as_deref().unwrap_or("it ended by a panic of the runtime");
                    notes.push(format!("worker {number}: {error}"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Its other threads and requests run no more, whenever it comes back.
                    self.peer(index).give_up();
                    wait::forget(self.peer(index), |tcb| tcb.resumed().is_some());
                    notes
                        .push(format!("worker {number} is stuck in a request and was left behind"));
                }
            }
        }
        if let Some(elastic) = &self.common.elastic {
            elastic.end();
        }
        lives
    }

    /// Waits for what a kthread reports at its end. One without a core may have gone to sleep when it
    /// was woken already.
    fn wait_for(
        &self,
        started: &Started,
        until: Instant,
        nudge: impl Fn(),
    ) -> Result<KthreadReport, RecvTimeoutError> {
        loop {
            nudge();
            let left = until.saturating_duration_since(Instant::now());
            let most = left.min(WAKE_AGAIN);
            match started.lived.recv_timeout(most) {
                Err(RecvTimeoutError::Timeout) if most < left => self.common.wake_parked(),
                report => return report,
            }
        }
    }

    /// Gives back those that were handed in and have not started. After [`KthreadPool::stop`].
    pub fn never_started(&self, mut take: impl FnMut(*mut Task)) {
        for peer in &self.common.peers {
            // SAFETY: what is in a queue is alive. A thread that a handler spawned is left there.
            peer.clear_out(|tcb| match unsafe { (*tcb).task.get() } {
                task if task.is_null() => {}
                task => take(task.cast_mut()),
            });
        }
    }
}

impl Drop for KthreadPool {
    /// Its kthreads end, where they have not, and it leaves the core allocator.
    fn drop(&mut self) {
        if !self.has_stopped {
            self.stop(&mut Vec::new(), |_| {});
        }
    }
}

fn start_one(
    common: &Arc<Common>,
    (index, seat): (usize, usize),
    plan: &Plan,
    enter: impl FnOnce(usize) -> Result<KthreadState, String> + Send + 'static,
) -> io::Result<Started> {
    let (common, tasks, quanta) = (common.clone(), plan.tasks, plan.quanta.clone());
    let (floats, core) = (plan.floats, plan.cores[index % plan.cores.len()]);
    let number = match seat.checked_sub(common.usual) {
        None => plan.first + index,
        Some(spare) => plan.first_spare + spare,
    };
    let (ready, is_ready) = sync_channel(1);
    let (report, lived): (SyncSender<KthreadReport>, _) = sync_channel(1);
    let life = move || {
        if common.elastic.is_none()
            && !floats
            && let Err(problem) = pin(core)
        {
            tracing::warn!(target: LOG, %problem, worker = number);
        }
        let kthread = match KthreadScheduler::take(&common, seat, tasks, quanta) {
            Ok(kthread) => kthread,
            Err(error) => return drop(ready.send(Err(error.to_string()))),
        };
        match enter(index) {
            Ok(kept) => {
                let _ = ready.send(Ok(()));
                let _ = report.send(live(&kthread));
                drop(kept);
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    };
    let thread = thread::Builder::new().name(format!("curtail-{number}")).spawn(life)?;
    Ok(Started { index, thread, is_ready, lived })
}

fn live(kthread: &KThread) -> KthreadReport {
    let born = clock::now();
    let scheduler = kthread.scheduler();
    scheduler.live(kthread);
    let idle = scheduler.idleness();
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let busy = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    let spun = Duration::from_nanos(Clock::get().ns(idle.spun_cycles));
    KthreadReport {
        total_cycles: clock::now() - born,
        idle_cycles: idle.cycles,
        busy: busy.saturating_sub(spun),
        gaps: kthread.gaps(),
    }
}
