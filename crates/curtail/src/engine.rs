//! The engine: runs jobs on fibers, one at a time, on one thread. A worker is an engine with an
//! inbox; a work-conserving dispatcher has one too.
//!
//! **Who touches it.** Its thread alone: the loop around it, and, while a fiber runs, the yield
//! hook on that fiber's stack. The hook works through the same raw pointer, so no `&mut Engine` may
//! be alive while a fiber runs: [`Engine::run`] takes a pointer and borrows for short stretches.

use crate::Response;
use crate::app::ErasedApp;
use crate::clock::{self, Clock};
use crate::message::{Envelopes, Event, Message, What};
use crate::remote::Remote;
use curtail_fiber::safepoint::{Block, Mode, Safepoint};
use curtail_fiber::{Fiber, Label, StackPool, Suspend, Task};
use curtail_net::{Outcome, Reply};
use curtail_policy::{AnyCore, CorePolicy, Job, JobId, Nanos, WorkerId};
use curtail_ring::{mpsc, spsc};
use hdrhistogram::Histogram;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A gap in the TSC longer than this, that no code of ours made, is the machine's.
pub(crate) const GAP_NS: u64 = 5_000;

/// A job on a worker: from its first run until it has left, through all yields.
pub(crate) struct Activation {
    message: Message,
    job: Job,
    fiber: Option<Fiber>,
    response: Response,
    request: *const [u8],
    app: *const dyn ErasedApp,
    state: *const dyn Any,
    started_tsc: u64,
    ran_cycles: u64,
    preemptions: u32,
    /// Critical-section depth while it does not run.
    depth: u32,
}

/// How an engine is to work; changes while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub mode: Mode,
    /// Pre-empted jobs go back to the dispatcher.
    pub central: bool,
    /// The dispatcher reads `serviced`.
    pub report_serviced: bool,
}

/// What an engine shares with the rest of its server.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub app: Arc<dyn ErasedApp>,
    pub envelopes: Arc<Envelopes>,
    pub replies: Arc<[Arc<dyn Reply>]>,
    pub clock: Clock,
    pub stack_size: usize,
    pub jobs: usize,
}

/// Counts of one engine.
pub(crate) struct Counts {
    pub app_cycles: u64,
    pub preemptions: u64,
    pub late_ns: Histogram<u64>,
    pub gaps: u64,
    pub gap_cycles: u64,
    pub last_gap_tsc: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            app_cycles: 0,
            preemptions: 0,
            late_ns: crate::stats::histogram(3),
            gaps: 0,
            gap_cycles: 0,
            last_gap_tsc: 0,
        }
    }
}

impl Counts {
    pub(crate) fn gap(&mut self, cycles: u64, end_tsc: u64) {
        self.gaps += 1;
        self.gap_cycles += cycles;
        self.last_gap_tsc = end_tsc;
    }
}

pub(crate) struct Engine {
    id: WorkerId,
    around: Surroundings,
    state: Box<dyn Any>,
    pub config: Config,
    core: AnyCore,
    safepoint: Safepoint,
    stacks: StackPool,
    fibers: Vec<Fiber>,
    spare: Vec<Box<Activation>>,
    /// The activation of each job that is here, by job number; null: not here.
    here: Box<[*mut Activation]>,
    /// The job that runs, for the hook, and since when (TSC).
    running: *mut Activation,
    run_start: u64,
    quantum_cycles: u64,
    /// Quanta had by the unfinished jobs that are here.
    quanta: u64,
    inbox: Option<spsc::Consumer<Message>>,
    wakes: mpsc::Receiver<JobId>,
    remote: Arc<Remote>,
    outbox: VecDeque<Event>,
    pub counts: Counts,
    gap_cycles: u64,
}

thread_local! {
    static ENGINE: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

impl Engine {
    /// The engine of this thread. `inbox`: `None` for the dispatcher's own.
    pub(crate) fn new(
        id: WorkerId,
        around: Surroundings,
        config: Config,
        core: AnyCore,
        inbox: Option<spsc::Consumer<Message>>,
        (remote, wakes): (Arc<Remote>, mpsc::Receiver<JobId>),
    ) -> Result<Box<Self>, curtail_fiber::StackError> {
        curtail_fiber::prepare_thread();
        assert!(crate::pthread::is_linked());
        let safepoint = Safepoint::this_thread();
        safepoint.set_hook(Some(on_safepoint));
        // SAFETY: the dispatcher, the only user, joins this thread before it lets go of the word.
        let _ = remote.poll.set(unsafe { safepoint.poll() });
        let mut engine = Box::new(Self {
            id,
            state: around.app.setup_worker(id),
            config,
            core,
            safepoint,
            stacks: StackPool::new(around.stack_size)?,
            fibers: Vec::new(),
            spare: Vec::new(),
            here: vec![ptr::null_mut(); around.jobs].into_boxed_slice(),
            running: ptr::null_mut(),
            run_start: 0,
            quantum_cycles: 0,
            quanta: 0,
            inbox,
            wakes,
            remote,
            outbox: VecDeque::with_capacity(256),
            counts: Counts::default(),
            gap_cycles: around.clock.cycles(GAP_NS),
            around,
        });
        ENGINE.set(&raw mut *engine);
        Ok(engine)
    }

    /// Takes what the dispatcher sent and what woke up.
    pub(crate) fn take_in(&mut self, now: u64) {
        while let Some(message) = self.inbox.as_mut().and_then(spsc::Consumer::pop) {
            self.admit(message, now);
        }
        while let Some(job) = self.wakes.pop() {
            self.woken(job, now);
        }
    }

    /// Whether there may be something to take in.
    pub(crate) fn has_mail(&mut self) -> bool {
        self.inbox.as_mut().is_some_and(|inbox| !inbox.is_empty()) || !self.wakes.is_empty()
    }

    /// A job comes here: a new one, or one that goes on.
    pub(crate) fn admit(&mut self, message: Message, now: u64) {
        let activation = if message.resume.is_null() {
            self.activate(message)
        } else {
            // SAFETY: with the message its activation became ours.
            unsafe { (*message.resume).message.quantum_cycles = message.quantum_cycles };
            message.resume
        };
        // SAFETY: `activation` is live and ours.
        let (job, quanta) = unsafe { ((*activation).job, (*activation).preemptions) };
        // A woken job never left; everything else is new here.
        if self.here[message.job.0 as usize].is_null() {
            self.quanta += u64::from(quanta);
            self.here[message.job.0 as usize] = activation;
        }
        self.core.ready(self.around.clock.nanos(now), job);
    }

    fn activate(&mut self, message: Message) -> *mut Activation {
        let job = Job {
            id: message.job,
            class: message.class,
            arrived: self.around.clock.nanos(message.arrived_tsc),
            attained: Nanos::ZERO,
            pinned: Some(self.id),
            hint: None,
        };
        let mut activation = self.spare.pop().unwrap_or_else(|| {
            Box::new(Activation {
                message,
                job,
                fiber: None,
                response: Response::default(),
                request: ptr::slice_from_raw_parts(ptr::null(), 0),
                app: Arc::as_ptr(&self.around.app),
                state: &raw const *self.state,
                started_tsc: 0,
                ran_cycles: 0,
                preemptions: 0,
                depth: 0,
            })
        });
        activation.message = message;
        activation.job = job;
        activation.ran_cycles = 0;
        activation.preemptions = 0;
        activation.started_tsc = 0;
        Box::into_raw(activation)
    }

    fn woken(&mut self, job: JobId, now: u64) {
        let activation = self.here[job.0 as usize];
        assert!(!activation.is_null(), "a wake-up for {job:?}, which is not on {}", self.id);
        if self.config.central {
            self.tell(activation, What::Woken, now);
        } else {
            self.tell(activation, What::Resumed, now);
            // SAFETY: it is here, hence ours.
            self.core.ready(self.around.clock.nanos(now), unsafe { (*activation).job });
        }
    }

    /// The next job to run and its quantum in cycles (0: to completion).
    fn pick(&mut self, now: u64) -> Option<(*mut Activation, u64)> {
        let (job, quantum) = self.core.pick(self.around.clock.nanos(now))?;
        let activation = self.here[job.id.0 as usize];
        // SAFETY: what the core policy holds is here, hence ours.
        let own = unsafe { (*activation).message.quantum_cycles };
        let cycles = match (own, quantum) {
            (0, Some(quantum)) => self.around.clock.cycles(quantum.0),
            (own, _) => own,
        };
        Some((activation, cycles))
    }

    /// Runs the next ready job until it gives up the thread. `now`: a fresh TSC reading. Returns the
    /// TSC at the end; `None`: nothing is ready.
    ///
    /// # Safety
    /// `this` is this thread's engine; the caller holds no reference into it.
    pub(crate) unsafe fn run(this: *mut Self, now: u64) -> Option<u64> {
        // SAFETY: exclusive until the fiber is entered.
        let (activation, fiber, first) = unsafe { (*this).prepare(now)? };
        // SAFETY: the fiber is the activation's; `on_safepoint`, which runs on it, does not touch
        // the `Fiber`. The task's argument, the activation, lives until the job has left.
        let why = unsafe {
            match first {
                Some(label) => {
                    (*fiber).start(Task { run: serve, argument: activation.cast() }, label)
                }
                None => (*fiber).resume(),
            }
        };
        let end = clock::now();
        // SAFETY: the fiber is suspended or idle: exclusive again.
        unsafe { (*this).conclude(activation, why, now, end) };
        Some(end)
    }

    /// Up to the switch: arms the safepoints. The label: this is the job's first run.
    fn prepare(&mut self, now: u64) -> Option<(*mut Activation, *mut Fiber, Option<Label>)> {
        let (pointer, quantum) = self.pick(now)?;
        self.running = pointer;
        self.run_start = now;
        self.quantum_cycles = quantum;
        // SAFETY: ours, and its fiber does not run.
        let activation = unsafe { &mut *pointer };
        let first = activation.fiber.is_none().then(|| {
            activation.started_tsc = now;
            activation.request = self.request_of(&activation.message);
            activation.app = Arc::as_ptr(&self.around.app);
            activation.state = &raw const *self.state;
            Label {
                job: u64::from(activation.job.id.0),
                class: activation.job.class.0,
                worker: self.id.0,
                stack_bytes: 0,
            }
        });
        if first.is_some() {
            activation.fiber = Some(self.fibers.pop().unwrap_or_else(|| {
                Fiber::new(&mut self.stacks).unwrap_or_else(|error| {
                    panic!("{} cannot start another request: {error}", self.id)
                })
            }));
        }
        self.safepoint.replace_depth(activation.depth);
        self.arm(now);
        let fiber: *mut Fiber = activation.fiber.as_mut().expect("set above");
        Some((pointer, fiber, first))
    }

    fn armed(&self) -> bool {
        self.quantum_cycles != 0 && self.config.mode != Mode::Off
    }

    /// Work that ends long after its deadline was interrupted by the machine: safepoints are close.
    fn note_late(&mut self, now: u64) {
        let late = now.saturating_sub(self.safepoint.deadline());
        if late > self.gap_cycles {
            self.counts.gap(late, now);
        }
    }

    fn arm(&mut self, now: u64) {
        if !self.armed() {
            return;
        }
        self.safepoint.arm(self.config.mode, now, now + self.quantum_cycles);
        if self.config.mode == Mode::Flag {
            self.remote.progress.running.store(now, Ordering::Release);
        }
    }

    fn disarm(&mut self) {
        if !self.armed() {
            return;
        }
        self.safepoint.disarm();
        if self.config.mode == Mode::Flag {
            self.remote.progress.running.store(0, Ordering::Relaxed);
        }
    }

    fn request_of(&self, message: &Message) -> *const [u8] {
        if message.inline == Message::IN_ENVELOPE {
            // SAFETY: we hold the job's message; the envelope stays untouched until it has left.
            unsafe { &raw const *self.around.envelopes.get(message.job).payload }
        } else {
            ptr::null::<u8>() as *const [u8; 0] as *const [u8] // the message's own; see `serve`
        }
    }

    /// After the switch back.
    fn conclude(&mut self, pointer: *mut Activation, why: Suspend, start: u64, end: u64) {
        if self.armed() && !matches!(why, Suspend::Preempted) {
            self.note_late(end);
        }
        self.disarm();
        self.running = ptr::null_mut();
        let ran = end.saturating_sub(start);
        self.counts.app_cycles += ran;
        // SAFETY: ours; its fiber does not run.
        let activation = unsafe { &mut *pointer };
        activation.ran_cycles += ran;
        activation.depth = self.safepoint.replace_depth(0);
        match why {
            Suspend::Done => self.end(pointer, Outcome::Done, end),
            Suspend::Panicked(_) => {
                self.answer_failure(activation);
                self.end(pointer, Outcome::Failed, end);
            }
            Suspend::Preempted => {
                activation.preemptions += 1;
                activation.job.attained = self.around.clock.nanos(activation.ran_cycles);
                if self.config.central {
                    self.send_back(pointer, end);
                } else {
                    self.core.ready(self.around.clock.nanos(end), activation.job);
                }
            }
            // The dispatcher runs one of its jobs only when the policy says so again.
            Suspend::Yielded if self.inbox.is_none() => self.send_back(pointer, end),
            Suspend::Yielded => self.core.ready(self.around.clock.nanos(end), activation.job),
            Suspend::Blocked => self.tell(pointer, What::Blocked, end),
        }
        if self.config.report_serviced {
            self.remote.progress.serviced.store(self.quanta, Ordering::Relaxed);
        }
    }

    fn answer_failure(&self, activation: &mut Activation) {
        activation.response.clear();
        let request = activation_request(activation);
        let response = &mut activation.response;
        // SAFETY: the request's bytes are the message's or the envelope's, both ours until the job
        // has left; the response is another field.
        let request = unsafe { &*request };
        if catch_unwind(AssertUnwindSafe(|| self.around.app.failed(request, response))).is_err() {
            activation.response.clear();
        }
    }

    /// The job has left: answers, tells, and keeps what can be used again.
    fn end(&mut self, pointer: *mut Activation, outcome: Outcome, end: u64) {
        self.tell(pointer, What::Ended(outcome), end);
        // SAFETY: ours, made by `Box::into_raw` in `activate`, and taken out of `here` right below;
        // the pointer in the event of an ended job is null.
        let mut activation = unsafe { Box::from_raw(pointer) };
        self.leave(activation.job.id);
        let message = &activation.message;
        if message.reply && !activation.response.as_bytes().is_empty() {
            // SAFETY: the job is still ours: its event is not sent yet.
            let envelope = unsafe { self.around.envelopes.get(message.job) };
            self.around.replies[usize::from(envelope.transport)]
                .reply(envelope.peer, activation.response.as_bytes());
        }
        activation.response.clear();
        activation.depth = 0;
        self.quanta -= u64::from(activation.preemptions);
        self.fibers.extend(activation.fiber.take());
        self.spare.push(activation);
    }

    /// The job goes back to the dispatcher, with its activation.
    fn send_back(&mut self, pointer: *mut Activation, end: u64) {
        // SAFETY: ours until the event is sent.
        let (job, quanta) = unsafe { ((*pointer).job.id, (*pointer).preemptions) };
        self.quanta -= u64::from(quanta);
        self.tell(pointer, What::Yielded, end);
        self.leave(job);
    }

    fn leave(&mut self, job: JobId) {
        self.here[job.0 as usize] = ptr::null_mut();
    }

    fn tell(&mut self, pointer: *mut Activation, what: What, at_tsc: u64) {
        // SAFETY: the activation is ours.
        let activation = unsafe { &*pointer };
        self.outbox.push_back(Event {
            job: activation.job.id,
            what,
            preemptions: activation.preemptions,
            started_tsc: activation.started_tsc,
            at_tsc,
            ran_cycles: activation.ran_cycles,
            gap_tsc: self.counts.last_gap_tsc,
            resume: if what == What::Yielded || what == What::Woken {
                pointer
            } else {
                ptr::null_mut()
            },
        });
    }

    /// The next event for the dispatcher.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.outbox.pop_front()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// An event that had no room goes back to the front.
    pub(crate) fn untell(&mut self, event: Event) {
        self.outbox.push_front(event);
    }

    pub(crate) fn watch(&mut self, cycles: u64, now: u64) {
        if cycles > self.gap_cycles {
            self.counts.gap(cycles, now);
        }
    }

    /// The counts, at the end.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Works by another policy from now on; what is ready moves over.
    pub(crate) fn reconfigure(&mut self, config: Config, mut core: AnyCore, now: u64) {
        let now = self.around.clock.nanos(now);
        while let Some((job, _)) = self.core.pick(now) {
            core.ready(now, job);
        }
        self.core = core;
        self.config = config;
    }

    /// Whether anybody wants the place of the job that runs.
    fn others_wait(&mut self) -> bool {
        self.inbox.is_none()
            || !self.core.is_empty()
            || self.has_mail()
            || (self.config.central && self.remote.wishes.contended.load(Ordering::Relaxed))
    }

    /// What the hook decides: true, yield; false, another quantum.
    fn expired(&mut self) -> bool {
        let now = self.safepoint.last_reading().unwrap_or_else(clock::now);
        let late = now.saturating_sub(self.safepoint.deadline());
        self.counts.late_ns.saturating_record(self.around.clock.ns(late));
        self.note_late(now);
        if std::thread::panicking() || !self.others_wait() {
            // SAFETY: `running` is the job whose fiber calls us.
            unsafe { (*self.running).preemptions += 1 };
            self.quanta += 1;
            self.arm(now);
            return false;
        }
        self.counts.preemptions += 1;
        self.remote.progress.preemptions.store(self.counts.preemptions, Ordering::Relaxed);
        self.quanta += 1;
        true
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        ENGINE.set(ptr::null_mut());
        self.safepoint.disarm();
        self.safepoint.set_hook(None);
        for &pointer in &self.here {
            if !pointer.is_null() {
                // SAFETY: what is here is ours; the fiber's own drop leaks what runs on it.
                drop(unsafe { Box::from_raw(pointer) });
            }
        }
    }
}

/// Called by a safepoint of this thread when its time is over, on the interrupted stack.
unsafe extern "C" fn on_safepoint(_: *mut Block) {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return;
    }
    // SAFETY: this thread's engine; `Engine::run`, below us, holds no reference into it.
    if unsafe { (*engine).expired() } {
        curtail_fiber::suspend(Suspend::Preempted);
    }
}

/// The bytes of the request: in the message, or in the envelope.
fn activation_request(activation: &Activation) -> *const [u8] {
    let message = &activation.message;
    if message.inline == Message::IN_ENVELOPE {
        activation.request
    } else {
        &raw const message.payload[..usize::from(message.inline)]
    }
}

/// The fiber's task: one request.
///
/// # Safety
/// `argument` is a live activation that nobody else changes while its fiber runs, but for the hook
/// on this same stack, which touches `preemptions` alone.
unsafe fn serve(argument: *mut ()) {
    let activation: *mut Activation = argument.cast();
    // SAFETY: by contract. The references are to fields that stay put: the message (changed only
    // while the fiber is suspended, and only its quantum), the response (ours alone), the app and
    // the worker's state (which outlive the engine's fibers).
    unsafe {
        let request = &*activation_request(&*activation);
        let response = &mut *(&raw mut (*activation).response);
        (*(*activation).app).handle(&*(*activation).state, request, response);
    }
}

/// A job on this thread, as somebody who will wake it knows it.
#[derive(Clone)]
pub(crate) struct Waker {
    remote: Arc<Remote>,
    job: JobId,
}

impl Waker {
    /// Makes the job ready. Once per [`block`], from any thread.
    pub(crate) fn wake(self) {
        self.remote.wake(self.job);
    }
}

/// The running job's waker; `None` where no fiber of an engine runs.
pub(crate) fn waker() -> Option<Waker> {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return None;
    }
    // SAFETY: this thread's engine, with a running job.
    unsafe { Some(Waker { remote: (*engine).remote.clone(), job: (*(*engine).running).job.id }) }
}

/// How long the request that calls has been on a core so far, all its quanta together, in TSC
/// cycles; `None` where no request calls.
#[must_use]
pub fn served_cycles() -> Option<u64> {
    let engine = ENGINE.get();
    if engine.is_null() || !curtail_fiber::on_fiber() {
        return None;
    }
    // SAFETY: this thread's engine, with a running job; nothing else touches it meanwhile.
    unsafe { Some((*(*engine).running).ran_cycles + clock::now() - (*engine).run_start) }
}

/// Gives up the thread until the job's waker is used. Between handing the waker out and this call
/// the job must not be pre-empted (hold a critical section), so that the wake-up finds it blocked.
#[inline(never)]
pub(crate) fn block() {
    curtail_fiber::suspend(Suspend::Blocked);
}

/// Gives up the thread to the other jobs that are ready on it, and to other threads of the process
/// where there are none; returns when it is this job's turn again.
#[inline(never)]
pub(crate) fn let_others_run() {
    curtail_fiber::suspend(Suspend::Yielded);
}
