//! What becomes of requests that have left, and the end of an engine, on its own thread: what is still
//! here then will not run again.

use super::Engine;
use crate::dispatched::DispatchedRequest;
use std::ptr;
use std::sync::atomic::Ordering;

/// So many are kept for the next ones at most, each with its stack.
const KEEP: usize = 16;

impl Engine {
    /// Keeps the request for another one, or its stack alone.
    pub(super) fn put_away(&mut self, request: Box<DispatchedRequest>) {
        if self.spare.len() < KEEP {
            self.spare.push(request);
        } else if let Some(stack) = request.task.take_stack() {
            self.kthread.give_stack_of_request(stack);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.remote.engine.store(ptr::null_mut(), Ordering::Release);
        self.kthread.run_queue.set(None);
        self.safepoint.disarm();
        self.safepoint.set_hook(None);
        // What has begun and is here will not run again.
        let left: Vec<_> = self.here.iter().filter(|request| !request.is_null()).collect();
        if !left.is_empty() {
            self.shared.rules.note_left();
        }
        // SAFETY: what is here is ours, and nothing frees it.
        self.resumer.leave_behind(
            self.kthread,
            left.into_iter().map(|&request| unsafe { &(*request).task }),
        );
        if let Some(stack) = self.reserve.take() {
            self.kthread.give_stack_of_request(stack);
        }
        if self.shared.rules.leaves_requests() {
            // A request that was left behind borrows the application, the state of the worker on which it
            // began, and its bytes. Threads that it has started may look at them still.
            std::mem::forget(self.shared.clone());
            std::mem::forget(std::mem::replace(&mut self.state, Box::new(())));
        }
    }
}
