//! Which stalls have been told of: each place with its stack once, then in one line, each time it has
//! become ten times as frequent. So a program that stalls all the time says so, and is still read.

use std::time::{Duration, Instant};

/// Places that are told apart.
const PLACES: usize = 64;
/// Between two that are told of.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module's head.
#[derive(Default)]
pub(super) struct Told {
    last: Option<Instant>,
    /// Functions, and from which count on they are told of again.
    places: Vec<(String, u64)>,
}

/// How much is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    Nothing,
    /// Without the stack.
    Line,
    All,
}

impl Told {
    /// Of a stall at that place, where there were so many.
    pub(super) fn next(&mut self, place: &str, count: u64, now: Instant) -> Tell {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return Tell::Nothing;
        }
        let is_full = self.places.len() == PLACES;
        let known = self.places.iter_mut().find(|(other, _)| other == place);
        let tell = match known {
            Some((_, from)) if count < *from => return Tell::Nothing,
            Some((_, from)) => {
                *from = count.saturating_mul(10);
                Tell::Line
            }
            None if is_full => return Tell::Nothing,
            None => {
                self.places.push((place.to_owned(), count.saturating_mul(10)));
                Tell::All
            }
        };
        self.last = Some(now);
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_of_once_and_when_it_is_ten_times_as_frequent() {
        let (mut told, start) = (Told::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let said: Vec<_> =
            (1..=200).map(|count| (count, told.next("f", count, at(2 * count)))).collect();
        let said: Vec<_> = said.into_iter().filter(|(_, tell)| *tell != Tell::Nothing).collect();
        assert_eq!(said, [(1, Tell::All), (10, Tell::Line), (100, Tell::Line)]);
        // Another place has its stack told, but not in the same second.
        assert_eq!(told.next("g", 1, at(1_000)), Tell::All);
        assert_eq!(told.next("h", 1, at(1_000)), Tell::Nothing);
        assert_eq!(told.next("h", 7, at(1_001)), Tell::All);
        assert_eq!(told.next("h", 69, at(1_100)), Tell::Nothing);
        assert_eq!(told.next("h", 70, at(1_101)), Tell::Line);
    }

    #[test]
    fn many_places_are_not_all_told_of() {
        let (mut told, start) = (Told::default(), Instant::now());
        let tell = |n: u64| {
            let at = start + Duration::from_secs(2 * n);
            told.next(&n.to_string(), 1, at) == Tell::All
        };
        assert_eq!((0..200).map(tell).filter(|is_told| *is_told).count(), PLACES);
    }
}
