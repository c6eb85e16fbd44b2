//! What a runner is to ask about: requests, one after the other.
//!
//! Used by the asker and the runner, on one thread, in turns; so all fields are cells.

use super::Inquiry;
use crate::app::ErasedApp;
use crate::classify::Classifier;
use crate::contain::contain;
use crate::thread::Tcb;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// No runner has it.
const NONE: u32 = u32::MAX;

/// See the module's head.
pub(super) struct Batch {
    app: Arc<dyn ErasedApp>,
    classifier: Arc<Classifier>,
    items: RefCell<Vec<*mut Inquiry>>,
    /// How many have their answers.
    asked: Cell<usize>,
    /// The runner that has it.
    owner: Cell<u32>,
}

impl Batch {
    pub(super) fn new(app: Arc<dyn ErasedApp>, classifier: Arc<Classifier>) -> Self {
        Self {
            app,
            classifier,
            items: RefCell::default(),
            asked: Cell::new(0),
            owner: Cell::new(NONE),
        }
    }

    /// Gives a runner what it is to ask about.
    #[inline]
    pub(super) fn begin(&self, owner: u32, items: impl Iterator<Item = *mut Inquiry>) {
        let mut place = self.items.borrow_mut();
        place.clear();
        place.extend(items);
        self.asked.set(0);
        self.owner.set(owner);
    }

    /// Takes it back: how many have their answers.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.owner.set(NONE);
        self.asked.get()
    }

    /// Asks about them, by their runner. Where one waits and this was taken back meanwhile, that is the
    /// last one.
    ///
    /// # Safety
    /// Nothing else refers to an item as long as it is asked about; it stays where it is.
    pub(super) unsafe fn ask(&self, runner: u32, tcb: &Tcb) {
        let mut next = 0;
        while self.owner.get() == runner {
            let Some(&inquiry) = self.items.borrow().get(next) else { break };
            // SAFETY: by contract.
            unsafe { &mut *inquiry }.ask(&*self.app, &self.classifier);
            // Here, where a destructor may wait.
            let _ = contain(|| tcb.destroy_locals());
            tcb.end_request();
            next += 1;
            if self.owner.get() == runner {
                self.asked.set(next);
            }
        }
    }
}
