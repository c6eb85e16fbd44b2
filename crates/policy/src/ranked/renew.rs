//! Ranks after a change of what they depend on, and those of running jobs, which change by themselves.

use super::{Rank, Ranked};
use crate::{JobId, Nanos, WorkerId};

/// So many running jobs at most are looked at for the last in the order.
const LOOKS: usize = 4;

/// So many waiting jobs are ranked anew at each arrival and completion, where that is due.
const RERANKED: usize = 8;

#[allow(private_bounds, reason = "the members of the family are all in here")]
impl<R: Rank> Ranked<R> {
    /// Ranks some of the waiting jobs anew after the end of an epoch, so that no call takes long. Not
    /// in decisions: one that answers that there is nothing to do must change nothing.
    pub(super) fn rerank(&mut self, now: Nanos) {
        if self.epoch != self.order.epoch() {
            self.epoch = self.order.epoch();
            self.stale = self.chain.head();
            self.running.renew_all(&self.order, now);
        }
        for _ in 0..RERANKED {
            let Some(id) = self.stale else { return };
            self.stale = self.chain.after(id);
            let job = *self.table.job(JobId(id));
            let key = (self.order.rank(&self.classes, &job), self.tickets[id as usize]);
            let mut root = *self.root(&job);
            self.heaps.remove(&mut root, id);
            self.heaps.push(&mut root, id, key);
            *self.root(&job) = root;
            job.pinned.into_iter().for_each(|worker| self.refresh(worker));
        }
    }

    /// Where the last job in the order runs whose place has not been asked for. Where ranks change
    /// while jobs run, what comes last is ranked as it is now, until one stays the last, or after a
    /// few: then it is one of the last. Not for decisions, as above.
    pub(super) fn last_running(&mut self, now: Nanos) -> Option<WorkerId> {
        let mut last = self.running.last()?;
        if R::AGES {
            for _ in 0..LOOKS {
                self.running.renew(&self.order, now, last);
                let before = std::mem::replace(&mut last, self.running.last()?);
                if before == last {
                    break;
                }
            }
        }
        Some(last)
    }
}
