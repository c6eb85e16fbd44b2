//! A fiber from which the application is asked.

use super::{Id, Inquiry};
use crate::app::ErasedApp;
use crate::classify::Classifier;
use curtail_fiber::{Fiber, Label, StackError, StackPool, Suspend, Task};
use curtail_policy::WorkerId;
use curtail_rt::thread::{KThread, Tcb};
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

/// What is asked.
pub(super) struct Application {
    pub app: Arc<dyn ErasedApp>,
    pub classifier: Arc<Classifier>,
}

/// Owned by the asker, at one address.
pub(super) struct Runner {
    fiber: Fiber,
    /// What it is to the code on the fiber.
    inside: Box<Inside>,
}

/// Of one address, and all cells: the fiber refers to it.
pub(super) struct Inside {
    tcb: Tcb,
    application: *const Application,
    /// The loop that it was begun with.
    pub has: Cell<*mut ()>,
    /// What it asks about, or asked about last.
    asks: Cell<Id>,
    /// It waits in the middle of that, or did: another runner has the loop.
    parked: Cell<bool>,
}

impl Runner {
    /// One that is idle, at home on the calling kthread. The application outlives its tasks.
    pub(super) fn new(
        number: u32,
        application: *const Application,
        stacks: &mut StackPool,
    ) -> Result<Self, StackError> {
        let fiber = Fiber::new(stacks)?;
        let tcb = Tcb::of_aside(number);
        tcb.come_to(&KThread::here().shared);
        let inside = Box::new(Inside {
            tcb,
            application,
            has: Cell::new(ptr::null_mut()),
            asks: Cell::new(Id(0)),
            parked: Cell::new(false),
        });
        Ok(Self { fiber, inside })
    }

    /// Runs `task` with a loop, until it ends or waits.
    ///
    /// # Safety
    /// `task` may be called with this runner's inside, and the loop stays where it is until it has
    /// ended or the runner is parked.
    pub(super) unsafe fn begin(&mut self, task: unsafe fn(*mut ()), has: *mut ()) -> Suspend {
        self.inside.has.set(has);
        self.inside.parked.set(false);
        let inside: *const Inside = &raw const *self.inside;
        let label = Label { worker: WorkerId::DISPATCHER.0, ..Label::default() };
        let task = Task { run: task, argument: inside.cast_mut().cast() };
        // SAFETY: by contract; `inside` stays where it is until the task has ended, and is left for
        // ever where it never does.
        let why = unsafe { self.fiber.start(task, label) };
        KThread::here().set_current(ptr::null());
        why
    }

    /// It waits in the middle of a question: about what.
    pub(super) fn park(&self) -> Id {
        self.inside.parked.set(true);
        self.inside.asks.get()
    }

    /// Goes on where it waited: to the end of that question, or until it waits again.
    pub(super) fn go_on(&mut self) -> Suspend {
        let here = KThread::here();
        here.set_current(&raw const self.inside.tcb);
        // SAFETY: it never leaves this kthread.
        let why = unsafe { self.fiber.resume() };
        here.set_current(ptr::null());
        why
    }

    /// What it waits with.
    pub(super) fn parked(&self) -> Option<Id> {
        (!self.fiber.is_idle() && self.inside.is_parked()).then(|| self.inside.asks.get())
    }

    /// The address that it waits for, of C's locks and futexes; 0: none.
    pub(super) fn waits_for(&self) -> usize {
        self.inside.tcb.waits_for.get()
    }
}

impl Inside {
    pub(super) fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// Asks about a request, on the runner's fiber.
    ///
    /// # Safety
    /// The inquiry stays where it is, and nothing else refers to it until this returns.
    #[inline]
    pub(super) unsafe fn ask(&self, id: Id, inquiry: *mut Inquiry) {
        self.asks.set(id);
        let here = KThread::here();
        here.set_current(&raw const self.tcb);
        // SAFETY: by contract; the application outlives the task.
        unsafe { (*inquiry).ask(&*self.application) };
        // Here, where a destructor may wait.
        self.tcb.end_request();
        here.set_current(ptr::null());
    }
}
