//! A dispatcher with its workers: one of several, or the only one. Domains share nothing but the
//! application, and transports that all poll ([`crate::spread`]).
//!
//! A domain is made by the thread that builds the server, and run on the thread that becomes its
//! dispatcher.

use super::{Handle, Rules, RunError, workers};
use crate::app::ErasedApp;
use crate::ask::{Asker, EntryState};
use crate::classify::Classifier;
use crate::control::{Control, Obeyed};
use crate::dispatcher::{Dispatcher, DispatcherConfig, Elastic, own_config, thread_mode};
use crate::engine::{Engine, ServerShared};
use crate::jobs::ByteQuota;
use crate::message::JobBuffers;
use crate::remote::Remote;
use crate::report::Part;
use crate::transport_loop::{LoopConfig, TransportLoop};
use curtail_fiber::safepoint::{Kind as SafepointKind, Mode};
use curtail_net::{Transport, Waiter};
use curtail_policy::{Spec, WorkerId};
use curtail_rt::clock;
use curtail_rt::context::NEVER;
use curtail_rt::preempt::{Choice, Preempt};
use curtail_rt::thread::{
    AllocatorConfig, KThread, KthreadPool, Quanta, SPARES, Stuck, TaskSettings, Watch, Watching,
};
use curtail_rt::topology::{Layout, pin};
use curtail_sched::Setup;
use curtail_sched::record::Tap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

/// What all domains of a server have.
pub(super) struct Settings<'a> {
    pub app: Arc<dyn ErasedApp>,
    pub spec: &'a Spec,
    pub layout: &'a Layout,
    /// What kind of pre-emption was asked for.
    pub wished: Preempt,
    pub capacity: usize,
    /// Bytes of requests in the system of each dispatcher.
    pub memory: usize,
    /// Each class has room for itself.
    pub keeps_room: bool,
    pub tasks: TaskSettings,
    pub migratable: bool,
    pub drain: Duration,
    pub seed: u64,
    pub watchdog: &'a Watching,
    /// About a core allocator.
    pub allocator_config: &'a AllocatorConfig,
    pub rules: Arc<Rules>,
    /// Of classes of threads that handlers spawn, in cycles.
    pub thread_quanta: &'a [(u16, Option<u64>)],
    pub kind: SafepointKind,
    pub choice: Choice,
    pub busy: bool,
}

impl Settings<'_> {
    /// How threads without a quantum look whether their core is wanted elsewhere.
    pub(super) fn beats(&self) -> Option<Quanta> {
        self.allocator_config.beats(self.kind)
    }

    /// How threads that handlers spawn are pre-empted, but for the policy's quantum.
    pub(super) fn quanta(&self, mode: Mode) -> Quanta {
        Quanta::of_all(mode, 0, false).with_classes(self.thread_quanta.iter().copied())
    }

    /// `busy`: the loop never sleeps.
    pub(super) fn loop_config(&self, busy: bool) -> LoopConfig {
        LoopConfig {
            wished: self.wished,
            kind: self.kind,
            choice: self.choice.clone(),
            busy,
            shares_core: !self.layout.dedicated,
        }
    }
}

/// A domain that is ready to run.
pub(super) struct Domain {
    pub index: usize,
    /// Its workers, by their numbers in the server.
    pub workers: Range<usize>,
    /// Its workers as kthreads, and where there is a dispatcher, that after them.
    pub kthreads: KthreadPool,
    pub control: Obeyed,
    pub waiter: Waiter,
    pub remote: Arc<Remote>,
}

impl Domain {
    /// `remote`: of the thread that it runs on.
    pub(super) fn new(
        (index, workers): (usize, Range<usize>),
        (kthreads, remote): (KthreadPool, Remote),
        waiter: Waiter,
    ) -> Self {
        let remote = Arc::new(remote);
        remote.parker.set_bell(Arc::new(waiter.waker()));
        let control = Obeyed(Arc::new(Control::new(remote.clone())));
        Self { index, workers, kthreads, control, waiter, remote }
    }

    fn server_shared(
        &self,
        common: &Settings<'_>,
        transports: &[Box<dyn Transport>],
    ) -> ServerShared {
        ServerShared {
            app: common.app.clone(),
            buffers: Arc::new(JobBuffers::new(common.capacity)),
            replies: transports.iter().map(|line| line.reply()).collect(),
            clock: clock::Clock::get(),
            thread_quanta: common.quanta(thread_mode(common.kind)),
            beat: self.kthreads.elastic().and_then(|_| common.allocator_config.beat(common.kind)),
            jobs: common.capacity,
            rules: common.rules.clone(),
            control: self.control.0.clone(),
            index: self.index as u64,
            deadlines: (0..common.capacity).map(|_| AtomicU64::new(NEVER)).collect(),
            workers: self.workers.len() as u16,
            first_worker: self.workers.start as u16,
            first_spare: (common.layout.workers.len() + self.index * SPARES) as u16,
        }
    }

    /// Makes the calling thread the dispatcher's kthread.
    fn join(&self, common: &Settings<'_>, quanta: Option<Quanta>) -> Result<Box<KThread>, String> {
        let kthread = self.kthreads.join(self.workers.len(), common.tasks, quanta);
        let kthread = kthread.map_err(|error| error.to_string())?;
        if let Some(client) = kthread.client() {
            client.hold(&self.waiter);
        }
        Ok(kthread)
    }

    /// Runs, on the calling thread, until all is done.
    pub(super) fn run(
        self,
        common: &Settings<'_>,
        transports: Vec<Box<dyn Transport>>,
        tap: Option<Tap>,
    ) -> Result<Part, RunError> {
        let Settings { layout, choice, capacity, .. } = common;
        let shared = self.server_shared(common, &transports);
        let config = own_config(common.spec, choice, common.kind);
        let quanta = Some(shared.thread_quanta.clone());
        shared.set_thread_quanta(&config);
        let failed = |error| RunError::Worker { worker: WorkerId::DISPATCHER, error };
        let _kthread = self.join(common, quanta.clone()).map_err(failed)?;
        let core = common.spec.build_core(*capacity);
        let (id, remote) = (WorkerId::DISPATCHER, self.remote.clone());
        let mut own =
            Engine::new(id, shared.clone(), config, core, None, remote).map_err(failed)?;
        let classes = shared.app.classes();
        let asker = asker(common, classes.len())?;
        let cores = (&layout.workers[self.workers.clone()], quanta);
        let (links, spares, workers) =
            workers::start(common, self.kthreads, cores, (&self.remote, &shared))?;
        let _watch = watch(common, &workers.kthreads, &self.control.0);
        let mut notes = Vec::new();
        if let Some(Err(problem)) = layout.dispatchers.get(self.index).copied().map(pin) {
            notes.push(problem);
        }
        let patience =
            Duration::from_nanos(shared.clock.ns(layout.idle(&shared.clock).patience_cycles));
        let names = classes.into_iter().map(|class| class.name).chain(["unknown".to_owned()]);
        let names: Vec<String> = names.collect();
        let byte_quota = ByteQuota::new(common.memory, names.len() - 1, common.keeps_room);
        let setup = setup(common, self.index, links.len());
        let entry = EntryState::new(asker, names, shared.replies.clone());
        let own_links = (self.control.0.clone(), self.remote, self.waiter);
        let base =
            TransportLoop::new(common.loop_config(common.busy), entry, transports, own_links);
        let config = DispatcherConfig {
            shared,
            workers: links,
            spares,
            own: &raw mut *own,
            elastic: workers.kthreads.elastic().map(|_| Elastic::here()),
            byte_quota,
        };
        let mut dispatcher = Dispatcher::new(config, base, setup, tap);
        let begun = clock::now();
        let ended = catch_unwind(AssertUnwindSafe(|| dispatcher.run(common.drain)));
        let watched = clock::now() - begun;
        drop(self.control);
        if dispatcher.holds_begun() {
            common.rules.note_left();
        }
        if ended.is_ok() && dispatcher.in_system() == 0 {
            workers.kthreads.settle(patience);
        }
        let reports = workers.stop(&mut notes);
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
        Ok(Part::new(dispatcher, reports, own.take_counts(), watched, notes))
    }
}

fn setup(common: &Settings<'_>, index: usize, workers: usize) -> Setup {
    Setup {
        spec: common.spec.clone(),
        workers,
        jobs: common.capacity,
        seed: common.seed.wrapping_add(index as u64),
        pins: !common.migratable,
        keeps_room: common.keeps_room,
    }
}

/// What the dispatcher asks the application with, on the calling thread.
fn asker(common: &Settings<'_>, classes: usize) -> Result<Asker, RunError> {
    let classifier = Arc::new(Classifier::new(common.app.clone(), classes));
    let asker = Asker::new(
        (common.app.clone(), common.rules.clone()),
        classifier,
        common.tasks.stack_size,
        common.memory,
    );
    asker.map_err(|error| RunError::Worker { worker: WorkerId::DISPATCHER, error })
}

/// Has the workers watched, as long as the answer lives.
fn watch(common: &Settings<'_>, kthreads: &KthreadPool, control: &Arc<Control>) -> Option<Watch> {
    let (one, all, spares) = (control.clone(), control.clone(), kthreads.spares());
    let is_stuck = move |worker, picks| one.tell_stuck(worker, picks);
    let looked = move |stuck: Stuck| {
        spares(stuck);
        if stuck.usual {
            all.tell_all_stuck(stuck.all);
        }
    };
    common.watchdog.watch(kthreads.watched(), common.choice.mode(), is_stuck, looked)
}

/// Ends all domains when one cannot go on: without it the others are no whole server.
struct Together<'a>(&'a Handle);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// Runs the first domain on the calling thread and the others on threads of their own, each with its
/// share of the transports, and its tap if there are some. Returns when all have ended.
pub(super) fn run_all(
    domains: Vec<(Vec<Box<dyn Transport>>, Domain)>,
    common: &Settings<'_>,
    handle: &Handle,
    taps: Vec<Tap>,
) -> Result<Vec<Part>, RunError> {
    let run = |domain: Domain, lines, tap| {
        let together = Together(handle);
        let part = domain.run(common, lines, tap)?;
        // It has ended as it should, and so will the others by themselves.
        std::mem::forget(together);
        Ok(part)
    };
    thread::scope(|scope| {
        let (mut domains, mut taps) = (domains.into_iter(), taps.into_iter());
        let tap = taps.next();
        let (own_lines, first) = domains.next().expect("there is one at least");
        let mut others = Vec::new();
        for (lines, domain) in domains {
            let (dispatcher, run, tap) = (domain.index, &run, taps.next());
            let thread = thread::Builder::new().name(format!("dispatcher-{dispatcher}"));
            match thread.spawn_scoped(scope, move || run(domain, lines, tap)) {
                Ok(thread) => others.push(thread),
                Err(error) => {
                    handle.shutdown();
                    return Err(RunError::Dispatcher { dispatcher, error });
                }
            }
        }
        let first = run(first, own_lines, tap);
        let others = others.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => resume_unwind(panic),
        });
        // All have ended before the first error is reported.
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        all.into_iter().collect()
    })
}
