//! Stalls by place: how often code ran, or blocked in the kernel, for longer than the limit without a
//! safepoint, and where; and which have been told of. A place is told of with its stack once, then in
//! one line, each time it has become ten times as frequent. So a program that stalls all the time says
//! so, and is still read.
//!
//! Written by watchdogs, read by any thread; under one lock, which neither holds for long.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Places that are told apart; stalls elsewhere are counted together.
const PLACES: usize = 64;
/// Stacks that are looked at in a second: each takes the time that it takes to find the names.
const LOOKS: usize = 10;
/// The place of those that were not looked at.
const ELSEWHERE: usize = 0;
/// Between two that are told of.
const PAUSE: Duration = Duration::from_secs(1);

/// A place at which code stalled: it ran, or was in a system call, for longer than the watchdog's
/// limit, and no safepoint came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallPlace {
    /// The innermost function on the stack that is neither the standard library's nor the
    /// runtime's; `elsewhere` for all that were not looked at.
    pub function: String,
    /// How often.
    pub count: u64,
    /// The longest so far, as far as it was watched.
    pub longest: Duration,
    /// The stack of the last one, innermost first.
    pub stack: Vec<String>,
}

/// Stalls, counted by place.
#[derive(Default)]
pub struct Stalls(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The first is for those that were not looked at.
    places: Vec<StallPlace>,
    /// By place: from which count on it is told of (again); 0: it was not yet.
    tell_from: Vec<u64>,
    /// When one was told of last.
    told: Option<Instant>,
    looks: VecDeque<Instant>,
}

/// How much is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Nothing,
    /// Without the stack.
    Line,
    All,
}

impl Table {
    /// The place of a stall with that stack, which is made if there is room for one more.
    fn index_of(&mut self, stack: &[String]) -> usize {
        if self.places.is_empty() {
            self.push("elsewhere");
        }
        let Some(function) = function_of(stack) else { return ELSEWHERE };
        let known = self.places.iter().position(|place| place.function == function);
        known.unwrap_or_else(|| match self.places.len() {
            PLACES => ELSEWHERE,
            _ => self.push(function),
        })
    }

    fn push(&mut self, function: &str) -> usize {
        let (function, longest) = (function.to_owned(), Duration::ZERO);
        self.places.push(StallPlace { function, count: 0, longest, stack: Vec::new() });
        self.tell_from.push(0);
        self.places.len() - 1
    }
}

impl Stalls {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is time to look at one more stack.
    pub(super) fn may_look(&self, now: Instant) -> bool {
        let looks = &mut self.table().looks;
        while looks.front().is_some_and(|&at| now - at >= Duration::from_secs(1)) {
            looks.pop_front();
        }
        let may = looks.len() < LOOKS;
        if may {
            looks.push_back(now);
        }
        may
    }

    /// One more stall. Its place's number, and how many there were at it.
    pub(super) fn add(&self, stack: &[String], duration: Duration) -> (usize, u64) {
        let table = &mut *self.table();
        let index = table.index_of(stack);
        let place = &mut table.places[index];
        place.count += 1;
        place.longest = place.longest.max(duration);
        if !stack.is_empty() {
            place.stack = stack.to_vec();
        }
        (index, place.count)
    }

    /// One that was added goes on.
    pub(super) fn extend(&self, index: usize, duration: Duration) {
        if let Some(place) = self.table().places.get_mut(index) {
            place.longest = place.longest.max(duration);
        }
    }

    /// One that was added goes on, and its stack was looked at again: one that had no name gets one.
    pub(super) fn go_on(&self, index: usize, stack: &[String], duration: Duration) -> (usize, u64) {
        if index == ELSEWHERE && !stack.is_empty() {
            self.table().places[ELSEWHERE].count -= 1;
            return self.add(stack, duration);
        }
        self.extend(index, duration);
        (index, self.table().places.get(index).map_or(0, |place| place.count))
    }

    /// How much is to be told of a stall with that stack, where there were `count` at its place.
    pub(super) fn detail(&self, stack: &[String], count: u64, now: Instant) -> Detail {
        let table = &mut *self.table();
        let index = table.index_of(stack);
        let from = &mut table.tell_from[index];
        let is_soon = table.told.is_some_and(|at| now.saturating_duration_since(at) < PAUSE);
        if is_soon || count < *from {
            return Detail::Nothing;
        }
        table.told = Some(now);
        match std::mem::replace(from, count.saturating_mul(10)) {
            0 => Detail::All,
            _ => Detail::Line,
        }
    }

    /// Where there were some, the most frequent first.
    pub fn list(&self) -> Vec<StallPlace> {
        let mut places = self.table().places.clone();
        places.retain(|place| place.count > 0);
        places.sort_by_key(|place| std::cmp::Reverse(place.count));
        places
    }
}

/// Of the standard library and of the runtime, whose functions are never the place.
const LIBRARIES: [&str; 5] = ["core::", "std::", "alloc::", "curtail::", "curtail_"];

/// The innermost function that is neither the standard library's, nor the runtime's, nor C's; of a
/// program without others the innermost that has a name. Debugging information of lines only names
/// functions without their modules: then the file tells whose they are.
pub(super) fn function_of(stack: &[String]) -> Option<&str> {
    let frames = || stack.iter().map(|frame| frame.rsplit_once(" (").unwrap_or((frame, "")));
    let is_own = |&(name, place): &(&str, &str)| {
        let plain = name.trim_start_matches('<');
        let is_rust = plain.contains("::") || place.contains(".rs:");
        let is_library = LIBRARIES.iter().any(|of| plain.starts_with(of))
            || place.starts_with("/rustc/")
            || place.contains("/rustlib/src/")
            || is_of_the_runtime(place);
        is_rust && !is_library
    };
    let has_name = |(name, _): &(&str, &str)| !name.starts_with("__") && !name.starts_with("0x");
    let chosen = frames().find(is_own).or_else(|| frames().find(has_name));
    chosen.or_else(|| frames().next()).map(|(name, _)| name)
}

/// Whether that file is the runtime's, which lies further out on a stack than the program.
fn is_of_the_runtime(place: &str) -> bool {
    let beside = env!("CARGO_MANIFEST_DIR").rsplit_once('/').map_or("", |(beside, _)| beside);
    let path = place.strip_prefix(beside).and_then(|path| path.strip_prefix('/'));
    path.and_then(|path| path.split_once('/')).is_some_and(|(package, file)| {
        let is_ours = package.starts_with("curtail");
        file.starts_with("src/")
            && (is_ours
                || ["capi", "fiber", "libc", "net", "pool", "ring", "rt", "server"]
                    .contains(&package))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[&str]) -> Vec<String> {
        frames.iter().map(|&frame| frame.to_owned()).collect()
    }

    #[test]
    fn stalls_are_counted_by_the_function_that_is_no_library_s() {
        let stalls = Stalls::default();
        let one =
            stack(&["<core::iter::Map<B> as Iterator>::next (a.rs:1)", "lib::parse (b.rs:2)"]);
        let other = stack(&["__memcpy (m.c:3)", "lib::parse (b.rs:9)", "main"]);
        assert_eq!(stalls.add(&one, Duration::from_millis(3)).1, 1);
        let (place, count) = stalls.add(&other, Duration::from_millis(2));
        assert_eq!(count, 2);
        stalls.extend(place, Duration::from_millis(9));
        stalls.add(&[], Duration::from_millis(1));
        let list = stalls.list();
        assert_eq!((list[0].function.as_str(), list[0].count), ("lib::parse", 2));
        assert_eq!((list[0].longest, &list[0].stack), (Duration::from_millis(9), &other));
        assert_eq!((list[1].function.as_str(), list[1].count), ("elsewhere", 1));
    }

    /// As debugging information of lines only has them.
    #[test]
    fn a_function_without_its_module_is_known_by_its_file() {
        let frames =
            ["next<i32>", "next (/rustc/59/library/core/src/a.rs:8)", "parse (src/b.rs:2)"];
        assert_eq!(function_of(&stack(&frames)), Some("parse"));
        assert_eq!(function_of(&stack(&["__memcpy", "sum (sum.c:3)"])), Some("sum"));
    }

    /// On its stack, the only functions of Rust are the runtime's.
    #[test]
    fn in_a_program_of_c_the_place_is_no_function_of_the_runtime() {
        let beside = env!("CARGO_MANIFEST_DIR").rsplit_once('/').unwrap().0;
        let frames = [
            "__memcpy (m.c:3)".to_owned(),
            "parse (p.c:5)".to_owned(),
            "handle (p.c:9)".to_owned(),
            format!("serve ({beside}/capi/src/app.rs:7)"),
            format!("go_on ({}/src/ask.rs:8)", env!("CARGO_MANIFEST_DIR")),
            "<curtail_rt::thread::Task>::run".to_owned(),
        ];
        assert_eq!(function_of(&frames), Some("parse"));
        // But a test of the runtime's is no part of it.
        let test = format!("stalls ({}/tests/a.rs:1)", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(function_of(&[frames[4].clone(), test]), Some("stalls"));
    }

    #[test]
    fn the_table_is_bounded() {
        let stalls = Stalls::default();
        for number in 0..1_000 {
            stalls.add(&[format!("f{number}")], Duration::ZERO);
        }
        let list = stalls.list();
        assert_eq!(list.len(), PLACES);
        assert_eq!(list.iter().map(|place| place.count).sum::<u64>(), 1_000);
        let now = Instant::now();
        assert_eq!((0..100).filter(|_| stalls.may_look(now)).count(), LOOKS);
    }

    #[test]
    fn a_place_is_told_of_once_and_when_it_is_ten_times_as_frequent() {
        let (stalls, start) = (Stalls::default(), Instant::now());
        let tell = |function: &str, count, seconds| {
            stalls.detail(&stack(&[function]), count, start + Duration::from_secs(seconds))
        };
        let said: Vec<_> = (1..=200).map(|count| (count, tell("f", count, 2 * count))).collect();
        let said: Vec<_> =
            said.into_iter().filter(|(_, detail)| *detail != Detail::Nothing).collect();
        assert_eq!(said, [(1, Detail::All), (10, Detail::Line), (100, Detail::Line)]);
        // Another place has its stack told, but not in the same second.
        assert_eq!(tell("g", 1, 1_000), Detail::All);
        assert_eq!(tell("h", 1, 1_000), Detail::Nothing);
        assert_eq!(tell("h", 7, 1_001), Detail::All);
        assert_eq!(tell("h", 69, 1_100), Detail::Nothing);
        assert_eq!(tell("h", 70, 1_101), Detail::Line);
        // Many places are not all told of.
        let told = (0..200).map(|n| tell(&n.to_string(), 1, 2_000 + 2 * n));
        assert_eq!(told.filter(|detail| *detail == Detail::All).count(), PLACES - 3);
    }
}
