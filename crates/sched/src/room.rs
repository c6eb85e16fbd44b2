//! Who is let in. Of a scarce thing (slots for requests, or bytes of them) each class has a part that
//! no other class takes, so that a flood of one class refuses that class alone; and of each class so
//! many may wait as its plan says.

use crate::{Setup, Where};
use curtail_policy::{ClassId, Job, Spec};

/// Room for so many units of something. Half of it is kept for the classes that are known, each as
/// much as another; the other half is for whichever class comes first. Unknown classes have nothing
/// for themselves.
pub struct Shares {
    /// What each known class has for itself.
    own: u64,
    /// By class, the unknown ones together last.
    used: Box<[u64]>,
    /// What is left of the common part; below zero where a switch has divided the room anew.
    common: i64,
}

impl Shares {
    /// Room for `total` units, and so many known classes.
    #[must_use]
    pub fn new(total: u64, classes: usize) -> Self {
        Self::keeping(total / (2 * classes.max(1) as u64), total, classes)
    }

    /// Room for `total` units, of which nothing is kept for a class.
    #[must_use]
    pub fn in_common(total: u64, classes: usize) -> Self {
        Self::keeping(0, total, classes)
    }

    fn keeping(own: u64, total: u64, classes: usize) -> Self {
        let used = vec![0; classes + 1].into_boxed_slice();
        Self { own, used, common: (total - own * classes as u64) as i64 }
    }

    /// The index of a class in tables that have the unknown ones last.
    #[inline]
    fn index(&self, class: ClassId) -> usize {
        usize::from(class.0).min(self.used.len() - 1)
    }

    /// What a class that has `used` takes of the common part.
    #[inline]
    fn beyond(&self, index: usize, used: u64) -> u64 {
        let own = if index + 1 == self.used.len() { 0 } else { self.own };
        used.saturating_sub(own)
    }

    /// How many the class has.
    #[must_use]
    pub fn used(&self, class: ClassId) -> u64 {
        self.used[self.index(class)]
    }

    /// Whether the class may have so many more.
    #[inline]
    #[must_use]
    pub fn fits(&self, class: ClassId, units: u64) -> bool {
        let index = self.index(class);
        let used = self.used[index];
        let more = self.beyond(index, used.saturating_add(units)) - self.beyond(index, used);
        more == 0 || i64::try_from(more).is_ok_and(|more| more <= self.common)
    }

    /// The class has so many more, which fit.
    #[inline]
    pub fn take(&mut self, class: ClassId, units: u64) {
        let index = self.index(class);
        let (before, after) = (self.used[index], self.used[index] + units);
        self.common -= (self.beyond(index, after) - self.beyond(index, before)) as i64;
        self.used[index] = after;
    }

    /// The class has so many less.
    #[inline]
    pub fn give(&mut self, class: ClassId, units: u64) {
        let index = self.index(class);
        let (before, after) = (self.used[index], self.used[index] - units);
        self.common += (self.beyond(index, before) - self.beyond(index, after)) as i64;
        self.used[index] = after;
    }

    /// Nothing is left of the common part, so that some class is refused, or will be soon.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.common <= 0
    }
}

/// Of one class.
#[derive(Clone, Copy)]
struct Crowd {
    /// With the policy, started or not.
    waiting: u32,
    /// As many may be.
    bound: u32,
}

/// The requests in a system, by class: a scheduler's, or those of workers without a dispatcher.
pub struct Room {
    slots: Shares,
    /// As in `slots`.
    crowds: Box<[Crowd]>,
    /// What waits, waits on workers: all that are in the system are taken for waiting.
    two_level: bool,
    /// Some class may be refused where there is a slot. Otherwise nothing is counted.
    counts: bool,
}

impl Room {
    /// For so many requests, under that policy, whose plans say how many of each class may wait.
    /// `keeps`: each class has part of the room for itself.
    #[must_use]
    pub fn new(spec: &Spec, requests: usize, keeps: bool) -> Self {
        let classes = spec.class_count();
        let shares = if keeps { Shares::new } else { Shares::in_common };
        let bound = |class| spec.plan(class).bound.unwrap_or(u32::MAX);
        Self {
            slots: shares(requests as u64, classes),
            crowds: (0..=classes).map(|class| Crowd { waiting: 0, bound: bound(class) }).collect(),
            two_level: spec.is_two_level(),
            counts: keeps || spec.classes.iter().any(|plan| plan.bound.is_some()),
        }
    }

    /// The room for another policy, under which these jobs go on.
    pub(crate) fn of(setup: &Setup, jobs: impl Iterator<Item = (Job, Where, bool)>) -> Self {
        let mut room = Self::new(&setup.spec, setup.jobs, setup.keeps_room);
        for (job, at, is_policys) in jobs {
            room.comes(job.class);
            if !(is_policys && at == Where::Waiting) {
                room.placed(job.class);
            }
        }
        room
    }

    /// Whether another job of the class is let in, if there is a slot.
    #[inline]
    #[must_use]
    pub fn admits(&self, class: ClassId) -> bool {
        if !self.counts {
            return true;
        }
        let index = self.slots.index(class);
        let Crowd { waiting, bound } = self.crowds[index];
        let crowd = if self.two_level { self.slots.used[index] } else { u64::from(waiting) };
        crowd < u64::from(bound) && self.slots.fits(class, 1)
    }

    /// Whether some class is not, or will not be soon.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.counts && self.slots.is_spent()
    }

    /// A job of the class comes, and waits.
    #[inline]
    pub fn comes(&mut self, class: ClassId) {
        if self.counts {
            self.slots.take(class, 1);
        }
        self.waits(class);
    }

    /// One waits again.
    #[inline]
    pub fn waits(&mut self, class: ClassId) {
        if self.counts {
            self.crowds[self.slots.index(class)].waiting += 1;
        }
    }

    /// One that waited has a place.
    #[inline]
    pub fn placed(&mut self, class: ClassId) {
        if self.counts {
            self.crowds[self.slots.index(class)].waiting -= 1;
        }
    }

    /// One leaves, which did not wait.
    #[inline]
    pub fn leaves(&mut self, class: ClassId) {
        if self.counts {
            self.slots.give(class, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: ClassId = ClassId(0);
    const LONG: ClassId = ClassId(1);

    /// How many of a class come in.
    fn flood(shares: &mut Shares, class: ClassId) -> u64 {
        let mut came = 0;
        while shares.fits(class, 1) {
            shares.take(class, 1);
            came += 1;
        }
        came
    }

    #[test]
    fn a_flood_leaves_the_others_what_is_theirs() {
        let mut shares = Shares::new(100, 2);
        assert_eq!(flood(&mut shares, LONG), 75);
        assert!(shares.is_spent());
        assert_eq!(flood(&mut shares, ClassId::UNKNOWN), 0);
        assert_eq!(flood(&mut shares, SHORT), 25);
        // What the long ones give back is common first.
        shares.give(LONG, 30);
        assert_eq!((flood(&mut shares, SHORT), shares.used(LONG)), (30, 45));
        assert_eq!(flood(&mut shares, LONG), 0);
        shares.give(LONG, 45);
        assert_eq!(flood(&mut shares, ClassId::UNKNOWN), 20);
        assert_eq!(flood(&mut shares, LONG), 25, "its own");
        let all = [SHORT, LONG, ClassId::UNKNOWN].map(|class| shares.used(class));
        assert_eq!(all.iter().sum::<u64>(), 100, "{all:?}");
    }

    #[test]
    fn two_floods_leave_a_third_class_its_own() {
        let mut shares = Shares::new(600, 3);
        assert_eq!([0, 1, 2].map(|class| flood(&mut shares, ClassId(class))), [400, 100, 100]);
    }

    #[test]
    fn one_class_has_everything_and_little_room_is_common() {
        assert_eq!(flood(&mut Shares::new(101, 1), SHORT), 101);
        assert_eq!(flood(&mut Shares::new(3, 2), LONG), 3);
        assert_eq!(flood(&mut Shares::in_common(100, 2), LONG), 100);
    }

    #[test]
    fn large_units_count_as_what_they_are() {
        let mut shares = Shares::new(1_000, 2);
        assert!(shares.fits(LONG, 750) && !shares.fits(LONG, 751) && !shares.fits(LONG, u64::MAX));
        shares.take(LONG, 600);
        assert!(shares.fits(SHORT, 400) && !shares.fits(SHORT, 401));
        shares.give(LONG, 500);
        assert!(shares.fits(SHORT, 750));
    }
}
