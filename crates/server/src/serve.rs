//! What a request's task does of the application's: its handler, and what is said where that fails, or is
//! not to run.
//!
//! On the request's own stack, whichever kind of server it is in: all of it may wait, and is pre-empted. No
//! panic leaves it, and no C++ exception.

use crate::Response;
use crate::app::ErasedApp;
use curtail_fiber::{CxxException, contain_exceptions};
use curtail_net::Outcome;
use curtail_rt::cancel::{Cancelled, Cause};
use curtail_rt::contain::{contain, discard};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is to be done for a request that gets its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Its handler runs.
    Handler,
    /// There was no stack for the handler: it is refused, on a stack kept for that.
    Refusal,
    /// It was cancelled before its handler began.
    Cancellation(Cause),
}

/// Does so; how it ended. What it answers is in `response` then, which is empty where it answers nothing.
pub(crate) fn serve(
    serving: Serving,
    (app, state): (&dyn ErasedApp, &dyn Any),
    request: &[u8],
    response: &mut Response,
) -> Outcome {
    match serving {
        Serving::Handler => handle((app, state), request, response),
        Serving::Refusal => match contain(|| app.overloaded(request, response)) {
            Some(()) => Outcome::Dropped,
            None => {
                response.clear();
                Outcome::Failed
            }
        },
        Serving::Cancellation(cause) => {
            say_cancelled(app, cause, request, response);
            Outcome::Cancelled
        }
    }
}

fn handle(
    (app, state): (&dyn ErasedApp, &dyn Any),
    request: &[u8],
    response: &mut Response,
) -> Outcome {
    let call = || contain_exceptions(|| app.handle(state, request, response));
    let cancelled = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Outcome::Done,
        Ok(Err(CxxException)) => None,
        Err(panic) => {
            let cancelled = panic.downcast_ref::<Cancelled>().copied();
            discard(panic);
            cancelled
        }
    };
    response.clear();
    if let Some(cancelled) = cancelled {
        say_cancelled(app, cancelled.cause(), request, response);
        return Outcome::Cancelled;
    }
    if contain(|| app.failed(request, response)).is_none() {
        response.clear();
    }
    Outcome::Failed
}

/// What the application says to the client, if that is still there.
fn say_cancelled(app: &dyn ErasedApp, cause: Cause, request: &[u8], response: &mut Response) {
    let is_there = cause != Cause::Departed;
    if is_there && contain(|| app.cancelled(request, cause, response)).is_none() {
        response.clear();
    }
}
