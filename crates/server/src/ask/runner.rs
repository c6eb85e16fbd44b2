//! A task from which the application is asked, and that has the loop meanwhile.

use super::{Id, Inquiry};
use crate::app::ErasedApp;
use crate::classify::Classifier;
use curtail_fiber::{FiberStack, Label, StackError, StackPool};
use curtail_policy::WorkerId;
use curtail_rt::thread::{KThread, Left, Resumer, Task, TaskVtable};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// What is asked.
pub(super) struct Application {
    pub app: Arc<dyn ErasedApp>,
    pub classifier: Arc<Classifier>,
}

/// A task from which the application is asked. Of one address, and all cells: its own code refers
/// to it while it runs.
#[repr(C)]
pub(super) struct Runner {
    /// First, so that a pointer to one is a pointer to the other.
    task: Task,
    /// Until it is begun for the first time.
    stack: Cell<Option<FiberStack>>,
    application: *const Application,
    /// What it does, and with which loop.
    lead: Cell<Option<unsafe fn(&Self)>>,
    pub has: Cell<*mut ()>,
    /// What it asks about, or asked about last.
    asks: Cell<Id>,
    /// It waits in the middle of that, or goes on to its end: another runner has the loop.
    parked: Cell<bool>,
    /// The loop panicked.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

// Time is not kept for what is asked about a request.
static VTABLE: TaskVtable = TaskVtable::of(run);

impl Runner {
    /// One that is idle. The application outlives what it does.
    pub(super) fn new(
        application: *const Application,
        stacks: &mut StackPool,
    ) -> Result<Self, StackError> {
        Ok(Self {
            task: Task::new(&VTABLE),
            stack: Cell::new(Some(stacks.take()?)),
            application,
            lead: Cell::new(None),
            has: Cell::new(ptr::null_mut()),
            asks: Cell::new(Id(0)),
            parked: Cell::new(false),
            panic: Cell::new(None),
        })
    }

    /// Runs `lead` with a loop, until it ends or waits. On the calling kthread.
    ///
    /// # Safety
    /// `this` is idle, and stays where it is. `lead` may be called with it, and the loop stays where it is
    /// until it has ended or the runner is parked.
    pub(super) unsafe fn begin(
        this: *mut Self,
        resumer: &Resumer,
        (lead, has): (unsafe fn(&Self), *mut ()),
    ) -> Left {
        let label = Label { worker: WorkerId::DISPATCHER.0, ..Label::default() };
        // SAFETY: by contract. A pointer to a runner is one to its task, and good for all of it.
        unsafe {
            Task::renew(this.cast(), 0);
            let runner = &*this;
            runner.lead.set(Some(lead));
            runner.has.set(has);
            runner.adopt(resumer);
            let begun = resumer.begin(&runner.task, || runner.stack.take().ok_or(()), label);
            begun.expect("each is made with a stack");
            runner.run_by(resumer)
        }
    }

    /// Runs it until it ends or waits.
    ///
    /// # Safety
    /// It was begun, or waited, and can go on; the resumer has it.
    pub(super) unsafe fn run_by(&self, resumer: &Resumer) -> Left {
        // SAFETY: by contract; it never leaves this kthread.
        let why = unsafe { resumer.run(KThread::here(), &self.task) };
        if why == Left::Ended {
            self.parked.set(false);
        }
        why
    }

    /// That one runs it from now on.
    ///
    /// # Safety
    /// It does not run, and was not looked at since it left the processor.
    pub(super) unsafe fn adopt(&self, resumer: &Resumer) {
        // SAFETY: by contract: what wakes it comes to this kthread first.
        unsafe { resumer.adopt(&self.task, &KThread::here().shared) };
    }

    /// It waits in the middle of a question: about what.
    pub(super) fn park(&self) -> Id {
        self.parked.set(true);
        self.asks.get()
    }

    /// What it waits with.
    pub(super) fn parked(&self) -> Option<Id> {
        self.is_parked().then(|| self.asks.get())
    }

    pub(super) fn is_parked(&self) -> bool {
        self.parked.get()
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    /// With what the loop panicked, if it did.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }

    /// Asks about a request. It calls.
    ///
    /// # Safety
    /// The inquiry stays where it is, and nothing else refers to it until this returns.
    #[inline]
    pub(super) unsafe fn ask(&self, id: Id, inquiry: *mut Inquiry) {
        self.asks.set(id);
        let here = KThread::here();
        here.set_current(self.task.tcb());
        // SAFETY: by contract; the application outlives the task.
        unsafe { (*inquiry).ask(&*self.application) };
        // Here, where a destructor may wait.
        self.task.let_go();
        here.set_current(ptr::null());
    }
}

/// # Safety
/// `task` is a runner's that was begun.
unsafe fn run(task: *const Task) {
    // SAFETY: by contract; it stays where it is.
    let runner = unsafe { &*task.cast::<Runner>() };
    // What waits in the loop waits in the kernel: nothing else takes requests in meanwhile.
    KThread::here().set_current(ptr::null());
    let Some(lead) = runner.lead.get() else { return };
    // SAFETY: as `begin` was promised.
    let ended = catch_unwind(AssertUnwindSafe(|| unsafe { lead(runner) }));
    runner.panic.set(ended.err());
}
