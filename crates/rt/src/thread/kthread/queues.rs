//! Ready threads: which is next, and which others may take.

use super::switch::note_coming;
use super::{KThread, Shared};
use crate::thread::scheduler::KthreadScheduler;
use crate::thread::task::{self, Task};
use crate::thread::tcb::{Block, Tcb};
use curtail_fiber::Label;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::kthread::queues";

/// Blocks that are kept warm at most.
const WARM: u32 = 64;

impl KThread {
    /// A thread that has not started is to run, here or wherever there is room. What a batch thread
    /// starts is batch, too.
    #[inline]
    pub(in crate::thread) fn launch(&self, block: &Block, batch: bool) {
        // SAFETY: what runs is alive.
        let by_batch = unsafe { self.current.get().as_ref() }.is_some_and(Tcb::is_batch);
        if (batch || by_batch)
            && let Some(scheduler) = &self.scheduler
        {
            return self.launch_batch(block, scheduler);
        }
        block.tcb.set_batch(false);
        block.tcb.moves.set(block.tcb.context.has_own_locals());
        self.shared.push_fresh(&block.tcb);
        self.batch.note_own(&self.shared);
        if let Some(scheduler) = &self.scheduler {
            scheduler.wake_idle();
        }
    }

    /// Launches a thread that gets its stack later. [`KThread::share_spare`] tells the others.
    ///
    /// # Safety
    /// [`Task::renew`] was called, and it has not been handed in since.
    #[inline]
    pub unsafe fn launch_task(&self, task: *const Task) {
        // SAFETY: by contract.
        self.shared.push_fresh(unsafe { &*task }.tcb());
    }

    /// Tells a kthread that sleeps of what this one is not going to run next.
    #[inline]
    pub fn share_spare(&self) {
        if self.has_spare_threads() || !self.local.is_empty() {
            self.scheduler().wake_idle();
        }
    }

    /// A thread that has not started is to start here; `moves`: and may go on elsewhere.
    pub(in crate::thread) fn launch_here(&self, block: &Block, moves: bool) {
        block.tcb.moves.set(moves && block.tcb.context.has_own_locals());
        self.adopt(&block.tcb);
        self.local.push(&block.tcb);
    }

    /// The next ready thread, marked as started here, and current from now on.
    #[inline]
    pub(super) fn pick(&self) -> Option<&'static Tcb> {
        let fresh_first = self.fresh_turn.get() || self.local.is_empty();
        let tcb = if fresh_first && let Some(tcb) = self.pick_fresh() {
            self.fresh_turn.set(false);
            tcb
        } else {
            self.fresh_turn.set(true);
            self.local.pop().or_else(|| self.pick_fresh())?
        };
        self.clock_in(tcb);
        self.count_pick();
        self.current.set(tcb);
        note_coming(tcb);
        Some(tcb)
    }

    #[inline]
    pub(super) fn count_pick(&self) {
        self.note_pick(self.local.len());
    }

    /// The kthread's own loop goes on: nothing waits for a pick.
    #[inline]
    pub fn nothing_runs(&self) {
        let progress = &self.shared.progress;
        self.note_pick(0);
        progress.ready.store(0, Ordering::Relaxed);
        progress.timer.store(0, Ordering::Relaxed);
    }

    /// Something was picked, and so many more are ready.
    #[inline]
    pub fn note_pick(&self, ready: usize) {
        let progress = &self.shared.progress;
        let picks = progress.picks.load(Ordering::Relaxed);
        progress.picks.store(picks.wrapping_add(1), Ordering::Relaxed);
        progress.ready.store(ready + 1, Ordering::Relaxed);
    }

    #[inline(always)]
    fn pick_fresh(&self) -> Option<&'static Tcb> {
        if self.shared.stealable() > 0 { self.take_fresh() } else { None }
    }

    #[inline(never)]
    fn take_fresh(&self) -> Option<&'static Tcb> {
        // Those that are still on their way off another kthread are asked once.
        let mut asked = 0;
        loop {
            if self.shared.overflow.len() > 0 {
                self.refill();
            }
            let tcb = self.shared.fresh.pop();
            // SAFETY: what is in the queue has not ended.
            let tcb = unsafe { tcb.as_ref()? };
            self.note_taken(1);
            if tcb.has_started() {
                if super::moving::goes_on(self, tcb) {
                    return Some(tcb);
                }
                asked += 1;
                if asked > self.shared.stealable() {
                    return None;
                }
            } else if tcb.task().is_none_or(|task| self.equip(task)) {
                self.adopt(tcb);
                return Some(tcb);
            }
        }
    }

    /// Gives a thread the stack that it starts on; false: there is none, and it has ended.
    ///
    /// The caller may be a thread on its way off the processor, which is in another queue already: it
    /// must not block, as it would at a lock of the stacks' reserve.
    fn equip(&self, task: &Task) -> bool {
        let mut equipped = false;
        self.as_plain_thread(|| match self.stacks.take_for_request() {
            Ok(stack) => {
                let worker = self.scheduler.as_ref().map_or(0, KthreadScheduler::index) as u16;
                let job = u64::from(task.tcb().number());
                let label = Label { job, class: task.tcb().class.get(), worker, stack_bytes: 0 };
                task.prepare(stack, label, task::main);
                equipped = true;
            }
            Err(error) => {
                tracing::error!(target: LOG, %error);
                task.come_to_an_end();
            }
        });
        equipped
    }

    /// A thread that has not started is going to do so here.
    #[inline]
    pub(in crate::thread) fn adopt(&self, tcb: &Tcb) {
        self.shared.count_alive(1);
        tcb.home.store(Arc::as_ptr(&self.shared).cast_mut(), Ordering::Release);
    }

    #[cold]
    fn refill(&self) {
        let shared = &self.shared;
        shared.overflow.take(usize::MAX, |tcb| shared.fresh.push(tcb.as_ptr()));
    }

    /// So many were taken out of its queue of those that have not started.
    #[inline]
    pub(super) fn note_taken(&self, count: u32) {
        if let Some(line) = &self.shared.line {
            line.count_taken(count);
        }
    }

    /// Whether there are other kthreads that run threads or requests.
    pub(crate) fn runs_beside_others(&self) -> bool {
        self.scheduler.as_ref().is_none_or(|scheduler| !scheduler.is_the_only_one())
    }

    /// Its place in a runtime.
    pub(in crate::thread) fn scheduler(&self) -> &KthreadScheduler {
        self.scheduler.as_ref().expect("a kthread of a runtime")
    }

    /// Takes threads from another kthread's queue: how many.
    pub(in crate::thread) fn steal_from(&self, victim: &Shared, most: usize) -> usize {
        let stolen = victim.fresh.steal(most, |tcb| {
            // SAFETY: what was in the queue has not ended, and is ours now.
            self.shared.push_fresh(unsafe { &*tcb });
        });
        let taken = match stolen {
            0 => victim.overflow.take(most, |tcb| self.shared.fresh.push(tcb.as_ptr())),
            stolen => stolen,
        };
        // `push_fresh` has counted the others.
        if let Some(ours) = self.shared.line.as_ref().filter(|_| stolen == 0) {
            ours.count_put(taken as u32);
        }
        // A spare kthread has no line.
        if let Some(theirs) = &victim.line {
            theirs.count_taken_by_other(taken as u32);
        }
        taken
    }

    /// How many threads lie here that others may take.
    #[inline]
    pub fn spare_threads(&self) -> usize {
        self.shared.stealable()
    }

    /// Whether others may take some of what it has.
    pub(in crate::thread) fn has_spare_threads(&self) -> bool {
        self.spare_threads() > 1
    }

    /// A block of a thread that has ended, as new but for its packet and calls.
    #[inline]
    pub(in crate::thread) fn take_warm(&self) -> Option<&'static Block> {
        // SAFETY: what is kept warm is alive, and the caller's from here on.
        let block = unsafe { self.warm.get().as_ref()? };
        self.warm.set(block.tcb.link().load(Ordering::Relaxed).cast());
        self.warm_count.set(self.warm_count.get() - 1);
        Some(block)
    }

    /// Keeps a block warm, which is as new; false: it has another stack than is usual, or there are
    /// many.
    #[inline]
    pub(in crate::thread) fn keep_warm(&self, block: &Block) -> bool {
        let keeps = self.stacks.is_usual(&block.stack) && self.warm_count.get() < WARM;
        if keeps {
            block.tcb.link().store(self.warm.get().cast_mut().cast(), Ordering::Relaxed);
            self.warm.set(block);
            self.warm_count.set(self.warm_count.get() + 1);
        }
        keeps
    }

    /// How many threads have started here and have not ended.
    #[inline]
    pub fn alive(&self) -> usize {
        self.shared.alive()
    }

    /// A request that has started here is left where it is, for ever.
    pub fn abandon_request(&self) {
        self.shared.count_alive(1);
    }
}
