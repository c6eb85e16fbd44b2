//! Ranks after a change of what they depend on.

use super::{Rank, Ranked};
use crate::{JobId, Nanos};

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
}
