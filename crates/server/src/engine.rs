//! The engine: runs requests, one at a time, on one kthread. A worker is an engine with an inbox; a
//! work-conserving dispatcher has one too.
//!
//! **Who touches it.** Its thread alone, but for its absence (below): the loop around it, and, while a
//! request runs, the hook of the safepoints on that one's stack. The hook works through the same raw
//! pointer, so no `&mut Engine` may be alive while a request runs: [`Engine::run`] takes a pointer and
//! borrows for short stretches.
//!
//! While a handler runs, its thread is *absent* (`Remote::absence`): then the dispatcher may take back
//! jobs that have not started ([`Engine::take_back`]), as it does where the handler is stuck. Whatever
//! comes back from a handler, the hook included, ends the absence first.

mod absence;
mod alone;
mod cancelled;
mod config;
mod counts;
mod end;

mod quantum;
mod run;
mod run_queue;
mod turn;

use crate::dispatched::DispatchedRequest;
use crate::message::{Event, Message};
use crate::remote::Remote;
use alone::Alone;
pub(crate) use config::{Config, ServerShared};
pub(crate) use counts::Counts;
use curtail_fiber::FiberStack;
use curtail_fiber::safepoint::{Mode, Safepoint};
use curtail_policy::{AnyCore, CorePolicy, Job, JobId, Mix, WorkerId};
use curtail_ring::spsc;
use curtail_rt::cancel::Cause;
use curtail_rt::clock::GAP_NS;
use curtail_rt::contain::contain;
use curtail_rt::fences;
use curtail_rt::thread::{KThread, Resumer};
use curtail_rt::timeline;
use curtail_sched::EventKind;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
pub(crate) use turn::{Links, Orders};

/// How often a worker that has work looks for more.
const LOOK_NS: u64 = 1_000;
/// Turns of one kind in a row while the other has something.
const ONE: NonZeroU32 = NonZeroU32::new(1).expect("one");
/// A busy worker takes in what woke up here at least so often.
const AROUND_NS: u64 = 20_000;
/// From one look at everything to the next while safepoints look at some words only.
const CLOSELY_NS: u64 = 10_000;

pub(crate) struct Engine {
    id: WorkerId,
    pub shared: ServerShared,
    pub state: Box<dyn Any>,
    pub config: Config,
    core: AnyCore,
    safepoint: Safepoint,
    resumer: Rc<Resumer>,
    /// For those for whom there is no stack; one at a time.
    reserve: Option<FiberStack>,
    #[allow(clippy::vec_box, reason = "a request has one address for life")]
    spare: Vec<Box<DispatchedRequest>>,
    /// The request of each started job that is here, by job number; null: not started, or not here.
    /// They are made late, so that a long queue of requests touches little memory.
    here: Box<[*mut DispatchedRequest]>,
    /// The messages of the others.
    fresh: Box<[MaybeUninit<Message>]>,
    /// The job that runs, for the hook, and since when (TSC).
    running: *mut DispatchedRequest,
    run_start: u64,
    quantum_cycles: u64,
    alone: Alone,
    /// Quanta had by the unfinished jobs that are here.
    quanta: u64,
    /// To the dispatcher; none: this is its own engine.
    links: Option<Links>,
    /// This thread as a kthread: what its jobs and their threads wait and wake by. It outlives the engine.
    pub(crate) kthread: &'static KThread,
    remote: Arc<Remote>,
    outbox: VecDeque<Event>,
    /// Cancelled jobs that are ready and whose quanta are this worker's affair: they run when nothing
    /// else is ready.
    last: VecDeque<Job>,
    /// To be cancelled as soon as they begin, or come back: by job, arrival and why.
    pending: HashMap<JobId, (u64, Cause)>,
    pub counts: Counts,
    gap_cycles: u64,
    /// Requests and threads, in turn.
    mix: Mix,
    /// Of the configuration that it works by.
    epoch: u32,
    /// Jobs that are ready here and have not started.
    unstarted: usize,
    /// Since when the worker, which has a core, has had nothing to do (TSC); 0: for so long that it gives
    /// the core back, or there is no core allocator.
    idle_tsc: u64,
    /// The running request has no quantum: under a core allocator, it looks now and then what that asks.
    beats: bool,
    /// When to look into the inbox again although there is work (TSC), and how often.
    look_tsc: u64,
    look_cycles: u64,
    /// When to look again at what woke up here (TSC), and how often.
    around_tsc: u64,
    around_cycles: u64,
}

impl Engine {
    /// The engine of this kthread. `links`: `None` for the dispatcher's own.
    pub(crate) fn new(
        id: WorkerId,
        shared: ServerShared,
        config: Config,
        core: AnyCore,
        links: Option<Links>,
        remote: Arc<Remote>,
    ) -> Result<Box<Self>, String> {
        let text = |error: curtail_fiber::StackError| error.to_string();
        let kthread = KThread::here();
        let safepoint = Safepoint::this_thread();
        // SAFETY: the dispatcher, the only user, joins this thread before it lets go of the word.
        let _ = remote.poll.set(unsafe { safepoint.poll() });
        let reserve = Some(kthread.take_stack_for_request().map_err(text)?);
        let state = contain(|| shared.app.setup_worker(shared.in_server(id)));
        let mut engine = Box::new(Self {
            id,
            state: state.ok_or("its setup_worker panicked")?,
            config,
            core,
            safepoint,
            resumer: Rc::default(),
            reserve,
            spare: Vec::new(),
            here: vec![ptr::null_mut(); shared.jobs].into_boxed_slice(),
            fresh: Box::new_uninit_slice(shared.jobs),
            running: ptr::null_mut(),
            run_start: 0,
            quantum_cycles: 0,
            alone: Alone::new(shared.clock.cycles(GAP_NS), shared.clock.cycles(CLOSELY_NS)),
            quanta: 0,
            links,
            kthread,
            remote,
            outbox: VecDeque::with_capacity(256),
            last: VecDeque::new(),
            pending: HashMap::new(),
            counts: Counts::default(),
            gap_cycles: shared.clock.cycles(GAP_NS),
            mix: Mix::new(ONE),
            epoch: 0,
            unstarted: 0,
            idle_tsc: 0,
            beats: false,
            look_tsc: 0,
            look_cycles: shared.clock.cycles(LOOK_NS),
            around_tsc: 0,
            around_cycles: shared.clock.cycles(AROUND_NS),
            shared,
        });
        let queue = Self::run_queue(&raw mut *engine);
        engine.kthread.run_queue.set(Some(queue));
        fences::prepare();
        engine.publish_mail();
        engine.prepare_ticks();
        let this = &raw mut *engine;
        engine.remote.engine.store(this, Ordering::Release);
        Ok(engine)
    }

    /// Makes this thread one that signals can interrupt, if that is wanted.
    fn prepare_ticks(&mut self) {
        if self.config.mode != Mode::Signal {
            return;
        }
        match self.kthread.prepare_signals() {
            Ok(ticker) => drop(self.remote.ticker.set(ticker)),
            Err(error) => {
                tracing::error!(
                    target: "curtail::engine", %error, worker = self.id.0, "no pre-emption by signal"
                );
                self.config.mode = Mode::Off;
            }
        }
    }

    /// Takes what the dispatcher sent and what woke up.
    pub(crate) fn poll(&mut self, now: u64) {
        self.around_tsc = now + self.around_cycles;
        let sent = self.look();
        self.admit_all(sent, now);
        self.kthread.poll(now);
        self.handle_notices();
        while let Some(task) = self.resumer.pop_woken() {
            self.woken(ptr::from_ref(task).cast_mut().cast(), now);
        }
    }

    #[inline]
    fn inbox(&mut self) -> Option<&mut spsc::Consumer<Message>> {
        self.links.as_mut().map(|links| &mut links.inbox)
    }

    /// How many messages there are.
    fn look(&mut self) -> usize {
        self.inbox().map_or(0, spsc::Consumer::len)
    }

    fn admit_all(&mut self, messages: usize, now: u64) {
        for _ in 0..messages {
            if let Some(message) = self.inbox().and_then(spsc::Consumer::pop) {
                self.admit(message, now);
            }
        }
    }

    /// Between two runs: takes in what came, unless that can wait.
    ///
    /// Where the dispatcher has just written to the inbox, a look costs a trip between the cores and
    /// takes the line away from it; and jobs that run in the order in which they became ready need not be
    /// here before their turn. So where there is other work, what a look finds is taken in after the next
    /// run: meanwhile the messages come. What woke up here, by time say, does not wait for long.
    pub(crate) fn poll_if_due(&mut self, now: u64) {
        let in_order = matches!(self.core, AnyCore::Fifo(_)) && !self.kthread.has_mail();
        if !in_order || self.core.is_empty() || now >= self.around_tsc {
            self.look_tsc = now + self.look_cycles;
            return self.poll(now);
        }
        let known = self.links.as_ref().map_or(0, |links| links.inbox.known());
        self.admit_all(known, now);
        if now >= self.look_tsc {
            self.look_tsc = now + self.look_cycles;
            self.look();
        }
    }

    /// What has come meanwhile is looked at soon.
    fn expect_mail(&self) {
        if let Some(links) = &self.links {
            links.inbox.prefetch();
        }
    }

    /// Whether [`Engine::poll_if_due`] will look now or after the next run, if that is short.
    fn looks_soon(&self, now: u64) -> bool {
        self.core.is_empty() || now + self.look_cycles / 2 >= self.look_tsc
    }

    /// Whether a request is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.core.is_empty()
    }

    /// Whether there may be something to take in.
    pub(crate) fn has_mail(&mut self) -> bool {
        self.inbox().is_some_and(|inbox| !inbox.is_empty())
            || self.kthread.has_mail()
            || self.kthread.is_noticed()
            || self.resumer.has_woken()
    }

    /// Whether requests, or the dispatcher's own work, want the processor, on which a thread is.
    pub(crate) fn has_requests(&mut self) -> bool {
        self.links.is_none() || self.has_ready() || self.has_mail()
    }

    /// A job comes here: a new one, or one that goes on.
    pub(crate) fn admit(&mut self, message: Message, now: u64) {
        let index = message.job.0 as usize;
        let job = if message.resume.is_null() {
            self.fresh[index].write(message);
            self.unstarted += 1;
            Job {
                pinned: Some(self.id),
                ..Job::new(message.job, message.class, self.shared.clock.nanos(message.arrived_tsc))
            }
        } else {
            // SAFETY: with the message the request became ours; it does not run.
            let request = unsafe { &mut *message.resume };
            request.message.quantum_cycles = message.quantum_cycles;
            // What blocked, or yielded, has never left; anything else is new here.
            if self.here[index].is_null() {
                self.quanta += u64::from(request.task.cuts());
                self.here[index] = message.resume;
                self.adopt(request);
            }
            if let Some(cause) = message.cause() {
                self.mark(request, cause);
            }
            request.job
        };
        self.core.ready(self.shared.clock.nanos(now), job);
    }

    /// The request is here now.
    fn adopt(&mut self, request: &mut DispatchedRequest) {
        request.engine = self.remote.engine.load(Ordering::Relaxed);
        // SAFETY: it does not run, and is in no queue: the dispatcher has it where it is to go on. What
        // waits for something stays where it is.
        unsafe { self.resumer.adopt(&request.task, &self.kthread.shared) };
    }

    /// A job that was admitted starts.
    fn activate(&mut self, job: Job) -> *mut DispatchedRequest {
        let index = job.id.0 as usize;
        // SAFETY: the core policy picks only what was admitted, and what is not in `here` was
        // admitted with a message, written then.
        let message = unsafe { self.fresh[index].assume_init_read() };
        self.unstarted -= 1;
        let request = match self.spare.pop() {
            Some(spare) => spare.renew(message, job),
            None => DispatchedRequest::new(message, job),
        };
        let request = request.lend();
        // SAFETY: lent right above.
        self.adopt(unsafe { &mut *request });
        self.here[index] = request;
        request
    }

    fn woken(&mut self, request: *mut DispatchedRequest, now: u64) {
        // SAFETY: what waits stays here, so it is ours.
        let (job, last) = unsafe { ((*request).job, (*request).task.tcb().cancel.is_last()) };
        timeline::note(timeline::EventKind::Woken, (now, 0), job.id.0, job.class.0);
        if self.config.central {
            return self.push_event(request, EventKind::Woken, now);
        }
        self.push_event(request, EventKind::Resumed, now);
        match last {
            true => self.last.push_back(job),
            false => self.core.ready(self.shared.clock.nanos(now), job),
        }
    }

    /// The next event for the dispatcher.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.outbox.pop_front()
    }

    /// The counts, at the end.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    pub(crate) fn set_config(&mut self, config: Config) {
        self.shared.set_thread_quanta(&config);
        self.config = config;
    }

    /// Works by another policy from now on; what is ready moves over.
    pub(crate) fn reconfigure(&mut self, config: Config, mut core: AnyCore, now: u64) {
        let now = self.shared.clock.nanos(now);
        while let Some((job, _)) = self.core.pick(now) {
            core.ready(now, job);
        }
        self.core = core;
        self.set_config(config);
        self.prepare_ticks();
    }
}
