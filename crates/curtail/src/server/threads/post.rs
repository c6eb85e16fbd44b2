//! A kthread's part in serving requests: the handler, and what is around it.
//!
//! [`Common`] is shared by the kthreads and the front. A [`Post`] is one kthread's: it is made there,
//! and the threads that serve requests find it by [`Post::here`], since what has started stays.

use super::request::{Body, Request};
use super::tally::Tally;
use crate::app::ErasedApp;
use crate::clock::{self, Clock};
use crate::contain::{contain, discard};
use crate::remote::Remote;
use crate::thread::{Duty, Late};
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_net::{Outcome, Peer, Reply};
use curtail_policy::WorkerId;
use curtail_ring::{CachePadded, Inbox};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// What kthreads and front share.
pub(super) struct Common {
    pub app: Arc<dyn ErasedApp>,
    /// By transport.
    pub replies: Box<[Arc<dyn Reply>]>,
    /// Requests that have ended, on their way back to the front.
    pub done: CachePadded<Inbox<Request>>,
    /// By kthread.
    pub tallies: Box<[CachePadded<Tally>]>,
    pub clock: Clock,
    /// The front's, to wake it; none: it never sleeps.
    pub front: Option<Arc<Remote>>,
}

/// One kthread's.
pub(super) struct Post {
    common: Arc<Common>,
    index: usize,
    state: Box<dyn Any>,
}

thread_local! {
    static HERE: Cell<*const Post> = const { Cell::new(ptr::null()) };
}

/// What the threads of requests do.
pub(super) static DUTY: Duty = Duty { run: serve, ended };

impl Post {
    /// The calling kthread's, from now on and until it is dropped.
    pub(super) fn new(common: Arc<Common>, index: usize) -> Result<Box<Self>, String> {
        let state = contain(|| common.app.setup_worker(WorkerId(index as u16)));
        let state = state.ok_or("its setup_worker panicked")?;
        let post = Box::new(Self { common, index, state });
        HERE.set(&raw const *post);
        Ok(post)
    }

    fn here() -> &'static Self {
        // SAFETY: set as long as the kthread runs threads; what borrows it is a thread or a call of
        // this kthread.
        unsafe { HERE.get().as_ref() }.expect("requests run on a server's kthreads")
    }

    fn tally(&self) -> &Tally {
        &self.common.tallies[self.index]
    }

    /// Runs the handler. What the application says to a failure may wait for others, too.
    fn handle(&self, body: &mut Body) -> Outcome {
        let app = &*self.common.app;
        let handled = catch_unwind(AssertUnwindSafe(|| {
            app.handle(&*self.state, &body.payload, &mut body.response);
        }));
        let Err(panic) = handled else { return Outcome::Done };
        discard(panic);
        body.response.clear();
        if contain(|| app.failed(&body.payload, &mut body.response)).is_none() {
            body.response.clear(); // No answer.
        }
        Outcome::Failed
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        HERE.set(ptr::null());
    }
}

/// A request's thread.
///
/// # Safety
/// `late` is a request's, lent, whose thread this is.
unsafe fn serve(late: *const Late) {
    let request: *mut Request = late.cast_mut().cast();
    // SAFETY: by contract; the body is this thread's.
    let (late, body) = unsafe { (&*late, &mut (*request).body) };
    let post = Post::here();
    post.tally().start();
    body.started_tsc = late.started().unwrap_or_else(clock::now);
    let reply = &post.common.replies[usize::from(body.transport)];
    let answers = body.peer != Peer::None;
    body.outcome = match answers && reply.is_gone(body.peer) {
        true => Outcome::Orphaned,
        false => post.handle(body),
    };
    body.finished_tsc = clock::now();
    body.ran_cycles = late.ran(body.finished_tsc);
    body.preemptions = late.cuts();
    if answers && !body.response.as_bytes().is_empty() {
        enter_critical();
        reply.reply(body.peer, body.response.as_bytes());
        leave_critical();
    }
}

/// A request's thread has ended, or found no stack.
///
/// # Safety
/// `late` is a request's, lent.
unsafe fn ended(late: *const Late) {
    let request: *mut Request = late.cast_mut().cast();
    let post = Post::here();
    // SAFETY: by contract; its thread touches it no more.
    let body = unsafe { &mut (*request).body };
    match body.started_tsc {
        0 => body.finished_tsc = clock::now(),
        _ => post.tally().end(body, post.common.clock),
    }
    // SAFETY: alive; from here on it is the front's.
    unsafe { post.common.done.push(request) };
    if let Some(front) = &post.common.front {
        front.parker.unpark();
    }
}
