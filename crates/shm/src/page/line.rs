//! A kthread's line, at hand.

use super::{Line, Page, run_queue};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A kthread's line, for code that writes it often: without a look for where it lies.
#[derive(Clone)]
pub struct PageLine {
    line: NonNull<Line>,
    /// Keeps it where it is.
    page: Arc<Page>,
    index: u32,
}

// SAFETY: a line consists of atomics, in memory that the page keeps.
unsafe impl Send for PageLine {}
// SAFETY: as above.
unsafe impl Sync for PageLine {}

impl PageLine {
    /// That kthread's.
    ///
    /// # Panics
    /// Where there is no such kthread.
    #[must_use]
    pub fn of(page: &Arc<Page>, index: u32) -> Self {
        Self { line: NonNull::from(page.line(index)), page: page.clone(), index }
    }

    #[inline]
    fn line(&self) -> &Line {
        // SAFETY: within the page's memory, which lives as long as `page`; atomics.
        unsafe { self.line.as_ref() }
    }

    /// The page, and whose line it is.
    #[must_use]
    pub fn place(&self) -> (&Page, u32) {
        (&self.page, self.index)
    }

    /// So many were put into the run queue. By the kthread.
    #[inline]
    pub fn count_put(&self, count: u32) {
        let tail = &self.line().own.run_tail;
        tail.store(tail.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// So many were taken out of the run queue. By the kthread.
    #[inline]
    pub fn count_taken(&self, count: u32) {
        let head = &self.line().own.run_head;
        head.store(head.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// One more was put into the run queue. By another than the kthread.
    pub fn count_put_by_other(&self) {
        self.line().common.run_put.fetch_add(1, Ordering::Release);
    }

    /// So many were taken out of the run queue. By another than the kthread.
    pub fn count_taken_by_other(&self, count: u32) {
        self.line().common.run_taken.fetch_add(count, Ordering::Release);
    }

    /// One more is about to be put into the inbox: counted before, so that the queue never looks
    /// shorter than it is. By any thread.
    #[inline]
    pub fn add_to_inbox(&self) {
        self.line().common.inbox_tail.fetch_add(1, Ordering::Release);
    }

    /// So many were taken out of the inbox. By the kthread.
    #[inline]
    pub fn count_taken_in(&self, count: u32) {
        let head = &self.line().own.inbox_head;
        head.store(head.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// The kthread is stuck in a system call: its core is free. By another thread of its program.
    pub fn give_core_back(&self) -> bool {
        self.line().own.state.give_core_back()
    }

    /// What is in the run queue, by these counters. For the kthread.
    #[must_use]
    pub fn run_queue(&self) -> (u32, u32) {
        let (own, common) = (&self.line().own, &self.line().common);
        run_queue(own, common)
    }
}
