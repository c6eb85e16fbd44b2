//! A request under a policy without a dispatcher: what came, what is answered, and the thread that
//! serves it, in one place.
//!
//! It belongs to the front (`super::front`), which hands it in; to the kthread that has its thread,
//! until that has ended; and then to the front again, which hears of it through [`super::post::Common::done`].

use crate::Response;
use crate::thread::{Duty, Late};
use curtail_net::{Outcome, Peer};
use curtail_policy::ClassId;
use curtail_ring::Linked;
use std::sync::atomic::AtomicPtr;

/// See the module's head.
#[repr(C)]
pub(super) struct Request {
    /// First, so that a pointer to one is a pointer to the other.
    late: Late,
    link: AtomicPtr<Request>,
    pub body: Body,
}

/// What its owner of the moment reads and writes.
#[derive(Debug)]
pub(super) struct Body {
    pub class: ClassId,
    pub peer: Peer,
    pub transport: u16,
    pub tag: u64,
    pub arrived_tsc: u64,
    pub payload: Vec<u8>,
    pub response: Response,
    pub outcome: Outcome,
    /// 0: it was never run.
    pub started_tsc: u64,
    pub finished_tsc: u64,
    pub ran_cycles: u64,
    pub preemptions: u32,
}

// SAFETY: the link is the same cell each time, and only the queue of those that have ended uses it.
unsafe impl Linked for Request {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

impl Request {
    /// One that nothing has come for yet.
    pub(super) fn new(duty: &'static Duty) -> Box<Self> {
        Box::new(Self {
            late: Late::new(duty),
            link: AtomicPtr::default(),
            body: Body {
                class: ClassId(0),
                peer: Peer::None,
                transport: 0,
                tag: 0,
                arrived_tsc: 0,
                payload: Vec::new(),
                response: Response::default(),
                outcome: Outcome::Dropped,
                started_tsc: 0,
                finished_tsc: 0,
                ran_cycles: 0,
                preemptions: 0,
            },
        })
    }

    /// Makes it one that can be handed in.
    pub(super) fn lend(self: Box<Self>) -> *mut Late {
        let class = self.body.class.0;
        let late: *mut Late = Box::into_raw(self).cast();
        // SAFETY: from a box, which stays where it is until `Request::back`; the thread is its
        // first field, and this pointer is good for all of it.
        unsafe { Late::renew(late, class) };
        late
    }

    /// What was lent, its owner's again.
    ///
    /// # Safety
    /// It comes from [`Request::lend`], and its thread has ended, or was never started and never
    /// will be.
    pub(super) unsafe fn back(request: *mut Self) -> Box<Self> {
        // SAFETY: by contract.
        unsafe { Box::from_raw(request) }
    }
}
