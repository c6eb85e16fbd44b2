//! A request on a worker: its task, its message, its response.
//!
//! It belongs to the side that has the job (see `message`). Its address is fixed for life.

use crate::Response;
use crate::engine::Engine;
use crate::message::Message;
use crate::serve::{Serving, serve};
use curtail_net::Outcome;
use curtail_policy::Job;
use curtail_rt::cancel::{Cause, OnCancel};
use curtail_rt::context::Facts;
use curtail_rt::thread::{Task, TaskVtable};
use std::{ptr, slice};

/// A request on a worker: from its first run until it has left, through all yields.
#[repr(C)]
pub(crate) struct DispatchedRequest {
    /// First, so that a pointer to one is a pointer to the other.
    pub task: Task,
    pub message: Message,
    pub job: Job,
    /// What its task does for it, and how that ended.
    pub serving: Serving,
    pub outcome: Outcome,
    pub response: Response,
    /// Whose it is, or was last.
    pub engine: *mut Engine,
}

/// What the tasks of such requests do.
static VTABLE: TaskVtable =
    TaskVtable { facts: Some(facts), cause, rule, expired, ..TaskVtable::of(run) };

impl DispatchedRequest {
    /// One that is to begin.
    pub(crate) fn new(message: Message, job: Job) -> Box<Self> {
        Box::new(Self {
            task: Task::new(&VTABLE),
            message,
            job,
            serving: Serving::Handler,
            outcome: Outcome::Failed,
            response: Response::default(),
            engine: ptr::null_mut(),
        })
    }

    /// Makes a request in the place of one that has left.
    pub(crate) fn renew(mut self: Box<Self>, message: Message, job: Job) -> Box<Self> {
        (self.message, self.job) = (message, job);
        (self.serving, self.outcome) = (Serving::Handler, Outcome::Failed);
        self
    }

    /// Makes it one that can be run.
    pub(crate) fn lend(self: Box<Self>) -> *mut Self {
        let class = self.job.class.0;
        let this = Box::into_raw(self);
        // SAFETY: from a box, which stays where it is until it is one again; the task is its first
        // field, and this pointer is good for all of it.
        unsafe { Task::renew(this.cast(), class) };
        this
    }
}

/// # Safety
/// `task` is a dispatched request's, whose task this is. While it runs, only it changes the request, and
/// the engine nothing but the message's quantum.
unsafe fn run(task: *const Task) {
    let this: *mut DispatchedRequest = task.cast_mut().cast();
    // SAFETY: by contract. The references are to what stays put: the bytes, in the message or in the
    // buffer; the response, ours alone; the application and the worker's state, which outlive what
    // runs on the engine, and stay where something is left behind.
    unsafe {
        let engine = (*this).engine;
        let inline = (&raw const (*this).message.payload).cast();
        let request = match (*this).message.inline {
            Message::IN_BUFFER => &*(*engine).shared.buffers.get((*this).message.job).payload,
            length => slice::from_raw_parts(inline, usize::from(length)),
        };
        let application = (&*(*engine).shared.app, &*(*engine).state);
        let response = &raw mut (*this).response;
        (*this).outcome = serve((*this).serving, application, request, &mut *response);
    }
}

/// # Safety
/// `task` is a dispatched request's, which calls.
unsafe fn cause(task: *const Task) -> Option<Cause> {
    let this: *const DispatchedRequest = task.cast();
    // SAFETY: by contract; the engine is away for it. What is shared does not change.
    unsafe {
        Engine::back((*this).engine, Engine::handle_notices);
        let told = (*this).task.tcb().cancel.cause();
        told.or_else(|| (*(*this).engine).shared.cause(&(*this).message))
    }
}

/// # Safety
/// As for [`cause`].
unsafe fn rule(task: *const Task) -> OnCancel {
    let this: *const DispatchedRequest = task.cast();
    // SAFETY: by contract; what is shared does not change.
    unsafe { (*(*this).engine).shared.rules.on_cancel((*this).message.class) }
}

/// # Safety
/// As for [`cause`].
unsafe fn facts(task: *const Task) -> Facts {
    let this: *const DispatchedRequest = task.cast();
    // SAFETY: by contract; what is shared does not change.
    unsafe { (*(*this).engine).shared.facts(&(*this).message) }
}

/// # Safety
/// As for [`cause`].
unsafe fn expired(task: *const Task) -> bool {
    // SAFETY: by contract; the engine is away for it.
    unsafe { Engine::back((*task.cast::<DispatchedRequest>()).engine, Engine::expired) }
}
