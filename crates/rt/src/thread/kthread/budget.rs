//! How many operations in a row may succeed at once: a thread whose socket, listener or channel is
//! always ready neither blocks nor yields, and would keep its kthread from all others, from timers, and
//! from other sockets.

use super::KThread;
use super::switch::note_leaving;
use crate::block;
use crate::thread::resumer::{self, Left};
use crate::thread::tcb::Tcb;
use crate::timeline::EventKind;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Of operations that may be system calls: some 100 µs.
const OPERATIONS: u32 = 64;

/// The kthread's alone.
#[derive(Default)]
pub(super) struct Budget {
    left: Cell<u32>,
    /// `picks` when it was filled.
    pick: Cell<u32>,
}

impl KThread {
    /// The calling thread or request has had an answer at once. After so many in a row it lets others
    /// run; where that can't be, it goes on.
    #[inline]
    pub fn spend() {
        if let Some(here) = Self::try_here()
            // SAFETY: what runs is alive.
            && let Some(me) = unsafe { here.current.get().as_ref() }
        {
            here.spend_by(me);
        }
    }

    #[inline]
    fn spend_by(&self, me: &Tcb) {
        let picks = self.shared.progress.picks.load(Ordering::Relaxed);
        let left = self.budget.left.get();
        if self.budget.pick.get() == picks && left > 0 {
            self.budget.left.set(left - 1);
        } else {
            let is_over = self.budget.pick.replace(picks) == picks;
            self.budget.left.set(OPERATIONS);
            if is_over {
                self.let_all_run(me);
            }
        }
    }

    /// As [`KThread::yield_now`], and the kthread's own loop looks around before the next thread.
    #[cold]
    #[inline(never)]
    fn let_all_run(&self, me: &Tcb) {
        // In the upper half are locks, whose holders may yield.
        let is_critical = self.safepoint.depth() & 0xffff != 0;
        if is_critical || !block::may_wait() || std::thread::panicking() {
            return;
        }
        if let Some(task) = me.resumed() {
            return resumer::suspend(task, Left::Yielded);
        }
        self.clock_out(me);
        self.push_started(me);
        note_leaving(EventKind::RanUntilYield);
        self.switch_from(me, &raw const self.base);
    }
}
