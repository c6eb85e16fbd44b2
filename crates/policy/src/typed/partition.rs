//! Static partitioning (Perséphone, Table 5): each class has its own workers, as many as its weight
//! says, and a queue of its own in front of them; no class uses another's workers, busy or not.
//! With more classes than workers, neighbouring classes share one in the order of arrival. Unknown
//! classes get what the last class leaves. Without plans there is nothing to divide: one queue for
//! all. O(classes) a decision.

use super::share::Shares;
use super::{Order, Queues};
use crate::classes::Classes;
use crate::{Nanos, Spec};

/// The order of static partitioning.
pub struct StaticPartition;

impl Order for StaticPartition {
    fn new(_spec: &Spec, _classes: &Classes, _workers: usize, _jobs: usize) -> Self {
        Self
    }

    fn shares(spec: &Spec, workers: usize) -> Shares {
        Shares::of(spec, workers)
    }

    /// The oldest that can be placed.
    fn choose(&mut self, _now: Nanos, queues: &Queues) -> Option<usize> {
        let known = queues.classes.known();
        let oldest = (0..known).filter(|&class| queues.has(class)).min_by_key(|&c| queues.seq(c));
        oldest.or_else(|| queues.has(known).then_some(known))
    }
}
