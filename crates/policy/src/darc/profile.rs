//! What DARC knows of the classes: the profiling window that fills with arrivals and completions, the
//! profile in force, and when the one replaces the other (Perséphone §3 and §4.3.3).
//!
//! Owned by one [`Darc`](super::Darc). A class's CPU demand is its mean service time times its
//! share of the requests, over the sum of all classes' (equation 1). Service times are known of what
//! completed, shares of what came: a class that is starved, or refused, completes less than it
//! needs, and must not lose its workers for that. Where more completed than came, as from a queue
//! that shrinks, what completed counts.
//!
//! The first time that a request waits for too long, the window is emptied: what is in it by then may
//! be of another workload than what made that request wait.

use crate::{Dispatch, Nanos, Spec};

/// One class in the window that is being filled.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// How many came, refused ones included.
    arrived: u64,
    /// How many completed, and after how much service in all.
    count: u64,
    total_ns: u64,
    squares: f64,
}

impl Seen {
    /// What its requests of this window need in all, where nothing else is known of it than this.
    fn demand_ns(&self, known: &Known) -> f64 {
        let total_ns = self.total_ns as f64;
        match (self.arrived, self.count) {
            (arrived, 0) => arrived as f64 * known.mean_ns,
            (arrived, count) if arrived <= count => total_ns,
            (arrived, count) => total_ns * (arrived as f64 / count as f64),
        }
    }
}

/// One class in the profile in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Known {
    /// Mean service time; zero: the class has never been profiled.
    pub(crate) mean_ns: f64,
    /// Share of the CPU time that all classes need; zero: nothing of it came in the last window.
    pub(crate) share: f64,
    /// Squared coefficient of variation of its service times.
    pub(crate) scv: f64,
    /// Waiting for longer than this violates the objective.
    patience: Nanos,
}

/// A window that has been filled so many times over without need for an update gives way to an
/// empty one: what is old says nothing of the present.
const WINDOW_AGE: u64 = 2;

/// DARC-static only asks which class is shorter, not how much of it comes: so many completions of
/// each class are its first profile. (Of two exponential classes, one's mean twice the other's, this
/// takes the wrong one for the shorter in 3 of 100 cases.)
const TO_ORDER: u64 = 16;

/// What DARC knows of the classes, with the window that fills.
pub(crate) struct Profile {
    /// As many completions a window needs.
    samples: u64,
    slowdown: u64,
    deviation: f64,
    /// Every window is put into force.
    always: bool,
    /// The first window is one when it says in which order the classes are.
    orders: bool,
    /// By class; the unknown class is in neither table.
    seen: Vec<Seen>,
    known: Vec<Known>,
    /// Completions in this window.
    count: u64,
    /// Looked at again when there are so many.
    next_look: u64,
    /// A request has waited for too long in this window.
    violated: bool,
    /// There is a profile.
    in_force: bool,
}

impl Profile {
    /// For classes of which `spec` may know how long they take and how often they come. Where it
    /// does so of some (of DARC-static, how long they take is enough), that is the first profile;
    /// stated service times are taken not to vary until they are measured.
    pub(crate) fn new(spec: &Spec) -> Self {
        let classes = spec.class_count();
        let samples = u64::from(spec.darc.window);
        let orders = spec.dispatch == Dispatch::DarcStatic;
        let nothing = Known { patience: Nanos::MAX, ..Known::default() };
        let mut profile = Self {
            samples,
            slowdown: u64::from(spec.darc.slowdown),
            deviation: f64::from(spec.darc.deviation_percent) / 100.0,
            always: spec.shares(),
            orders,
            seen: vec![Seen::default(); classes],
            known: vec![nothing; classes],
            count: 0,
            next_look: 0,
            violated: false,
            in_force: false,
        };
        for (seen, plan) in profile.seen.iter_mut().zip(&spec.classes) {
            let Some(Nanos(service)) = plan.service else { continue };
            let count = u64::from(plan.occurrence.unwrap_or(u32::from(orders)));
            seen.count = count;
            seen.total_ns = count.saturating_mul(service);
            seen.squares = count as f64 * (service as f64 * service as f64);
        }
        profile.look_later();
        if profile.says_something() {
            profile.adopt_window();
        }
        profile
    }

    /// There is a profile.
    pub(crate) fn is_in_force(&self) -> bool {
        self.in_force
    }

    /// By class.
    pub(crate) fn known(&self) -> &[Known] {
        &self.known
    }

    /// Completions that a window needs.
    pub(crate) fn needs(&self) -> u64 {
        self.samples
    }

    /// Completions in the window that is being filled.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A request of that class has come.
    #[inline]
    pub(crate) fn arrived(&mut self, class: usize) {
        if let Some(seen) = self.seen.get_mut(class) {
            seen.arrived += 1;
        }
    }

    /// A request of that class was dispatched after `delay` in its queue, or still waits after it.
    #[inline]
    pub(crate) fn waited(&mut self, class: usize, delay: Nanos) {
        if self.known.get(class).is_some_and(|known| delay > known.patience) {
            self.violate();
        }
    }

    /// A request of that class has come and was turned away, as there was no room.
    pub(crate) fn refused(&mut self, class: usize) {
        self.violate();
        self.arrived(class);
    }

    /// The objective is violated. The first time a window begins that has nothing of before; not
    /// where each window is put into force.
    fn violate(&mut self) {
        if !self.violated && self.in_force && !self.always {
            self.clear();
        }
        self.violated = true;
    }

    /// A request of that class has completed after so much of a worker's time. True: it is time for
    /// [`Profile::update`].
    pub(crate) fn completed(&mut self, class: usize, service: Nanos) -> bool {
        let Some(seen) = self.seen.get_mut(class) else { return false };
        seen.count += 1;
        seen.total_ns = seen.total_ns.saturating_add(service.0);
        seen.squares += service.0 as f64 * service.0 as f64;
        self.count += 1;
        self.count >= self.next_look || self.orders && !self.in_force && self.shows_order()
    }

    /// Looks at the window again after a sixteenth of it, and when it is full.
    fn look_later(&mut self) {
        let next = self.count + (self.samples / 16).max(1);
        self.next_look = if self.count < self.samples { next.min(self.samples) } else { next };
    }

    /// It has as many completions as it needs.
    fn is_full(&self) -> bool {
        self.count >= self.samples || self.orders && !self.in_force && self.shows_order()
    }

    fn shows_order(&self) -> bool {
        self.seen.iter().all(|seen| seen.count >= TO_ORDER)
    }

    /// Puts a full window into force if it is the first, or if the objective was violated and some
    /// class's demand is another one by now, or always where reservations are not all that depends on
    /// it; true: it did. A window that has become too old to say anything of the present gives way to
    /// an empty one.
    pub(crate) fn update(&mut self) -> bool {
        self.look_later();
        if !self.is_full() {
            return false;
        }
        let due = !self.in_force || self.always || self.violated && self.deviates();
        if due && self.says_something() {
            self.adopt_window();
            return true;
        }
        if self.count >= WINDOW_AGE * self.samples {
            self.clear();
        }
        false
    }

    /// A window in which nothing took any time says nothing.
    fn says_something(&self) -> bool {
        self.seen.iter().any(|seen| seen.total_ns > 0)
    }

    /// What all classes need together.
    fn total_ns(&self) -> f64 {
        self.seen.iter().zip(&self.known).map(|(seen, known)| seen.demand_ns(known)).sum()
    }

    /// The demand of some class differs from the one in force by the given part of it.
    fn deviates(&self) -> bool {
        let total = self.total_ns();
        self.seen.iter().zip(&self.known).any(|(seen, known)| {
            let share = seen.demand_ns(known) / total.max(1.0);
            let change = (share - known.share).abs();
            change > 0.0 && change >= self.deviation * known.share
        })
    }

    fn adopt_window(&mut self) {
        let total = self.total_ns();
        for (seen, known) in self.seen.iter().zip(&mut self.known) {
            known.share = seen.demand_ns(known) / total;
            if seen.total_ns > 0 {
                let mean = seen.total_ns as f64 / seen.count as f64;
                let variance = seen.squares / seen.count as f64 - mean * mean;
                (known.mean_ns, known.scv) = (mean, (variance / (mean * mean)).max(0.0));
            }
            // What is not profiled is not expected: it has no reservation, and any delay counts.
            let mean = if known.share > 0.0 { known.mean_ns as u64 } else { 0 };
            known.patience = Nanos(mean.saturating_mul(self.slowdown));
        }
        self.in_force = true;
        self.clear();
    }

    fn clear(&mut self) {
        self.seen.fill(Seen::default());
        (self.count, self.violated) = (0, false);
        self.look_later();
    }
}

#[cfg(test)]
mod tests;
