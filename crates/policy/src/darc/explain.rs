//! What DARC has decided, for people and for statistics.

use super::Darc;
use crate::{ClassId, Nanos};
use std::fmt;
use std::ops::Range;

/// What one class may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The class.
    pub class: ClassId,
    /// Which group it is in: groups go by service time, from 0.
    pub group: u16,
    /// Its mean service time.
    pub service: Nanos,
    /// Its share of the CPU time that all classes need.
    pub share: f64,
    /// Workers that are reserved for its group.
    pub reserved: Range<usize>,
    /// Workers that its group may use while those they are reserved for leave them idle.
    pub stealable: Range<usize>,
}

impl Darc {
    /// The reservations in force, in the order in which classes are served; none before the first
    /// profile. What is in no reservation is served on [`Darc::spillway`].
    pub fn reservations(&self) -> impl Iterator<Item = Reservation> + '_ {
        self.plan.order().iter().map(|&class| {
            let level = self.plan.level(self.plan.level_of(usize::from(class)));
            let (from, to) = (usize::from(level.from), usize::from(level.to));
            let known = &self.profile.known()[usize::from(class)];
            Reservation {
                class: ClassId(class),
                group: level.group,
                service: Nanos(known.mean_ns as u64),
                share: known.share,
                reserved: from..to,
                stealable: to..self.workers.len(),
            }
        })
    }

    /// The workers that serve what has none of its own.
    #[must_use]
    pub fn spillway(&self) -> Range<usize> {
        self.plan.spillway()
    }

    /// How often reservations have been made from what was measured.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// One line: which classes have which workers. `name` knows the classes' names.
    #[must_use]
    pub fn explain(&self, name: impl Fn(ClassId) -> String) -> String {
        let mut groups: Vec<(Vec<String>, Reservation)> = Vec::new();
        for it in self.reservations() {
            match groups.last_mut() {
                Some((names, group)) if group.group == it.group => {
                    names.push(name(it.class));
                    group.share += it.share;
                }
                _ => groups.push((vec![name(it.class)], it)),
            }
        }
        if groups.is_empty() {
            let needs = self.profile.needs();
            let kind = if self.preempts { "ps" } else { "c-fcfs" };
            return format!(
                "{kind} until the first profile ({} of {needs} samples)",
                self.profile.count()
            );
        }
        let mut line = String::new();
        for (names, group) in &groups {
            let demand = group.share * self.workers.len() as f64;
            line += &format!("{} (demand {demand:.2}): {}; ", names.join("+"), Places(group));
        }
        let (spillway, updates) = (Workers(self.spillway()), self.updates);
        line + &format!("spillway {spillway}; {updates} updates")
    }
}

/// Workers for people.
struct Workers(Range<usize>);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("none"),
            1 => write!(f, "{}", self.0.start),
            _ => write!(f, "{}–{}", self.0.start, self.0.end - 1),
        }
    }
}

struct Places<'a>(&'a Reservation);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, more) = (Workers(self.0.reserved.clone()), Workers(self.0.stealable.clone()));
        match (self.0.reserved.is_empty(), self.0.stealable.is_empty()) {
            (false, false) => write!(f, "workers {own}, steals {more}"),
            (false, true) => write!(f, "workers {own}"),
            (true, _) => write!(f, "steals {more}"),
        }
    }
}
