//! Loops, and which of them the pass's notes speak of.

use crate::code::Code;
use crate::copies;
use crate::flow::components;
use crate::loops::is_on_each_round;
use crate::notes::Loop;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the pass noted of one loop.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// A place right before the loop.
    pub address: u64,
    /// The block that it lies in.
    pub block: usize,
    /// How many loops the loop's header lies in, itself included.
    pub depth: usize,
    /// The note itself.
    pub note: Loop,
}

/// How many blocks may lie between a note and its loop.
const NEARBY: usize = 6;

/// The loops of one function that notes speak of.
///
/// Only loops count in which some way round passes no safepoint (`next`: the edges that lead on without
/// one). A note speaks of the nearest of them behind its place; where that one has a note already, of
/// a loop further out, of the one within. Of several notes on one loop (it has several ways in) the
/// weakest holds.
pub struct NotedLoops {
    /// By header and depth.
    notes: BTreeMap<usize, BTreeMap<usize, Loop>>,
    /// All, where they were made.
    places: Vec<Noted>,
}

impl NotedLoops {
    /// From the notes and where they were made.
    #[must_use]
    pub fn of(code: &Code, next: &[Vec<usize>], noted: &[Noted]) -> Self {
        let mut notes: BTreeMap<usize, BTreeMap<usize, Loop>> = BTreeMap::new();
        if noted.is_empty() {
            return NotedLoops { notes, places: Vec::new() };
        }
        let nests = Nests::of(code, next);
        let mut outermost_first: Vec<&Noted> = noted.iter().collect();
        outermost_first.sort_by_key(|place| place.depth);
        let mut left: Vec<&Noted> = Vec::new();
        for place in outermost_first {
            let free = |header: &usize| {
                notes
                    .get(header)
                    .is_none_or(|known| known.keys().all(|depth| *depth == place.depth))
            };
            // Code generation may have merged an inner loop's first block into the outer one's.
            let merged = |header: &usize| nests.edges.get(header).is_some_and(|&edges| edges > 1);
            let found = nests.nearest(code, place, &free);
            match found.or_else(|| nests.nearest(code, place, &merged)) {
                Some(header) => add(&mut notes, header, place),
                None => left.push(place),
            }
        }
        // Two loops are as near: that of another cost has its own note by now.
        for place in left {
            let same = |known: &BTreeMap<usize, Loop>| {
                known.get(&place.depth).is_some_and(|note| note.cost == place.note.cost)
            };
            let free = |header: &usize| notes.get(header).is_none_or(same);
            if let Some(header) = nests.nearest(code, place, &free) {
                add(&mut notes, header, place);
            }
        }
        NotedLoops { notes, places: noted.to_vec() }
    }

    /// A block of the loop that a cycle without safepoints is, or is what a safepoint in one of its ways
    /// left of, and how often that block runs at most each time the loop is entered.
    #[must_use]
    pub fn rounds(&self, code: &Code, cycle: &[usize], entries: &[usize]) -> Option<(usize, u64)> {
        self.rounds_of_header(code, cycle, entries)
            .or_else(|| self.rounds_of_choice(code, cycle, entries))
    }

    /// Loops that share a first block count together. A cycle with more edges back than were noted is
    /// not believed: it may be two loops, one of them without a note. Copies of one latch count once.
    fn rounds_of_header(
        &self,
        code: &Code,
        cycle: &[usize],
        entries: &[usize],
    ) -> Option<(usize, u64)> {
        let (&header, notes) = self.notes.iter().find(|(header, _)| entries.contains(header))?;
        // The cycle is entered there, or from the loop's own safepoints.
        let before = reached_around(code, &[header]);
        if entries.iter().any(|&entry| entry != header && before[entry]) {
            return None;
        }
        let inside = |block: &usize| cycle.binary_search(block).is_ok();
        let latches: Vec<usize> =
            code.blocks[header].before.iter().copied().filter(inside).collect();
        let back =
            if copies::of_one_latch(code, cycle, header, &latches) { 1 } else { latches.len() };
        let noted: usize = notes.values().map(|note| usize::from(note.edges)).sum();
        let most = notes.values().fold(1, |most: u64, note| most.saturating_mul(note.most));
        (noted >= back).then_some((header, most))
    }

    /// A loop that begins with a choice, and has no other noted one in it: code generation copied the choice
    /// into the block before the loop, so that it begins wherever that leads, behind a call, too. It is the
    /// one that was noted in that block if no other way leads to it, and every round passes the choice.
    fn rounds_of_choice(
        &self,
        code: &Code,
        cycle: &[usize],
        entries: &[usize],
    ) -> Option<(usize, u64)> {
        if self.places.iter().any(|place| cycle.binary_search(&place.block).is_ok()) {
            return None;
        }
        self.places.iter().find_map(|place| {
            let again = copies::choice(code, cycle, place.block)?;
            let around = reached_around(code, &[place.block]);
            let known =
                entries.iter().all(|&entry| !around[entry]) && is_on_each_round(code, cycle, again);
            known.then_some((again, place.note.most))
        })
    }
}

/// One more note on a loop.
fn add(notes: &mut BTreeMap<usize, BTreeMap<usize, Loop>>, header: usize, place: &Noted) {
    let here = notes.entry(header).or_default().entry(place.depth).or_insert(place.note);
    *here = here.weaker(place.note);
}

/// The blocks that can be reached without going through certain ones, and of those, which.
fn reached_around(code: &Code, around: &[usize]) -> Vec<bool> {
    let mut seen = vec![false; code.blocks.len()];
    let is_root = |&block: &usize| block == 0 || code.blocks[block].before.is_empty();
    let mut work: Vec<usize> = (0..code.blocks.len()).filter(is_root).collect();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block], true) && !around.contains(&block) {
            work.extend(&code.blocks[block].next);
        }
    }
    seen
}

/// The loops of a graph: cycles, and what cycles remain in each without its entries. (A loop that was
/// cut is entered at several places, so natural loops would not do.)
#[derive(Default)]
struct Nests {
    /// Edges that lead back to where a loop is entered.
    back: HashSet<(usize, usize)>,
    /// By the first blocks of loops: how many edges lead back there.
    edges: HashMap<usize, usize>,
}

impl Nests {
    fn of(code: &Code, next: &[Vec<usize>]) -> Self {
        let mut before = vec![Vec::new(); next.len()];
        for (from, to) in next.iter().enumerate() {
            to.iter().for_each(|&to: &usize| before[to].push(from));
        }
        let mut nests = Nests::default();
        let mut work: Vec<Vec<usize>> = vec![(0..next.len()).collect()];
        while let Some(nodes) = work.pop() {
            for cycle in cycles(&|block| &next[block], &nodes) {
                work.push(nests.add(code, next, &before, &cycle));
            }
        }
        nests
    }

    /// One loop. Returns its blocks without those where it is entered.
    fn add(
        &mut self,
        code: &Code,
        next: &[Vec<usize>],
        before: &[Vec<usize>],
        cycle: &[usize],
    ) -> Vec<usize> {
        let inside = |block: &usize| cycle.binary_search(block).is_ok();
        let is_entry = |block: &usize| {
            *block == 0 || before[*block].is_empty() || !before[*block].iter().all(inside)
        };
        let mut entries: Vec<usize> = cycle.iter().copied().filter(is_entry).collect();
        // Behind a safepoint of the loop's own, no loop begins.
        if entries.len() > 1 {
            let reached = reached_around(code, &entries);
            entries.retain(|&entry| reached[entry]);
        }
        // Of several, those that begin a loop inside this one are that loop's.
        let inner = |&at: &usize| entries.len() > 1 && is_inner(next, cycle, &entries, at);
        let own: Vec<usize> = entries.iter().copied().filter(|at| !inner(at)).collect();
        if !own.is_empty() {
            entries = own;
        }
        if entries.is_empty() {
            entries.push(cycle[0]);
        }
        for &header in &entries {
            let from: Vec<usize> = before[header].iter().copied().filter(inside).collect();
            self.edges.insert(header, from.len());
            self.back.extend(from.into_iter().map(|from| (from, header)));
        }
        cycle.iter().copied().filter(|block| entries.binary_search(block).is_err()).collect()
    }

    /// The nearest loop that fits, found by going on from a place, never around.
    fn nearest(&self, code: &Code, place: &Noted, fits: &dyn Fn(&usize) -> bool) -> Option<usize> {
        let fits = |block: &usize| self.edges.contains_key(block) && fits(block);
        if code.address(place.block) == place.address && fits(&place.block) {
            return Some(place.block);
        }
        let mut wave = vec![place.block];
        for _ in 0..NEARBY {
            let mut next: Vec<usize> = wave
                .iter()
                .flat_map(|&from| code.blocks[from].next.iter().map(move |&to| (from, to)))
                .filter(|edge| !self.back.contains(edge))
                .map(|(_, to)| to)
                .collect();
            next.sort_unstable();
            next.dedup();
            let mut met = next.iter().copied().filter(fits);
            if let Some(header) = met.next() {
                return met.next().is_none().then_some(header);
            }
            wave = next;
        }
        None
    }
}

/// The cycles among some blocks: strongly connected sets of them.
pub(crate) fn cycles<'a>(next: &dyn Fn(usize) -> &'a [usize], nodes: &[usize]) -> Vec<Vec<usize>> {
    let within = |block: usize| -> Vec<usize> {
        let to = next(block).iter().copied();
        to.filter(|to| nodes.binary_search(to).is_ok()).collect()
    };
    let mut found = components(nodes, &within);
    found.retain(|part| part.len() > 1 || within(part[0]).contains(&part[0]));
    found
}

/// Does an entry of a cycle lie in a cycle that passes none of the other entries?
fn is_inner(next: &[Vec<usize>], cycle: &[usize], entries: &[usize], at: usize) -> bool {
    let others = |block: &usize| *block != at && entries.binary_search(block).is_ok();
    let rest: Vec<usize> = cycle.iter().copied().filter(|block| !others(block)).collect();
    cycles(&|block| &next[block], &rest).iter().any(|part| part.binary_search(&at).is_ok())
}
