//! What becomes of activations that are no longer needed, and the end of an engine, on its own thread:
//! what is still here then will not run again.

use super::Engine;
use crate::activation::Activation;
use curtail_policy::JobId;
use curtail_rt::thread::Tcb;
use curtail_rt::wait;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Activations that are kept for the next requests at most, each with its stack.
const KEEP: usize = 16;

impl Engine {
    /// Keeps the activation for another request, or its stack alone.
    pub(super) fn put_away(&mut self, mut activation: Box<Activation>) {
        if self.spare.len() < KEEP {
            self.spare.push(activation);
        } else if let Some(fiber) = activation.fiber.take() {
            fiber.retire(&mut self.stacks);
        }
    }

    /// There is nothing to do: gives the memory back that a peak needed.
    pub(super) fn give_back(&mut self) -> Option<Duration> {
        self.kthread.give_back(&mut self.stacks)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.remote.engine.store(ptr::null_mut(), Ordering::Release);
        self.kthread.engine.set(None);
        self.safepoint.disarm();
        self.safepoint.set_hook(None);
        // What waits will not run again. It takes no wake-up from others, and one that it has had
        // already and did nothing with goes to the next waiter.
        let unlinked = wait::forget(&self.kthread.shared, |job| !Tcb::is_aside(job));
        for (index, &pointer) in self.here.iter().enumerate() {
            if pointer.is_null() {
                continue;
            }
            // SAFETY: what is here is ours.
            let activation = unsafe { Box::from_raw(pointer) };
            let waited = activation.tcb.waits_for.get();
            if waited != 0 && !unlinked.contains(&JobId(index as u32)) {
                wait::wake_one(waited);
            }
            if activation.fiber.as_ref().is_some_and(|fiber| !fiber.is_idle()) {
                // What it waits for refers to it, and so may its own stack, which is left, too.
                self.kthread.abandon_request();
                self.shared.rules.note_left();
                std::mem::forget(activation);
            }
        }
        if self.shared.rules.leaves_requests() {
            // A request that was left behind borrows the application, the state of the worker on which it
            // began, and its bytes. Threads that it has started may look at them still.
            std::mem::forget(self.shared.clone());
            std::mem::forget(std::mem::replace(&mut self.state, Box::new(())));
        }
    }
}
