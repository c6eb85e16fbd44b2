//! Deficit round robin (Shreedhar and Varghese, 1995; Perséphone, Table 5): classes in turn, and of
//! each as much service in its turn as its weight says, whatever its jobs' lengths. O(classes) a
//! decision.
//!
//! A network's packets have known lengths; a job's service is known when it has had it. So a job is
//! charged its class's mean service time when it is placed, and the difference to what it took when
//! it comes back or completes: a balance may become negative, and the class then waits until its
//! turns have paid for it. A class of which nothing waits keeps debts, but no savings. Unknown
//! classes get what all others leave, and are charged nothing.

use super::{Order, Queues};
use crate::classes::Classes;
use crate::{Job, JobId, Nanos, Spec};

/// What a turn brings to a class of weight 1, in nanoseconds. With the least balance at hand it
/// decides how finely classes interleave, not how much each gets.
const TURN_NS: i64 = 10_000;

/// The order of deficit round robin.
pub struct DeficitRoundRobin {
    turn: usize,
    /// By class, in nanoseconds.
    balance: Vec<i64>,
    /// What each job has been charged beyond the service that was reported.
    charged: Vec<i64>,
    /// Nothing waited when a class was last asked for, and no balance has changed since.
    at_rest: bool,
}

impl DeficitRoundRobin {
    fn income(queues: &Queues, class: usize) -> i64 {
        TURN_NS * i64::from(queues.classes.plan(class).weight)
    }

    /// Every class that wants a turn is in debt. All get as many rounds at once as the first needs
    /// to be out of it.
    fn pay(&mut self, queues: &Queues) {
        let wants = |class: &usize| queues.has(*class);
        let rounds = (0..queues.classes.known()).filter(wants).map(|class| {
            let owed = 1 - self.balance[class];
            let income = Self::income(queues, class);
            (owed + income - 1) / income
        });
        let rounds = rounds.min().unwrap_or(0).max(0);
        for class in (0..queues.classes.known()).filter(wants) {
            self.balance[class] += rounds * Self::income(queues, class);
        }
    }
}

impl Order for DeficitRoundRobin {
    /// A class that has nothing keeps no balance.
    const FORGETS: bool = true;

    fn new(_spec: &Spec, classes: &Classes, _workers: usize, jobs: usize) -> Self {
        Self { turn: 0, balance: vec![0; classes.len()], charged: vec![0; jobs], at_rest: false }
    }

    fn choose(&mut self, _now: Nanos, queues: &Queues) -> Option<usize> {
        let known = queues.classes.known();
        if queues.table.waiting() == 0 {
            if !std::mem::replace(&mut self.at_rest, true) {
                self.balance[..known].iter_mut().for_each(|balance| *balance = (*balance).min(0));
            }
            return None;
        }
        self.at_rest = false;
        if self.balance[self.turn] > 0 && queues.has(self.turn) {
            return Some(self.turn);
        }
        if !queues.waits(self.turn) {
            self.balance[self.turn] = self.balance[self.turn].min(0);
        }
        let mut wanted = false;
        for class in queues.after(self.turn) {
            if !queues.has(class) {
                if !queues.waits(class) {
                    self.balance[class] = self.balance[class].min(0);
                }
                continue;
            }
            wanted = true;
            self.balance[class] += Self::income(queues, class);
            if self.balance[class] > 0 {
                self.turn = class;
                return Some(class);
            }
        }
        if !wanted {
            return queues.has(known).then_some(known);
        }
        self.pay(queues);
        self.turn =
            queues.after(self.turn).find(|&class| queues.has(class) && self.balance[class] > 0)?;
        Some(self.turn)
    }

    fn placed(&mut self, class: usize, classes: &Classes, job: &Job) {
        if classes.is_known(class) {
            let mean = classes.service(class).unwrap_or(Nanos::ZERO).0 as i64;
            self.balance[class] -= mean;
            self.charged[job.id.0 as usize] = mean;
        }
    }

    fn served(&mut self, class: usize, classes: &Classes, id: JobId, service: Nanos) {
        if classes.is_known(class) {
            let charged = std::mem::take(&mut self.charged[id.0 as usize]);
            self.balance[class] += charged - service.0 as i64;
            self.at_rest = false;
        }
    }
}
