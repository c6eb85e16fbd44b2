//! Shinjuku's multi-queue policy, a variant of borrowed virtual time (Kaffes et al., NSDI 2019;
//! Perséphone §5.1): a queue for each class, a quantum each, and a pre-empted job back to the head
//! of its queue. The next job is of the class whose head has been in the system longest, measured by
//! the class's objective ([`crate::ClassPlan::deadline`]), so that neither short classes wait behind
//! long ones nor long ones starve. Unknown classes get what all others leave. O(classes) a decision.

use super::{Order, Queues};
use crate::classes::Classes;
use crate::{Nanos, Spec};

/// The order of Shinjuku's multi-queue policy.
pub struct MultiQueue;

impl Order for MultiQueue {
    const YIELDED_FIRST: bool = true;

    fn new(_spec: &Spec, _classes: &Classes, _workers: usize, _jobs: usize) -> Self {
        Self
    }

    fn choose(&mut self, now: Nanos, queues: &Queues) -> Option<usize> {
        let known = queues.classes.known();
        let mut best: Option<(usize, u128, u128)> = None;
        for class in 0..known {
            let Some(head) = queues.head(class) else { continue };
            let waited = u128::from(now.since(head.arrived).0) + 1;
            let aim = u128::from(queues.classes.deadline(class).0.max(1));
            // A ratio of ratios, without division; of equals the one that was queued first.
            let comes_first = best.is_none_or(|(best, other, its_aim)| {
                let order = (other * aim).cmp(&(waited * its_aim));
                order.then_with(|| queues.seq(class).cmp(&queues.seq(best))).is_lt()
            });
            if comes_first {
                best = Some((class, waited, aim));
            }
        }
        best.map(|(class, ..)| class).or_else(|| queues.has(known).then_some(known))
    }
}
