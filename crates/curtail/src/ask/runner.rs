//! A fiber on which the application is asked.

use super::Id;
use super::batch::Batch;
use crate::contain::discard;
use crate::thread::{KThread, Tcb};
use curtail_fiber::{Fiber, Label, StackError, StackPool, Suspend, Task};
use curtail_policy::WorkerId;
use std::cell::Cell;
use std::ptr;

/// Owned by the asker.
pub(super) struct Runner {
    fiber: Fiber,
    /// What it is to the code on the fiber.
    inside: Box<Inside>,
    /// It has given the kthread up to others, and can go on.
    yielded: bool,
    /// The request at which it waits.
    pub parked: Option<Id>,
}

/// Of one address, and all cells: the fiber refers to it.
struct Inside {
    tcb: Tcb,
    number: u32,
    batch: Cell<*const Batch>,
}

impl Runner {
    /// One that is idle, at home on the calling kthread.
    pub(super) fn new(number: u32, stacks: &mut StackPool) -> Result<Self, StackError> {
        let fiber = Fiber::new(stacks)?;
        let tcb = Tcb::of_aside(number);
        tcb.come_to(&KThread::here().shared);
        let inside = Box::new(Inside { tcb, number, batch: Cell::new(ptr::null()) });
        Ok(Self { fiber, inside, yielded: false, parked: None })
    }

    /// Asks about what is in the batch, which stays where it is: until the end (true) or until one
    /// waits.
    #[inline]
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        self.inside.batch.set(batch);
        let inside: *const Inside = &raw const *self.inside;
        self.run(|fiber| {
            let label = Label { worker: WorkerId::DISPATCHER.0, ..Label::default() };
            let task = Task { run: ask, argument: inside.cast_mut().cast() };
            // SAFETY: the fiber's code refers to `inside` and to the batch, both of which stay
            // where they are until it has ended, and are left for ever where it never does.
            unsafe { fiber.start(task, label) }
        })
    }

    /// Goes on where it waited: to the end of that request (true), or until it waits again.
    pub(super) fn go_on(&mut self) -> bool {
        // SAFETY: it never leaves this kthread.
        self.run(|fiber| unsafe { fiber.resume() })
    }

    #[inline]
    fn run(&mut self, switch: impl FnOnce(&mut Fiber) -> Suspend) -> bool {
        let here = KThread::here();
        here.set_current(&raw const self.inside.tcb);
        let why = switch(&mut self.fiber);
        here.set_current(ptr::null());
        self.yielded = matches!(why, Suspend::Yielded | Suspend::Preempted);
        match why {
            Suspend::Done => {}
            // What is no panic of Rust's, out of a call that should have contained it.
            Suspend::Panicked(payload) => discard(payload),
            Suspend::Preempted | Suspend::Yielded | Suspend::Blocked => return false,
        }
        true
    }

    /// Whether it can go on by itself.
    pub(super) fn has_yielded(&self) -> bool {
        self.yielded
    }

    /// The address that it waits for, of C's locks and futexes; 0: none.
    pub(super) fn waits_for(&self) -> usize {
        self.inside.tcb.waits_for.get()
    }
}

/// The fiber's task.
///
/// # Safety
/// `argument` is an [`Inside`], with a batch of which the same holds as for [`Batch::ask`].
unsafe fn ask(argument: *mut ()) {
    // SAFETY: by contract.
    unsafe {
        let inside = &*argument.cast::<Inside>();
        (*inside.batch.get()).ask(inside.number, &inside.tcb);
    }
}
