//! What the dispatcher may take from an engine whose thread is in a handler.
//!
//! The worker's thread says when it goes into a handler and when it is back; the dispatcher's comes in
//! between (`Remote::absence`), and touches the core policy, the inbox, and what says whether a job has
//! started.

use super::Engine;
use curtail_policy::{CorePolicy, JobId};
use curtail_ring::spsc;
use curtail_rt::fences;
use std::sync::Arc;

impl Engine {
    /// Calls what does not touch the engine but by [`Engine::back`].
    ///
    /// # Safety
    /// `this` is this thread's engine, and the caller holds no reference into it.
    #[inline]
    pub(crate) unsafe fn away<R>(this: *mut Self, f: impl FnOnce() -> R) -> R {
        // SAFETY: by contract. What others touch of it lies behind this pointer, which they do not.
        let remote = unsafe { &*Arc::as_ptr(&(*this).remote) };
        remote.absence.begin();
        let result = f();
        remote.absence.end(fences::frequent);
        result
    }

    /// Calls `f` with the engine, out of what [`Engine::away`] calls.
    ///
    /// # Safety
    /// As for that.
    #[inline]
    pub(crate) unsafe fn back<R>(this: *mut Self, f: impl FnOnce(&mut Self) -> R) -> R {
        // SAFETY: as above; nothing else refers to the engine once the absence has ended.
        unsafe {
            let remote = &*Arc::as_ptr(&(*this).remote);
            remote.absence.end(fences::frequent);
            let result = f(&mut *this);
            remote.absence.begin();
            result
        }
    }

    /// Takes out the jobs that have not started, oldest first.
    pub(crate) fn take_back(&mut self, now: u64, jobs: &mut Vec<JobId>) {
        let time = self.shared.clock.nanos(now);
        let mut started = Vec::new();
        while let Some((job, _)) = self.core.pick(time) {
            match self.here[job.id.0 as usize].is_null() {
                true => {
                    self.unstarted -= 1;
                    jobs.push(job.id);
                }
                false => started.push(job),
            }
        }
        started.into_iter().for_each(|job| self.core.ready(time, job));
        while let Some(message) = self.inbox().and_then(spsc::Consumer::pop) {
            match message.resume.is_null() {
                true => jobs.push(message.job),
                false => self.admit(message, now),
            }
        }
    }

    /// How many jobs are ready here that have started: no other worker can go on with them.
    pub(super) fn stranded(&self) -> usize {
        self.core.len() - self.unstarted + self.last.len()
    }

    /// Whether messages lie in the inbox, for others to ask.
    pub(super) fn publish_mail(&self) {
        if let Some(links) = &self.links {
            let gauge = links.inbox.gauge();
            self.remote.kthread.set_mail(Box::new(move || !gauge.is_empty()));
        }
    }
}
