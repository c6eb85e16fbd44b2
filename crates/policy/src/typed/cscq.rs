//! Cycle stealing with central queue (Harchol-Balter et al., SPAA 2003; Perséphone, Table 5), for
//! any number of workers and classes. Each class has a share of the workers by its weight; a class
//! uses its own share and what classes of longer jobs leave of theirs, never that of shorter ones.
//!
//! Shares are numbers, not particular workers: if a worker becomes free while another runs a short
//! job on a long class's account, the two change roles, as the hosts of the original do.
//!
//! A free place goes to the oldest job of a class within its own share; if there is none, to the
//! shortest class that may take it from the longer ones. Classes are ordered by mean service time,
//! planned or measured. Without plans no class has a limit. Unknown classes count as the longest and
//! get what all others leave. O(classes) a decision.
//!
//! So it is not work-conserving, as the original is not: with one host for each of two classes, no
//! two long jobs are in service together, and the second host waits for a short one.
//!
//! The invariant: classes from any place in that order onwards never hold more places together than
//! their shares together, except those that were taken over in a live switch.

use super::share::Shares;
use super::{Order, Queues};
use crate::classes::Classes;
use crate::{Nanos, Spec};

/// The order of cycle stealing with central queue.
pub struct CycleStealing {
    /// Places that each class may hold on its own account.
    share: Vec<u32>,
    held: Vec<u32>,
    /// The known classes, shortest first.
    order: Vec<u16>,
}

impl CycleStealing {
    /// How many classes, from the shortest on, may have one more place: before the first from which
    /// on all together hold what they may. (Where classes outnumber workers, the last of them may
    /// have no share of their own; one place is always theirs.)
    fn open(&self) -> usize {
        let (mut share, mut held) = (0, self.held[self.order.len()]);
        let mut open = self.order.len();
        for at in (1..self.order.len()).rev() {
            let class = usize::from(self.order[at]);
            (share, held) = (share + self.share[class], held + self.held[class]);
            if held >= share.max(1) {
                open = at;
            }
        }
        open
    }

    /// A class's mean has changed: it moves to where it belongs.
    fn sort(&mut self, class: usize, classes: &Classes) {
        let key = |class: u16| (classes.service(usize::from(class)), class);
        let Some(mut at) = self.order.iter().position(|&c| usize::from(c) == class) else { return };
        while at > 0 && key(self.order[at - 1]) > key(self.order[at]) {
            self.order.swap(at - 1, at);
            at -= 1;
        }
        while at + 1 < self.order.len() && key(self.order[at]) > key(self.order[at + 1]) {
            self.order.swap(at, at + 1);
            at += 1;
        }
    }
}

impl Order for CycleStealing {
    fn new(spec: &Spec, classes: &Classes, workers: usize, _jobs: usize) -> Self {
        let Shares { group_of, sizes } = Shares::of(spec, workers);
        // Without plans every class may have every worker.
        let alike = spec.classes.is_empty();
        let first = |class: usize| alike || class == 0 || group_of[class - 1] != group_of[class];
        let places = |class: usize| sizes[group_of[class]] as u32 * u32::from(spec.jbsq);
        let share = (0..classes.known()).map(|class| if first(class) { places(class) } else { 0 });
        let mut order: Vec<u16> = (0..classes.known() as u16).collect();
        order.sort_by_key(|&class| (classes.service(usize::from(class)), class));
        Self { share: share.collect(), held: vec![0; classes.len()], order }
    }

    fn choose(&mut self, _now: Nanos, queues: &Queues) -> Option<usize> {
        let open = self.open();
        let may = self.order[..open].iter().map(|&class| usize::from(class));
        let may = may.filter(|&class| queues.has(class));
        let own = may.clone().filter(|&class| self.held[class] < self.share[class]);
        let known = self.order.len();
        own.min_by_key(|&class| queues.seq(class))
            .or_else(|| may.clone().next())
            .or_else(|| (open == known && queues.has(known)).then_some(known))
    }

    fn occupied(&mut self, class: usize) {
        self.held[class] += 1;
    }

    fn vacated(&mut self, class: usize) {
        self.held[class] -= 1;
    }

    fn learnt(&mut self, class: usize, classes: &Classes) {
        self.sort(class, classes);
    }
}
