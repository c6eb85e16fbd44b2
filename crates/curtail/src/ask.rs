//! What the application is asked about a request before that is a job: its class, how long it will
//! take, and what to answer where there is no room for it.
//!
//! Its code may wait, as a handler may, and for what a handler has to do first. So it runs on a fiber,
//! on the thread that takes requests in, with a copy of the request. What a transport has brought at
//! once is asked about in one go ([`Asker::ask_all`]), which mostly costs two switches and no more. Where the
//! code waits at a request, this request is *parked* with the fiber; others are asked about on a
//! fresh one, and its answer comes later ([`Asker::go_on`]).
//!
//! **Who touches it.** The thread that takes requests in, which is a kthread, alone. What ends a wait
//! reaches a parked fiber as it reaches a request's: through its control block, whose number is the
//! runner's.
//!
//! **The invariant.** An inquiry is idle, staged, parked with one runner, or the caller's. A runner
//! refers to what it asks about only, and the caller to none that is parked. At most [`MOST`] are
//! parked about classes, with `memory` bytes and one request more, and [`MORE`] about refusals
//! beyond these.

mod batch;
mod entry;
mod payload;
mod runner;

use crate::Response;
use crate::app::ErasedApp;
use crate::cancel::Cause;
use crate::classify::Classifier;
use crate::contain::contain;
use crate::thread::{KThread, Tcb};
use crate::wait;
use batch::Batch;
use curtail_fiber::{StackError, StackPool};
use curtail_net::Peer;
use curtail_policy::{ClassId, JobId, Nanos};
pub(crate) use entry::{Entry, Parts, TurnedAway, tag};
pub(crate) use payload::Payload;
use runner::Runner;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Requests that are parked, at most.
const MOST: usize = 256;
/// Refusals that may be parked beside them.
const MORE: usize = 16;
/// No more is staged when so many bytes are.
const STAGED_BYTES: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Its class, and if that is wanted how long it will take.
    Class { hint: bool },
    /// There is no room for it, of that class: what to answer.
    Refusal { class: ClassId },
    /// It was cancelled before it began: what to answer.
    Cancellation { class: ClassId, cause: Cause },
}

/// Where a request has come from, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub peer: Peer,
    pub transport: u16,
    pub arrived_tsc: u64,
}

/// Names an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u32);

/// A request that is asked about, and the answer.
pub(crate) struct Inquiry {
    pub question: Question,
    pub origin: Origin,
    pub payload: Payload,
    /// So many are parked that it was not asked.
    pub unasked: bool,
    /// `None`: the classifier panicked at it.
    pub class: Option<ClassId>,
    pub hint: Option<Nanos>,
    /// Within which time it is wanted.
    pub deadline: Option<Duration>,
    /// Empty where the application has none.
    pub refusal: Response,
}

impl Inquiry {
    fn new() -> Self {
        Self {
            question: Question::Class { hint: false },
            origin: Origin { peer: Peer::None, transport: 0, arrived_tsc: 0 },
            payload: Payload::default(),
            unasked: false,
            class: None,
            hint: None,
            deadline: None,
            refusal: Response::default(),
        }
    }

    /// Has the application answer.
    fn ask(&mut self, app: &dyn ErasedApp, classifier: &Classifier) {
        let bytes = self.payload.bytes();
        match self.question {
            Question::Class { hint } => {
                self.class = classifier.class_of(bytes);
                let hint = hint && self.class.is_some();
                self.hint = hint.then(|| contain(|| app.hint(bytes)).flatten()).flatten();
                self.deadline = contain(|| app.deadline(bytes)).flatten();
            }
            Question::Cancellation { cause, .. } => {
                let refusal = &mut self.refusal;
                if contain(|| app.cancelled(bytes, cause, refusal)).is_none() {
                    self.refusal.clear();
                }
            }
            Question::Refusal { .. } => {
                let refusal = &mut self.refusal;
                if contain(|| app.overloaded(bytes, refusal)).is_none() {
                    self.refusal.clear();
                }
            }
        }
    }
}

/// See the module's head.
pub(crate) struct Asker {
    classifier: Arc<Classifier>,
    stacks: StackPool,
    /// By number. Each stays where it is until the end.
    inquiries: Vec<*mut Inquiry>,
    /// The bytes of their requests.
    sizes: Vec<usize>,
    idle: Vec<Id>,
    /// To be asked about next, and their bytes.
    staged: Vec<Id>,
    staged_bytes: usize,
    batch: Box<Batch>,
    /// By number.
    runners: Vec<Runner>,
    idle_runners: Vec<u32>,
    /// Those that can go on.
    ready: VecDeque<u32>,
    parked: usize,
    /// Of the requests that are parked, and how many that may be.
    bytes: usize,
    memory: usize,
}

impl Asker {
    /// On the calling kthread. `memory`: the bytes of all requests in the system.
    ///
    /// # Errors
    /// There is no memory for a stack.
    pub(crate) fn new(
        app: Arc<dyn ErasedApp>,
        classifier: Arc<Classifier>,
        stack_size: usize,
        memory: usize,
    ) -> Result<Self, String> {
        let text = |error: StackError| error.to_string();
        let mut asker = Self {
            batch: Box::new(Batch::new(app, classifier.clone())),
            classifier,
            stacks: StackPool::new(stack_size).map_err(text)?,
            inquiries: Vec::new(),
            sizes: Vec::new(),
            idle: Vec::new(),
            staged: Vec::new(),
            staged_bytes: 0,
            runners: Vec::new(),
            idle_runners: Vec::new(),
            ready: VecDeque::new(),
            parked: 0,
            bytes: 0,
            memory: memory / 4,
        };
        let first = asker.new_runner().map_err(text)?;
        asker.idle_runners.push(first);
        Ok(asker)
    }

    pub(crate) fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// How many requests are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// Whether one that is parked can go on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || KThread::here().has_woken_asides()
    }

    /// Whether enough is staged: what more there is waits where it is.
    #[inline]
    pub(crate) fn is_laden(&self) -> bool {
        self.staged_bytes >= STAGED_BYTES
    }

    /// What the caller has.
    #[inline]
    pub(crate) fn get(&mut self, id: Id) -> &mut Inquiry {
        // SAFETY: made by `stage`; it is not parked, so no runner refers to it.
        unsafe { &mut *self.inquiries[id.0 as usize] }
    }

    /// A request is to be asked about.
    #[inline]
    pub(crate) fn stage(&mut self, question: Question, payload: &[u8], origin: Origin) {
        let id = self.idle.pop().unwrap_or_else(|| {
            self.inquiries.push(Box::into_raw(Box::new(Inquiry::new())));
            self.sizes.push(0);
            Id(self.inquiries.len() as u32 - 1)
        });
        let inquiry = self.get(id);
        inquiry.payload.set(payload);
        inquiry.origin = origin;
        self.sizes[id.0 as usize] = payload.len();
        self.stage_again(id, question);
    }

    /// Something else is to be asked about the caller's request.
    #[inline]
    pub(crate) fn stage_again(&mut self, id: Id, question: Question) {
        let inquiry = self.get(id);
        inquiry.question = question;
        inquiry.unasked = false;
        inquiry.refusal.clear();
        self.staged_bytes += self.sizes[id.0 as usize];
        self.staged.push(id);
    }

    /// The caller needs it no more.
    #[inline]
    pub(crate) fn put_away(&mut self, id: Id) {
        self.get(id).payload.trim();
        self.idle.push(id);
    }

    /// Asks about all that are staged. `answered` gets those that have their answers, in order.
    pub(crate) fn ask_all(&mut self, answered: &mut Vec<Id>) {
        let staged = std::mem::take(&mut self.staged);
        self.staged_bytes = 0;
        let mut next = 0;
        while let Some(&id) = staged.get(next) {
            // One by one, where one more may be too many.
            let end = if self.parked == 0 { staged.len() } else { next + 1 };
            if self.parked > 0 && !self.has_room(id) {
                self.get(id).unasked = true;
                answered.push(id);
                next = end;
                continue;
            }
            let runs = &staged[next..end];
            let Some(runner) = self.idle_runner() else {
                self.get(id).unasked = true;
                answered.push(id);
                next += 1;
                continue;
            };
            let asked = self.begin(runner, runs);
            answered.extend_from_slice(&runs[..asked]);
            next += asked + usize::from(asked < runs.len());
        }
        self.staged = staged;
        self.staged.clear();
    }

    /// Has a runner ask about some: how many have their answers, which are the first ones. Where that is
    /// not all of them, it has parked the next.
    fn begin(&mut self, runner: u32, ids: &[Id]) -> usize {
        self.batch.begin(runner, ids.iter().map(|id| self.inquiries[id.0 as usize]));
        let ended = self.runners[runner as usize].begin(&self.batch);
        let asked = self.batch.end();
        if ended {
            self.idle_runners.push(runner);
            return ids.len();
        }
        let parked = ids[asked];
        self.runners[runner as usize].parked = Some(parked);
        self.parked += 1;
        self.bytes += self.sizes[parked.0 as usize];
        if self.runners[runner as usize].has_yielded() {
            self.ready.push_back(runner);
        }
        asked
    }

    /// Goes on with those parked that can. `answered` gets those that have their answers.
    pub(crate) fn go_on(&mut self, answered: &mut Vec<Id>) {
        while let Some(number) = KThread::here().pop_woken_aside() {
            self.ready.push_back(number);
        }
        for _ in 0..self.ready.len() {
            let Some(number) = self.ready.pop_front() else { break };
            let runner = &mut self.runners[number as usize];
            if runner.go_on() {
                let id = runner.parked.take().expect("what goes on was parked");
                self.idle_runners.push(number);
                self.parked -= 1;
                self.bytes -= self.sizes[id.0 as usize];
                answered.push(id);
            } else if runner.has_yielded() {
                self.ready.push_back(number);
            }
        }
    }

    /// Whether that request may be parked beside the others.
    fn has_room(&mut self, id: Id) -> bool {
        let (parked, bytes) = (self.parked, self.bytes + self.sizes[id.0 as usize]);
        let fits = bytes <= self.memory;
        match self.get(id).question {
            Question::Class { .. } => parked < MOST && fits,
            Question::Refusal { .. } | Question::Cancellation { .. } => parked < MOST + MORE,
        }
    }

    #[inline]
    fn idle_runner(&mut self) -> Option<u32> {
        let idle = self.idle_runners.pop();
        idle.or_else(|| self.new_runner().map_err(|error| tracing::error!(%error)).ok())
    }

    fn new_runner(&mut self) -> Result<u32, StackError> {
        let number = self.runners.len() as u32;
        self.runners.push(Runner::new(number, &mut self.stacks)?);
        Ok(number)
    }
}

impl Drop for Asker {
    /// What is parked will not run again. It takes no wake-up from others, and one that it has had
    /// already and did nothing with goes to the next waiter. It is left where it is, since what it
    /// waits for may refer to it.
    fn drop(&mut self) {
        let here = KThread::here();
        let parks = self.parked > 0;
        let unlinked = if parks { wait::forget(&here.shared, Tcb::is_aside) } else { Vec::new() };
        let mut left = Vec::new();
        for (number, runner) in self.runners.drain(..).enumerate() {
            let Some(id) = runner.parked else { continue };
            left.push(id);
            here.abandon_request();
            let waited = runner.waits_for();
            let job = JobId(Tcb::of_aside_number(number as u32));
            std::mem::forget(runner);
            if waited != 0 && !unlinked.contains(&job) {
                wait::wake_one(waited);
            }
        }
        for (number, &inquiry) in self.inquiries.iter().enumerate() {
            if !left.contains(&Id(number as u32)) {
                // SAFETY: made by `stage`, and parked with no runner.
                drop(unsafe { Box::from_raw(inquiry) });
            }
        }
    }
}
