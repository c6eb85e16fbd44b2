//! Requests against threads on one kthread, as a pure decision: the kind whose oldest has waited
//! longer goes first, but at most so many of one kind in a row while the other waits.
//!
//! Requests wait in a [`CorePolicy`](crate::CorePolicy), threads in the kthread's queue; each kthread
//! has one `Mix` of its own. The bound is for threads that yield to each other at once, or requests
//! that keep arriving with old time stamps: neither may keep the other kind away.

use crate::Nanos;
use std::num::NonZeroU32;

/// What runs next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request.
    Request,
    /// A thread without one.
    Thread,
}

/// Which kind has its turn; see the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    most: NonZeroU32,
    /// The kind that ran last, and how often in a row while the other waited.
    last: Kind,
    row: u32,
}

impl Mix {
    /// At most `most` of one kind in a row while the other waits.
    #[must_use]
    pub const fn new(most: NonZeroU32) -> Self {
        Self { most, last: Kind::Thread, row: 0 }
    }

    /// Which kind is next, where the oldest ready request and the oldest ready thread have waited
    /// since then; `None`: there is none of the kind. At one time, the kind that did not run last.
    #[inline]
    pub fn pick(&mut self, request: Option<Nanos>, thread: Option<Nanos>) -> Option<Kind> {
        let (request, thread) = match (request, thread) {
            (None, None) => return None,
            (Some(_), None) => return Some(self.alone(Kind::Request)),
            (None, Some(_)) => return Some(self.alone(Kind::Thread)),
            (Some(request), Some(thread)) => (request, thread),
        };
        let other = match self.last {
            Kind::Request => Kind::Thread,
            Kind::Thread => Kind::Request,
        };
        let older = match request.cmp(&thread) {
            std::cmp::Ordering::Less => Kind::Request,
            std::cmp::Ordering::Greater => Kind::Thread,
            std::cmp::Ordering::Equal => other,
        };
        if older == self.last && self.row < self.most.get() {
            self.row += 1;
        } else {
            (self.last, self.row) = (other, 1);
        }
        Some(self.last)
    }

    /// A turn that the other kind did not want is not counted.
    fn alone(&mut self, kind: Kind) -> Kind {
        (self.last, self.row) = (kind, 0);
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(most: u32) -> Mix {
        Mix::new(NonZeroU32::new(most).unwrap())
    }

    fn at(ns: u64) -> Option<Nanos> {
        Some(Nanos(ns))
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut mix = mix(10);
        assert_eq!(mix.pick(at(5), at(6)), Some(Kind::Request));
        assert_eq!(mix.pick(at(7), at(6)), Some(Kind::Thread));
        assert_eq!(mix.pick(at(7), at(8)), Some(Kind::Request));
        assert_eq!(mix.pick(None, at(8)), Some(Kind::Thread));
        assert_eq!(mix.pick(None, None), None);
    }

    #[test]
    fn no_kind_has_more_than_its_turns_in_a_row() {
        let mut mix = mix(3);
        let kinds: Vec<_> = (0..8).map(|_| mix.pick(at(1), at(2)).unwrap()).collect();
        use Kind::{Request as R, Thread as T};
        assert_eq!(kinds, [R, R, R, T, R, R, R, T]);
    }

    #[test]
    fn turns_that_nobody_else_wanted_do_not_count() {
        let mut mix = mix(2);
        for _ in 0..5 {
            assert_eq!(mix.pick(at(1), None), Some(Kind::Request));
        }
        let kinds = [0; 3].map(|_| mix.pick(at(1), at(2)).unwrap());
        assert_eq!(kinds, [Kind::Request, Kind::Request, Kind::Thread]);
    }

    #[test]
    fn at_one_time_they_take_turns() {
        let mut mix = mix(9);
        let kinds = [0; 4].map(|_| mix.pick(at(1), at(1)).unwrap());
        assert_eq!(kinds, [Kind::Request, Kind::Thread, Kind::Request, Kind::Thread]);
    }
}
