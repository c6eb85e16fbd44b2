//! What the application is asked about a request before that is a job: its class, how long it will
//! take, and what to answer where there is no room for it.
//!
//! Its code may wait, as a handler may, and for what a handler has to do first. So the whole loop that
//! takes requests in is a task ([`drive`]): it stages questions, with copies of their requests, and asks
//! them between two of its steps, by plain calls. Where the code waits, the task is *parked* with that one
//! request, and a fresh one goes on with the loop. When the wait is over the parked task goes on to the
//! end of its question and no further ([`Asker::go_on`]).
//!
//! **Who touches it.** The thread that takes requests in, which is a kthread, alone. What ends a wait
//! reaches a parked task as it reaches a request: it lies in its resumer's queue then.
//!
//! **The invariant.** An inquiry is idle, staged, asked by the one runner that has the loop, parked with
//! one runner, answered, or the caller's. While the application is asked, nothing refers to the loop or
//! to its asker, and a runner that was parked touches only its inquiry from then on. At most [`MOST`] are
//! parked about classes, with `memory` bytes and one request more, and [`MORE`] about refusals
//! beyond these.

mod entry;
mod inquiry;
mod lead;
mod payload;
mod runner;

use crate::app::ErasedApp;
use crate::classify::Classifier;
use crate::server::Rules;
use curtail_fiber::{Locals, StackError, StackPool};
use curtail_rt::contain::discard;
use curtail_rt::thread::{KThread, Left, Resumer};
pub(crate) use entry::{Entry, EntryState, tag};
pub(crate) use inquiry::{Inquiry, Origin, Question};
pub(crate) use lead::{Loop, drive};
pub(crate) use payload::{Incoming, Payload};
use runner::{Application, Runner};
use std::collections::VecDeque;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// The target of what is logged here.
const LOG: &str = "curtail::ask";

/// Requests that are parked, at most.
const MOST: usize = 256;
/// Refusals that may be parked beside them.
const MORE: usize = 16;
/// No more is staged when so many bytes are.
const STAGED_BYTES: usize = 1 << 20;
/// A runner's stack is no smaller: transports and the log run on it, too. What is not touched takes no
/// memory.
const STACK_BYTES: usize = 1 << 20;

/// Names an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u32);

/// What asks the application about requests before they are jobs.
pub(crate) struct Asker {
    application: Arc<Application>,
    rules: Arc<Rules>,
    kthread: &'static KThread,
    stacks: StackPool,
    /// By number. Each stays where it is until the end.
    inquiries: Vec<*mut Inquiry>,
    /// The bytes of their requests.
    sizes: Vec<usize>,
    idle: Vec<Id>,
    /// To be asked about next, and their bytes.
    staged: VecDeque<Id>,
    staged_bytes: usize,
    /// Those that have their answers, for the loop.
    answered: Vec<Id>,
    /// All. Each stays where it is until the end.
    runners: Vec<*mut Runner>,
    spare: Vec<*mut Runner>,
    /// What the kthread's own loop runs: the one that has the loop.
    leading: Rc<Resumer>,
    /// What that one runs: those that are parked and can go on.
    parking: Rc<Resumer>,
    /// Those that have yielded.
    ready: VecDeque<*const Runner>,
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
        (app, rules): (Arc<dyn ErasedApp>, Arc<Rules>),
        classifier: Arc<Classifier>,
        stack_size: usize,
        memory: usize,
    ) -> Result<Self, String> {
        let text = |error: StackError| error.to_string();
        let mut asker = Self {
            application: Arc::new(Application { app, classifier }),
            rules,
            kthread: KThread::here(),
            stacks: StackPool::new(stack_size.max(STACK_BYTES), Locals::Own).map_err(text)?,
            inquiries: Vec::new(),
            sizes: Vec::new(),
            idle: Vec::new(),
            staged: VecDeque::new(),
            staged_bytes: 0,
            answered: Vec::new(),
            runners: Vec::new(),
            spare: Vec::new(),
            leading: Rc::default(),
            parking: Rc::default(),
            ready: VecDeque::new(),
            parked: 0,
            bytes: 0,
            memory: memory / 4,
        };
        asker.new_runner().map_err(text)?;
        Ok(asker)
    }

    pub(crate) fn classifier(&self) -> &Classifier {
        &self.application.classifier
    }

    /// How many requests are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// Whether one that is parked can go on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.parking.has_woken()
    }

    /// Whether enough is staged: what more there is waits where it is.
    #[inline]
    pub(crate) fn is_laden(&self) -> bool {
        self.staged_bytes >= STAGED_BYTES
    }

    /// Whether something is to be asked.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// What the caller has.
    #[inline]
    pub(crate) fn get(&mut self, id: Id) -> &mut Inquiry {
        // SAFETY: made by `stage`; it is not parked, so no runner refers to it.
        unsafe { &mut *self.inquiries[id.0 as usize] }
    }

    /// A request is to be asked about.
    #[inline]
    pub(crate) fn stage(&mut self, question: Question, payload: Incoming<'_>, origin: Origin) {
        let id = self.idle.pop().unwrap_or_else(|| {
            self.inquiries.push(Box::into_raw(Box::new(Inquiry::new())));
            self.sizes.push(0);
            Id(self.inquiries.len() as u32 - 1)
        });
        let inquiry = self.get(id);
        inquiry.payload.set(payload);
        inquiry.origin = origin;
        let length = inquiry.payload.len();
        self.sizes[id.0 as usize] = length;
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
        self.staged.push_back(id);
    }

    /// The caller needs it no more.
    #[inline]
    pub(crate) fn put_away(&mut self, id: Id) {
        self.get(id).payload.trim();
        self.idle.push(id);
    }

    /// The next that is to be asked about. Those for which there is no room are answered: nothing was
    /// asked.
    #[inline]
    fn next(&mut self) -> Option<(Id, *mut Inquiry)> {
        while let Some(id) = self.staged.pop_front() {
            self.staged_bytes -= self.sizes[id.0 as usize];
            if self.may_wait(id) {
                return Some((id, self.inquiries[id.0 as usize]));
            }
            self.get(id).unasked = true;
            self.answered.push(id);
        }
        None
    }

    /// Whether that request may be parked beside the others, and the loop go on without its runner.
    #[inline]
    fn may_wait(&mut self, id: Id) -> bool {
        (self.parked == 0 || self.has_room(id)) && (!self.spare.is_empty() || self.has_new_runner())
    }

    fn has_room(&mut self, id: Id) -> bool {
        let (parked, bytes) = (self.parked, self.bytes + self.sizes[id.0 as usize]);
        let fits = bytes <= self.memory;
        match self.get(id).question {
            Question::Class { .. } => parked < MOST && fits,
            Question::Refusal { .. } | Question::Cancellation { .. } => parked < MOST + MORE,
        }
    }

    #[inline]
    fn note_answered(&mut self, id: Id) {
        self.answered.push(id);
    }

    #[inline]
    fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Goes on with those parked that can; true: some have their answers now.
    pub(crate) fn go_on(&mut self) -> bool {
        while let Some(task) = self.parking.pop_woken() {
            self.ready.push_back(ptr::from_ref(task).cast());
        }
        let before = self.answered.len();
        for _ in 0..self.ready.len() {
            let Some(runner) = self.ready.pop_front() else { break };
            // SAFETY: made by `new_runner`; all in it are cells. It is parked, and can go on.
            let (id, why) = unsafe {
                let id = (*runner).parked().expect("what goes on was parked");
                (id, (*runner).run_by(&self.parking))
            };
            match why {
                Left::Blocked => continue,
                Left::Preempted | Left::Yielded => {
                    self.ready.push_back(runner);
                    continue;
                }
                // SAFETY: as above. The call should have contained it, and the loop goes on.
                Left::Ended => unsafe { (*runner).take_panic() }.into_iter().for_each(discard),
            }
            self.spare.push(runner.cast_mut());
            self.parked -= 1;
            self.bytes -= self.sizes[id.0 as usize];
            self.answered.push(id);
        }
        self.answered.len() > before
    }

    /// A runner that had the loop waits, or has yielded, in the middle of its question.
    fn park(&mut self, runner: *const Runner, why: Left) {
        // SAFETY: made by `new_runner`; all in it are cells. It has just left the processor.
        let id = unsafe {
            (*runner).adopt(&self.parking);
            (*runner).park()
        };
        self.parked += 1;
        self.bytes += self.sizes[id.0 as usize];
        if why != Left::Blocked {
            self.ready.push_back(runner);
        }
    }

    /// One that is idle: there is one, since nothing is asked without ([`Asker::may_wait`]).
    fn take_spare(&mut self) -> *mut Runner {
        self.spare.pop().expect("a spare runner")
    }

    /// It is idle again.
    fn put_back(&mut self, runner: *mut Runner) {
        self.spare.push(runner);
    }

    #[cold]
    fn has_new_runner(&mut self) -> bool {
        self.new_runner().map_err(|error| tracing::error!(target: LOG, %error)).is_ok()
    }

    fn new_runner(&mut self) -> Result<(), StackError> {
        let runner = Runner::new(Arc::as_ptr(&self.application), &mut self.stacks)?;
        let runner = Box::into_raw(Box::new(runner));
        self.runners.push(runner);
        self.spare.push(runner);
        Ok(())
    }
}

impl Drop for Asker {
    /// What is parked will not run again. It is left where it is, since what it waits for may refer to it.
    fn drop(&mut self) {
        // SAFETY: made by `new_runner`; none runs.
        let parked = |&runner: &*mut Runner| unsafe { (*runner).parked().map(|id| (runner, id)) };
        let left: Vec<_> = self.runners.iter().filter_map(parked).collect();
        // SAFETY: as above.
        let tasks = left.iter().map(|&(runner, _)| unsafe { (*runner).task() });
        self.parking.leave_behind(self.kthread, tasks);
        if !left.is_empty() {
            // What waits borrows it, and threads that it has started may look at it still.
            self.rules.note_left();
            std::mem::forget(self.application.clone());
        }
        for &runner in self.runners.iter().filter(|runner| parked(runner).is_none()) {
            // SAFETY: as above, and it has nothing to do.
            drop(unsafe { Box::from_raw(runner) });
        }
        for (number, &inquiry) in self.inquiries.iter().enumerate() {
            if left.iter().all(|&(_, id)| id != Id(number as u32)) {
                // SAFETY: made by `stage`, and parked with no runner.
                drop(unsafe { Box::from_raw(inquiry) });
            }
        }
    }
}
