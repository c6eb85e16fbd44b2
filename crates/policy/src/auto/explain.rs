//! What `auto` has chosen and why, for people.

use super::Auto;
use super::estimate::ServiceEstimate;
use crate::{ClassId, Nanos};
use std::fmt::Write;

/// A duration with its unit.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", (ns as f64 / 100.0).round() / 10.0),
        _ => format!("{}ms", (ns as f64 / 1e5).round() / 10.0),
    }
}

impl Auto {
    /// How often it changed its mind: the stretch or the least quantum.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state.changes()
    }

    /// How often it changed its mind, and once more, as soon as it knows service times to go by;
    /// until then 0.
    pub(crate) fn revision(&self) -> u64 {
        let is_known = self.aims[self.aims.len() - 1].is_known();
        if is_known { self.changes() + 1 } else { 0 }
    }

    /// S: how many times its service a request may take.
    #[must_use]
    pub fn stretch(&self) -> u64 {
        self.state.stretch()
    }

    /// For so long a request is left alone that was placed; zero where pre-emptions cost nothing.
    #[must_use]
    pub fn least_quantum(&self) -> Nanos {
        Nanos(self.state.quantum())
    }

    /// One line: the discipline, and what was measured that it follows from. `name` knows the
    /// classes' names.
    #[must_use]
    pub fn explain(&self, name: impl Fn(ClassId) -> String) -> String {
        let all = &self.aims[self.aims.len() - 1];
        if !all.is_known() {
            return "least attained service until the first window".to_owned();
        }
        let mut line = self.discipline(name);
        let cost = self.state.cost_ns().round() as u64;
        match self.state.quantum() {
            _ if !self.reserve.preempts() => {
                let _ = write!(
                    line,
                    "; no pre-emption, {} workers reserved for short ones",
                    self.reserve.workers()
                );
            }
            0 => line += "; pre-empts at once, which costs nothing",
            least => {
                let _ =
                    write!(line, "; pre-empts after {}, which costs {}", time(least), time(cost));
            }
        }
        let (load, tail, changes) = (self.state.load(), self.state.tail(), self.state.changes());
        let _ = write!(line, "; load {load:.2}, p99.9 slowdown {tail:.1}; {changes} changes");
        line
    }

    fn discipline(&self, name: impl Fn(ClassId) -> String) -> String {
        let current = |class: &usize| self.aims[*class].is_current();
        let mut classes: Vec<usize> = (0..self.aims.len() - 1).filter(current).collect();
        if !self.differs() {
            return "first come, first served, as service times hardly vary".to_owned();
        }
        classes.sort_by_key(|&class| self.aims[class].aim(0));
        let unknown = self.aims.len() - 2;
        let show = |&class: &usize| {
            let aims: &ServiceEstimate = &self.aims[class];
            let id = if class == unknown { ClassId::UNKNOWN } else { ClassId(class as u16) };
            let from = time(aims.aim(0));
            match aims.stages() {
                1 => format!("{} {from}", name(id)),
                stages => format!("{} {from} and on in {stages} stages", name(id)),
            }
        };
        let shown: Vec<String> = classes.iter().map(show).collect();
        let stretch = self.state.stretch();
        format!(
            "due {stretch} times what a request may still turn out to take: {}",
            shown.join(", ")
        )
    }
}
