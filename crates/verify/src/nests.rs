//! Natural loops, and which of them the pass's notes speak of.

use crate::code::Code;
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

/// The loops that notes speak of: first block, and how often it runs at most. Each note speaks of the
/// nearest loop of its depth, if there is one nearest. Of several notes on one loop (it has several
/// ways in) the weakest holds. An inner loop whose header code generation merged into the outer one's
/// counts together with that. Loops with more edges back than were noted are left out: they may be
/// two, one of them without a note.
#[must_use]
pub fn noted_headers(code: &Code, noted: &[Noted]) -> Vec<(usize, u64)> {
    if noted.is_empty() {
        return Vec::new();
    }
    let nests = Nests::of(code);
    // By header and depth.
    let mut found: BTreeMap<usize, BTreeMap<usize, Loop>> = BTreeMap::new();
    for place in noted {
        let Some(header) = nests.loop_of(code, place) else { continue };
        let here = found.entry(header).or_default().entry(place.depth).or_insert(place.note);
        *here = here.weaker(place.note);
    }
    let edges = |header: usize| nests.loops[&header].edges;
    found
        .into_iter()
        .filter(|(header, notes)| {
            notes.values().map(|note| usize::from(note.edges)).sum::<usize>() >= edges(*header)
        })
        .map(|(header, notes)| {
            (header, notes.values().fold(1, |most: u64, note| most.saturating_mul(note.most)))
        })
        .collect()
}

/// The natural loops of a function.
struct Nests {
    /// Edges that lead back to a block on the way to where they start.
    back: HashSet<(usize, usize)>,
    /// By first block.
    loops: HashMap<usize, Nest>,
}

struct Nest {
    /// How many loops the first block lies in.
    depth: usize,
    /// How many edges lead back to it.
    edges: usize,
}

impl Nests {
    fn of(code: &Code) -> Self {
        let back = retreats(code);
        let mut bodies: HashMap<usize, HashSet<usize>> = HashMap::new();
        for &(from, header) in &back {
            let body = bodies.entry(header).or_insert_with(|| HashSet::from([header]));
            let mut work = vec![from];
            while let Some(block) = work.pop() {
                if body.insert(block) {
                    work.extend(&code.blocks[block].before);
                }
            }
        }
        let around = |header: usize| bodies.values().filter(|body| body.contains(&header)).count();
        let edges = |header: usize| back.iter().filter(|(_, to)| *to == header).count();
        let nest = |header| Nest { depth: around(header), edges: edges(header) };
        let loops = bodies.keys().map(|&header| (header, nest(header))).collect();
        Nests { back, loops }
    }

    fn loop_of(&self, code: &Code, place: &Noted) -> Option<usize> {
        let exact = |nest: &Nest| nest.depth == place.depth;
        let merged = |nest: &Nest| nest.depth < place.depth && nest.edges > 1;
        self.nearest(code, place, &exact).or_else(|| self.nearest(code, place, &merged))
    }

    /// The nearest loop that fits, found by going on from a place, never around.
    fn nearest(&self, code: &Code, place: &Noted, fits: &dyn Fn(&Nest) -> bool) -> Option<usize> {
        let fits = |block: &usize| self.loops.get(block).is_some_and(fits);
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

fn retreats(code: &Code) -> HashSet<(usize, usize)> {
    let mut back = HashSet::new();
    // 1: on the way; 2: done.
    let mut colour = vec![0_u8; code.blocks.len()];
    for root in 0..code.blocks.len() {
        if colour[root] != 0 {
            continue;
        }
        let mut way = vec![(root, 0)];
        colour[root] = 1;
        while let Some((block, at)) = way.last_mut() {
            let Some(&to) = code.blocks[*block].next.get(*at) else {
                colour[*block] = 2;
                way.pop();
                continue;
            };
            *at += 1;
            match colour[to] {
                0 => {
                    colour[to] = 1;
                    way.push((to, 0));
                }
                1 => {
                    back.insert((*block, to));
                }
                _ => {}
            }
        }
    }
    back
}
