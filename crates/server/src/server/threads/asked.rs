//! Requests that the program has asked to cancel ([`crate::Handle::cancel`]), until they are found.
//!
//! The ingress loop adds; the kthreads look. One that is nowhere is forgotten when many have come after it.

use curtail_rt::context::RequestId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most that are remembered.
const MOST: usize = 4_096;

/// Requests that the program has asked to cancel, until they are found.
#[derive(Default)]
pub(super) struct Asked {
    any: AtomicBool,
    ids: Mutex<VecDeque<RequestId>>,
}

impl Asked {
    pub(super) fn add(&self, id: RequestId) {
        // Nothing in here panics half-way.
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() == MOST {
            ids.pop_front();
        }
        ids.push_back(id);
        self.any.store(true, Ordering::Release);
    }

    /// Whether that request is asked for; then it is so no more. Nothing is pre-empted meanwhile.
    #[inline]
    pub(super) fn take(&self, id: impl FnOnce() -> RequestId) -> bool {
        self.any.load(Ordering::Acquire) && self.find(id())
    }

    #[cold]
    fn find(&self, id: RequestId) -> bool {
        curtail_fiber::safepoint::enter_critical();
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let place = ids.iter().position(|other| *other == id);
        if let Some(place) = place {
            ids.remove(place);
            self.any.store(!ids.is_empty(), Ordering::Release);
        }
        drop(ids);
        curtail_fiber::safepoint::leave_critical();
        place.is_some()
    }
}
