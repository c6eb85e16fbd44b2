//! What the pass left in the program for this tool (`pass/src/emit/notes.cpp`).
//!
//! `.curtail.functions`, 12 bytes a function: the distance from this field to the function's start
//! (signed), its size, and a word with the bound in the upper 24 bits and, in the lower 8, why it has
//! no safepoints (0: it was instrumented). `.curtail.loops`, 24 bytes a loop: the address of a place
//! right before the loop, how often the loop runs at most (0: no more often than the budget charged
//! for it beforehand allows), the cost of an iteration (4 bytes), the version of this format (2
//! bytes), the loop's depth (1: in no other loop) and how many edges lead back to its header (a byte
//! each).

use std::collections::{BTreeMap, HashMap};

/// The section on functions; loaded with the program, because its entries are relative to it.
pub const FUNCTIONS: &str = ".curtail.functions";
/// The section on loops; not loaded.
pub const LOOPS: &str = ".curtail.loops";
const VERSION: u16 = 1;

/// What was noted of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The longest path that the pass allowed, in its units.
    pub bound: u32,
    /// Why it has no safepoints: an index into [`REASONS`]; 0 if it was instrumented.
    pub why: u8,
}

/// What was noted of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// How often its header runs at most; 0: the budget charged beforehand bounds it.
    pub most: u64,
    /// What an iteration costs, in the pass's units.
    pub cost: u32,
    /// Edges that lead back to its header.
    pub edges: u8,
}

impl Loop {
    /// What holds if either note may be meant.
    #[must_use]
    pub fn weaker(self, other: Loop) -> Loop {
        let most = if self.most == 0 || other.most == 0 { 0 } else { self.most.max(other.most) };
        Loop { most, cost: self.cost.max(other.cost), edges: self.edges.min(other.edges) }
    }
}

/// Why the pass left a function alone, by the number in its note (`pass/src/emit/notes.h`).
pub const REASONS: &[&str] = &[
    "instrumented",
    "left alone",
    "marked as having no safepoint",
    "on the keep-out list",
    "an allocator",
    "a signal handler",
    "a static initialiser",
    "a part of Curtail",
];

/// All notes.
#[derive(Debug, Default)]
pub struct Notes {
    functions: HashMap<u64, Function>,
    loops: BTreeMap<(u64, u8), Loop>,
}

impl Notes {
    /// Reads both sections; `base` is where the one on functions is loaded.
    ///
    /// # Errors
    /// A section that cannot be what it says.
    pub fn read(functions: &[u8], base: u64, loops: &[u8]) -> Result<Self, String> {
        let mut notes = Notes::default();
        if !functions.len().is_multiple_of(12) {
            return Err(format!("{FUNCTIONS}: {} bytes are no whole entries", functions.len()));
        }
        for (at, entry) in functions.chunks_exact(12).enumerate() {
            let word =
                |n: usize| u32::from_le_bytes([entry[n], entry[n + 1], entry[n + 2], entry[n + 3]]);
            let here = base.wrapping_add(12 * at as u64);
            let start = here.wrapping_add(i64::from(word(0) as i32) as u64);
            let note = Function { bound: word(8) >> 8, why: (word(8) & 0xff) as u8 };
            notes.functions.insert(start, note);
        }
        if !loops.len().is_multiple_of(24) {
            return Err(format!("{LOOPS}: {} bytes are no whole entries", loops.len()));
        }
        for entry in loops.chunks_exact(24) {
            let (address, rest) = entry.split_first_chunk::<8>().ok_or("no address")?;
            let (most, rest) = rest.split_first_chunk::<8>().ok_or("no count")?;
            let cost = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
            let version = u16::from_le_bytes([rest[4], rest[5]]);
            let (depth, edges) = (rest[6], rest[7]);
            if version != VERSION {
                return Err(format!("{LOOPS}: version {version}, this tool knows {VERSION}"));
            }
            let (address, most) = (u64::from_le_bytes(*address), u64::from_le_bytes(*most));
            // Of several notes at one place (merged code) the weakest holds.
            let note = Loop { most, cost, edges };
            let entry = notes.loops.entry((address, depth)).or_insert(note);
            *entry = entry.weaker(note);
        }
        Ok(notes)
    }

    /// Was anything noted?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The note on the function that begins there.
    #[must_use]
    pub fn function(&self, start: u64) -> Option<Function> {
        self.functions.get(&start).copied()
    }

    /// Notes on loops whose places lie in a range: place and depth. (Places in code that the linker
    /// discarded are small numbers, and in no function.)
    pub fn loops_between(
        &self,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, u8, Loop)> + '_ {
        let range = self.loops.range((start, 0)..(end.max(start), 0));
        range.map(|(&(address, depth), &note)| (address, depth, note))
    }

    /// The largest bound that any function was instrumented with.
    #[must_use]
    pub fn bound(&self) -> Option<u32> {
        self.functions.values().filter(|note| note.why == 0).map(|note| note.bound).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(entries: &[(i32, u32)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(to, word)| {
                [to.to_le_bytes(), 8_u32.to_le_bytes(), word.to_le_bytes()].concat()
            })
            .collect()
    }

    #[test]
    fn entries_are_relative_to_themselves() {
        let notes = Notes::read(&functions(&[(-256, 400 << 8), (-236, 7)]), 0x1000, &[]).unwrap();
        assert_eq!(notes.function(0xf00), Some(Function { bound: 400, why: 0 }));
        assert_eq!(notes.function(0x1000 + 12 - 236), Some(Function { bound: 0, why: 7 }));
        assert_eq!(notes.bound(), Some(400));
    }

    #[test]
    fn the_weaker_note_holds() {
        let entry = |address: u64, most: u64| {
            [
                &address.to_le_bytes()[..],
                &most.to_le_bytes(),
                &3_u32.to_le_bytes(),
                &(1_u32 | 2 << 16 | 3 << 24).to_le_bytes(),
            ]
            .concat()
        };
        let loops = [entry(16, 5), entry(16, 9), entry(32, 5), entry(32, 0)].concat();
        let notes = Notes::read(&[], 0, &loops).unwrap();
        assert_eq!(
            notes.loops_between(0, 64).collect::<Vec<_>>(),
            [
                (16, 2, Loop { most: 9, cost: 3, edges: 3 }),
                (32, 2, Loop { most: 0, cost: 3, edges: 3 })
            ]
        );
    }

    #[test]
    fn cut_notes_are_an_error() {
        assert!(Notes::read(&[0; 13], 0, &[]).unwrap_err().contains(FUNCTIONS));
        assert!(Notes::read(&[], 0, &[0; 23]).unwrap_err().contains(LOOPS));
        assert!(Notes::read(&[], 0, &[0; 24]).unwrap_err().contains("version 0"));
    }
}
