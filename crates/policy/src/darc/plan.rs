//! Which class goes first, and which workers it may have: grouping, demand and rounding, and the
//! reservations that follow (Perséphone §3, Algorithm 2).
//!
//! Workers are given out in ascending order to groups in ascending order of service time. What a
//! group may use is its own workers and, because shorter requests may steal from longer ones but
//! never the other way round, all those after them. So a range is all there is to a reservation:
//! `from` the first worker of its own, up to the last of the machine; and the ranges are nested.
//! The last worker (or workers) is the spillway: it serves the groups that come too late to get a
//! worker, and the classes that are not profiled.

use super::profile::Known;
use crate::{Dispatch, Nanos, Spec};
use std::ops::Range;

/// How demands become whole workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Rounded, and one at least (Algorithm 2).
    Rounded,
    /// So many for the shortest class, and the others share the rest (DARC-static, §5.3).
    Fixed(u16),
    /// For requests shorter than a quantum, which would feel the wait for the end of one, as many
    /// as they keep busy nearly all the time: a demand of d workers, less √d. Everything else is
    /// served by pre-emption, on workers that others may use too.
    Busy,
}

impl Rule {
    fn of(spec: &Spec, workers: usize) -> Self {
        match spec.dispatch {
            Dispatch::DarcStatic => {
                let all_but_one = workers as u16 - 1;
                Self::Fixed(spec.reserved.unwrap_or(1).min(all_but_one))
            }
            _ if spec.shares() => Self::Busy,
            _ => Self::Rounded,
        }
    }
}

/// Classes of one priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Which group, in ascending order of service time.
    pub(crate) group: u16,
    /// The first worker it may use; the last is the machine's last.
    pub(crate) from: u16,
    /// The end of the workers that are reserved for it.
    pub(crate) to: u16,
    /// A class of it.
    pub(crate) class: u16,
    /// Shortest mean service time in it.
    pub(crate) least_ns: f64,
    /// Which jobs go first in it.
    pub(crate) order: Order,
}

/// Which jobs go first among those of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one that was queued first; a pre-empted job was queued when it was pre-empted.
    Queueing,
    /// Those that have started: service times hardly vary, so that all had better be served to the
    /// end in turn.
    StartedFirst,
    /// Those that have not started: service times vary much, so that such a job is probably shorter
    /// than what is left of one that has had a quantum and not come to its end.
    FreshFirst,
}

/// Service times of a higher squared coefficient of variation vary much: 0 is one and the same
/// service time, 1 is the exponential distribution.
const STEADY_SCV: f64 = 0.5;

/// DARC's plan: the order of the classes, and the workers that each may have.
pub(crate) struct Plan {
    workers: usize,
    /// The first worker of the spillway.
    spillway: usize,
    rule: Rule,
    /// Classes within this factor of each other form a group.
    delta: f64,
    /// Priority goes by group; otherwise by class.
    by_group: bool,
    /// By class, the unknown one last: its level.
    level_of: Vec<u16>,
    /// In the order of priority. The last is for what is not profiled, unless it is the only one.
    levels: Vec<Level>,
    /// Profiled classes in ascending order of service time.
    order: Vec<u16>,
}

impl Plan {
    /// All share everything until the first profile.
    pub(crate) fn new(spec: &Spec, workers: usize) -> Self {
        let classes = spec.class_count();
        let rule = Rule::of(spec, workers);
        let mut levels = Vec::with_capacity(classes + 1);
        let to = workers as u16;
        levels.push(Level {
            group: 0,
            from: 0,
            to,
            class: 0,
            least_ns: 0.0,
            order: Order::Queueing,
        });
        Self {
            workers,
            spillway: workers.saturating_sub(usize::from(spec.darc.spillway)),
            rule,
            delta: f64::from(spec.darc.delta_percent) / 100.0,
            by_group: spec.shares(),
            level_of: vec![0; classes + 1],
            levels,
            order: Vec::with_capacity(classes),
        }
    }

    /// The workers that serve what has none of its own.
    pub(crate) fn spillway(&self) -> Range<usize> {
        self.spillway..self.workers
    }

    /// The level of a class.
    pub(crate) fn level_of(&self, class: usize) -> u16 {
        self.level_of[class]
    }

    pub(crate) fn level(&self, level: u16) -> &Level {
        &self.levels[usize::from(level)]
    }

    /// Profiled classes in ascending order of service time; none before the first profile.
    pub(crate) fn order(&self) -> &[u16] {
        &self.order
    }

    /// The workers that a level may use and that no shorter one has for itself.
    pub(crate) fn reach(&self, level: u16) -> Range<usize> {
        usize::from(self.level(level).from)..self.workers
    }

    /// Where a job of that class is to queue once it has had `attained`: with its own class, or
    /// with the longer ones that it has turned out to be like.
    pub(crate) fn queue_of(&self, class: usize, attained_ns: u64) -> usize {
        let own = self.level_of[class];
        let last_profiled = self.levels.len().saturating_sub(2) as u16;
        let alike = |level: u16| attained_ns as f64 * self.delta >= self.level(level).least_ns;
        match (own + 1..=last_profiled).rev().find(|&level| alike(level)) {
            Some(longer) => usize::from(self.level(longer).class),
            None => class,
        }
    }

    /// New reservations for what is known of each class, and quanta of that length.
    pub(crate) fn make(&mut self, known: &[Known], quantum: Option<Nanos>) {
        let quantum_ns = quantum.map_or(0.0, |quantum| quantum.0 as f64);
        self.sort(known);
        self.levels.clear();
        let (mut next, mut done, mut group) = (0, 0, 0);
        while done < self.order.len() {
            let size = self.group_size(done, known);
            let members = done..done + size;
            let last = members.end == self.order.len();
            let share: f64 = self.order[members.clone()]
                .iter()
                .map(|&class| known[usize::from(class)].share)
                .sum();
            let brief = known[usize::from(self.order[done])].mean_ns < quantum_ns;
            let (from, to) = self.workers_for(share, next, group, (last, brief));
            self.add_levels(members, group, from as u16..to as u16, known);
            next = if to < self.workers { to } else { self.spillway };
            (done, group) = (done + size, group + 1);
        }
        self.add_spillway(group);
    }

    fn sort(&mut self, known: &[Known]) {
        let profiled = |class: &u16| known[usize::from(*class)].share > 0.0;
        self.order.clear();
        self.order.extend((0..known.len() as u16).filter(profiled));
        let mean = |class: u16| known[usize::from(class)].mean_ns;
        self.order.sort_unstable_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
    }

    /// How many classes from place `first` of the order on are within δ of each other.
    fn group_size(&self, first: usize, known: &[Known]) -> usize {
        if matches!(self.rule, Rule::Fixed(_)) {
            return 1;
        }
        let mean = |place: usize| known[usize::from(self.order[place])].mean_ns;
        let limit = mean(first) * self.delta;
        let outside = (first + 1..self.order.len()).find(|&place| mean(place) > limit);
        outside.unwrap_or(self.order.len()) - first
    }

    /// The workers of a group, the next free one being `next`: whether it is the `last` group, and
    /// whether its requests are shorter than a quantum, `brief`.
    fn workers_for(
        &self,
        share: f64,
        next: usize,
        group: u16,
        (last, brief): (bool, bool),
    ) -> (usize, usize) {
        let demand = share * self.workers as f64;
        // A demand of 3 may have come out a little below it.
        let wanted = match self.rule {
            Rule::Rounded => ((demand + 0.5).floor() as usize).max(1),
            Rule::Busy if last => self.workers,
            Rule::Busy if brief => (demand - demand.sqrt()).max(0.0).floor() as usize,
            Rule::Busy => 0,
            Rule::Fixed(reserved) if group == 0 => usize::from(reserved),
            Rule::Fixed(reserved) => {
                return (usize::from(reserved).min(self.spillway), self.workers);
            }
        };
        (next, (next + wanted).min(self.workers))
    }

    fn add_levels(&mut self, members: Range<usize>, group: u16, own: Range<u16>, known: &[Known]) {
        for place in members.clone() {
            let class = self.order[place];
            let known = &known[usize::from(class)];
            let order = match self.by_group {
                false => Order::Queueing,
                true if known.scv <= STEADY_SCV => Order::StartedFirst,
                true => Order::FreshFirst,
            };
            if self.by_group && place > members.start {
                let level = self.levels.last_mut().expect("the group's first class made it");
                if order == Order::FreshFirst {
                    level.order = order;
                }
            } else {
                self.levels.push(Level {
                    group,
                    from: own.start,
                    to: own.end,
                    class,
                    least_ns: known.mean_ns,
                    order,
                });
            }
            self.level_of[usize::from(class)] = (self.levels.len() - 1) as u16;
        }
    }

    /// The last level: what is not profiled, on the spillway.
    fn add_spillway(&mut self, group: u16) {
        let level = self.levels.len() as u16;
        let unknown = (self.level_of.len() - 1) as u16;
        let (from, to) = (self.spillway as u16, self.workers as u16);
        let least_ns = f64::INFINITY;
        self.levels.push(Level {
            group,
            from,
            to,
            class: unknown,
            least_ns,
            order: Order::Queueing,
        });
        for class in (0..self.level_of.len()).filter(|&c| !self.order.contains(&(c as u16))) {
            self.level_of[class] = level;
        }
    }
}
