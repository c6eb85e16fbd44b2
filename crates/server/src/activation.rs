//! A job on a worker: its fiber, its request, its response, and what was counted of it.
//!
//! It belongs to the side that has the job (see `message`). Its address is fixed for life.

use crate::Response;
use crate::app::ErasedApp;
use crate::message::Message;
use crate::serve::{Serving, serve};
use curtail_fiber::Fiber;
use curtail_net::Outcome;
use curtail_policy::Job;
use curtail_rt::thread::Tcb;
use std::any::Any;

/// A job on a worker: from its first run until it has left, through all yields.
pub(crate) struct Activation {
    pub message: Message,
    pub job: Job,
    /// Made for the first job that runs on it, and kept for the next ones.
    pub fiber: Option<Fiber>,
    /// What its fiber does for it, and how that ended.
    pub serving: Serving,
    pub outcome: Outcome,
    pub response: Response,
    pub request: *const [u8],
    pub app: *const dyn ErasedApp,
    pub state: *const dyn Any,
    /// By which the request waits and is woken.
    pub tcb: Tcb,
    /// 0: not yet.
    pub started_tsc: u64,
    pub ran_cycles: u64,
    pub preemptions: u32,
}

/// The bytes of the request: in the message, or in the envelope.
pub(crate) fn request_of(activation: &Activation) -> *const [u8] {
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
/// `argument` is a live activation. While its fiber runs, only the fiber changes it, and the hook
/// on this same stack, which touches `preemptions` alone.
pub(crate) unsafe fn run(argument: *mut ()) {
    let activation: *mut Activation = argument.cast();
    // SAFETY: by contract. The references are to fields that stay put: the message (changed only
    // while the fiber is suspended, and only its quantum), the response (ours alone), the app and
    // the worker's state (which outlive the engine's fibers).
    unsafe {
        let request = &*request_of(&*activation);
        let response: *mut Response = &raw mut (*activation).response;
        let application = (&*(*activation).app, &*(*activation).state);
        (*activation).outcome = serve((*activation).serving, application, request, &mut *response);
    }
}
