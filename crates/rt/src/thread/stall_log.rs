//! Which stalls have been told of: each place with its stack once, then in one line, each time it has
//! become ten times as frequent. So a program that stalls all the time says so, and is still read.

use std::time::{Duration, Instant};

/// Places that are told apart.
const PLACES: usize = 64;
/// Between two that are told of.
const PAUSE: Duration = Duration::from_secs(1);

/// The stalls that have been told of.
#[derive(Default)]
pub(super) struct StallLog {
    last: Option<Instant>,
    /// Functions, and from which count on they are told of again.
    places: Vec<(String, u64)>,
}

/// How much is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Nothing,
    /// Without the stack.
    Line,
    All,
}

impl StallLog {
    /// Of a stall at that place, where there were so many.
    pub(super) fn next(&mut self, place: &str, count: u64, now: Instant) -> Detail {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return Detail::Nothing;
        }
        let is_full = self.places.len() == PLACES;
        let known = self.places.iter_mut().find(|(other, _)| other == place);
        let detail = match known {
            Some((_, from)) if count < *from => return Detail::Nothing,
            Some((_, from)) => {
                *from = count.saturating_mul(10);
                Detail::Line
            }
            None if is_full => return Detail::Nothing,
            None => {
                self.places.push((place.to_owned(), count.saturating_mul(10)));
                Detail::All
            }
        };
        self.last = Some(now);
        detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_of_once_and_when_it_is_ten_times_as_frequent() {
        let (mut log, start) = (StallLog::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let said: Vec<_> =
            (1..=200).map(|count| (count, log.next("f", count, at(2 * count)))).collect();
        let said: Vec<_> =
            said.into_iter().filter(|(_, detail)| *detail != Detail::Nothing).collect();
        assert_eq!(said, [(1, Detail::All), (10, Detail::Line), (100, Detail::Line)]);
        // Another place has its stack told, but not in the same second.
        assert_eq!(log.next("g", 1, at(1_000)), Detail::All);
        assert_eq!(log.next("h", 1, at(1_000)), Detail::Nothing);
        assert_eq!(log.next("h", 7, at(1_001)), Detail::All);
        assert_eq!(log.next("h", 69, at(1_100)), Detail::Nothing);
        assert_eq!(log.next("h", 70, at(1_101)), Detail::Line);
    }

    #[test]
    fn many_places_are_not_all_told_of() {
        let (mut log, start) = (StallLog::default(), Instant::now());
        let tell = |n: u64| {
            let at = start + Duration::from_secs(2 * n);
            log.next(&n.to_string(), 1, at) == Detail::All
        };
        assert_eq!((0..200).map(tell).filter(|is_told| *is_told).count(), PLACES);
    }
}
