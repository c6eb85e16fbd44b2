//! Weighted round robin (Katevenis, Sidiropoulos and Courcoubetis, 1991; Perséphone, Table 5):
//! classes in turn, and of each as many jobs in its turn as its weight says. A class that has
//! nothing that can be placed loses the rest of its turn; unknown classes get what all others
//! leave. O(classes) a decision. Where jobs are pre-empted, each quantum counts as a job.

use super::{Order, Queues};
use crate::classes::Classes;
use crate::{Job, Nanos, Spec};

/// The order of weighted round robin.
pub struct WeightedRoundRobin {
    /// Whose turn it is, and how many jobs of it are left.
    turn: usize,
    left: u32,
}

impl Order for WeightedRoundRobin {
    fn new(_spec: &Spec, classes: &Classes, _workers: usize, _jobs: usize) -> Self {
        Self { turn: 0, left: classes.plan(0).weight }
    }

    fn choose(&mut self, _now: Nanos, queues: &Queues) -> Option<usize> {
        let known = queues.classes.known();
        if self.left > 0 && queues.has(self.turn) {
            return Some(self.turn);
        }
        match queues.after(self.turn).find(|&class| queues.has(class)) {
            Some(class) => {
                (self.turn, self.left) = (class, queues.classes.plan(class).weight);
                Some(class)
            }
            None => queues.has(known).then_some(known),
        }
    }

    fn placed(&mut self, class: usize, _classes: &Classes, _job: &Job) {
        if class == self.turn {
            self.left = self.left.saturating_sub(1);
        }
    }
}
