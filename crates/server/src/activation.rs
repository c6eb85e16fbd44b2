//! A job on a worker: its fiber, its request, its response, and what was counted of it.
//!
//! It belongs to the side that has the job (see `message`). Its address is fixed for life.

use crate::Response;
use crate::app::ErasedApp;
use crate::message::Message;
use curtail_fiber::Fiber;
use curtail_policy::Job;
use curtail_rt::cancel::Cause;
use curtail_rt::thread::Tcb;
use std::any::Any;

/// A job on a worker: from its first run until it has left, through all yields.
pub(crate) struct Activation {
    pub message: Message,
    pub job: Job,
    /// Made for the first job that runs on it, and kept for the next ones.
    pub fiber: Option<Fiber>,
    /// Its fiber runs [`serve`] first; what else, where that ended badly.
    pub task: Serving,
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

/// What a job's fiber does for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// The handler.
    Request,
    /// The handler has panicked; says so.
    Failure,
    /// There was no stack for the handler; says so, on a stack kept for that.
    Refusal,
    /// It was cancelled, before the handler began or while it ran; says so.
    Cancellation {
        /// Why.
        cause: Cause,
        /// The handler had begun.
        began: bool,
    },
}

impl Serving {
    /// Whether the application has a say. Not where the client has gone.
    pub(crate) fn is_to_run(self) -> bool {
        !matches!(self, Self::Cancellation { cause: Cause::Departed, .. })
    }
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

/// The fiber's task: one request, or an answer in place of its handler's.
///
/// # Safety
/// `argument` is a live activation. While its fiber runs, only the fiber changes it, and the hook
/// on this same stack, which touches `preemptions` alone.
pub(crate) unsafe fn serve(argument: *mut ()) {
    let activation: *mut Activation = argument.cast();
    // SAFETY: by contract. The references are to fields that stay put: the message (changed only
    // while the fiber is suspended, and only its quantum), the response (ours alone), the app and
    // the worker's state (which outlive the engine's fibers).
    unsafe {
        let request = &*request_of(&*activation);
        let response: *mut Response = &raw mut (*activation).response;
        let app = &*(*activation).app;
        match (*activation).task {
            Serving::Request => app.handle(&*(*activation).state, request, &mut *response),
            Serving::Failure => app.failed(request, &mut *response),
            Serving::Refusal => app.overloaded(request, &mut *response),
            Serving::Cancellation { cause, .. } => app.cancelled(request, cause, &mut *response),
        }
    }
}
