//! The workers' inboxes: how many jobs each holds and whether it takes more ([`Inboxes`]), under every
//! policy; under a central one, which is the shortest, of at most *k* jobs (JBSQ(k), Concord §3.2):
//! a change is O(1), and the question looks at a bit for each worker, 64 of them at a time, length
//! by length; of many lengths only at those that there are ([`Places`]).
//!
//! Workers may be divided into groups that have nothing to do with each other; usually there is one.
//! Of equally short inboxes, a job that may run anywhere is sent to one that no pinned job waits
//! for: that one has no alternative. The dispatcher's own jobs are counted nowhere.

use crate::WorkerId;
use std::ops::Range;

/// How many jobs each worker has, and which workers take more.
pub(crate) struct Inboxes {
    held: Vec<u32>,
    up: Vec<bool>,
    /// How many take none.
    down: usize,
}

impl Inboxes {
    pub(crate) fn new(workers: usize) -> Self {
        Self { held: vec![0; workers], up: vec![true; workers], down: 0 }
    }

    pub(crate) fn workers(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn held(&self, worker: usize) -> u32 {
        self.held[worker]
    }

    pub(crate) fn is_up(&self, worker: usize) -> bool {
        self.up[worker]
    }

    pub(crate) fn down(&self) -> usize {
        self.down
    }

    /// A job comes to `on`; the number of that worker, if it is one.
    #[inline]
    pub(crate) fn occupy(&mut self, on: WorkerId) -> Option<usize> {
        let worker = (on != WorkerId::DISPATCHER).then(|| on.index())?;
        self.held[worker] += 1;
        Some(worker)
    }

    /// A job leaves `on`; as above.
    #[inline]
    pub(crate) fn vacate(&mut self, on: WorkerId) -> Option<usize> {
        let worker = (on != WorkerId::DISPATCHER).then(|| on.index())?;
        self.held[worker] -= 1;
        Some(worker)
    }

    /// The worker takes jobs from now on, or none; whether that is new.
    pub(crate) fn set_up(&mut self, worker: usize, up: bool) -> bool {
        let is_new = std::mem::replace(&mut self.up[worker], up) != up;
        match (is_new, up) {
            (true, true) => self.down -= 1,
            (true, false) => self.down += 1,
            (false, _) => {}
        }
        is_new
    }
}

/// So many rows are looked at one by one.
const FEW: usize = 32;

/// The places in the workers' inboxes under JBSQ(k).
pub(crate) struct Places {
    /// Of JBSQ(k).
    k: u32,
    /// Blocked jobs are not counted.
    inboxes: Inboxes,
    /// Whether pinned jobs wait for it.
    wanted: Vec<bool>,
    /// Workers with free places, a bit each. Row 2i is of those that hold i jobs, row 2i + 1 of those
    /// for which pinned jobs wait as well.
    rows: Vec<u64>,
    /// So many make a row.
    words: usize,
    /// Where there are more than [`FEW`] rows: those that are not empty, a bit each.
    filled: Vec<u64>,
    /// The first word of these that is not zero.
    first: usize,
    group_of: Vec<u32>,
    groups: Vec<Range<usize>>,
}

impl Places {
    /// One group.
    pub(crate) fn new(workers: usize, k: u16) -> Self {
        Self::grouped(&[workers], k)
    }

    /// Groups of so many workers each, in order; none is empty.
    pub(crate) fn grouped(sizes: &[usize], k: u16) -> Self {
        let workers: usize = sizes.iter().sum();
        let words = workers.div_ceil(64);
        let rows = 2 * usize::from(k);
        let mut places = Self {
            k: u32::from(k),
            inboxes: Inboxes::new(workers),
            wanted: vec![false; workers],
            rows: vec![0; rows * words],
            words,
            filled: if rows > FEW { vec![0; rows.div_ceil(64)] } else { Vec::new() },
            first: 0,
            group_of: Vec::new(),
            groups: Vec::new(),
        };
        for (group, &size) in sizes.iter().enumerate() {
            let first = places.group_of.len();
            places.groups.push(first..first + size);
            places.group_of.resize(first + size, group as u32);
        }
        (0..workers).for_each(|worker| places.rows[worker / 64] |= 1 << (worker % 64));
        if let Some(filled) = places.filled.first_mut() {
            *filled = 1;
        }
        places
    }

    pub(crate) fn workers(&self) -> usize {
        self.inboxes.workers()
    }

    #[inline]
    pub(crate) fn held(&self, worker: usize) -> u32 {
        self.inboxes.held(worker)
    }

    #[inline]
    pub(crate) fn has_place(&self, worker: usize) -> bool {
        self.inboxes.is_up(worker) && self.inboxes.held(worker) < self.k
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.group_of[worker] as usize
    }

    /// The worker of that group with the shortest inbox, unless it is full.
    #[inline]
    pub(crate) fn shortest(&self, group: usize) -> Option<WorkerId> {
        let worker = self.shortest_in(self.groups[group].clone(), u32::MAX)?;
        Some(WorkerId(worker as u16))
    }

    /// The worker with the shortest inbox of `range`, unless it holds `most` jobs or is full.
    #[inline]
    pub(crate) fn shortest_in(&self, range: Range<usize>, most: u32) -> Option<usize> {
        let rows = 0..2 * most.min(self.k) as usize;
        if self.filled.is_empty() {
            { rows }.find_map(|row| self.first_in(row, range.clone()))
        } else {
            self.shortest_of_many(rows.end, range)
        }
    }

    #[cold]
    fn shortest_of_many(&self, rows: usize, range: Range<usize>) -> Option<usize> {
        for (word, &filled) in self.filled.iter().enumerate().skip(self.first) {
            let mut rest = filled;
            while rest != 0 {
                let row = 64 * word + rest.trailing_zeros() as usize;
                let found = (row < rows).then(|| self.first_in(row, range.clone()))?;
                if found.is_some() {
                    return found;
                }
                rest &= rest - 1;
            }
        }
        None
    }

    /// The first worker of `range` in that row.
    #[inline]
    fn first_in(&self, row: usize, range: Range<usize>) -> Option<usize> {
        let words = &self.rows[row * self.words..][..range.end.div_ceil(64)];
        let mut from = range.start;
        while let Some(word) = words.get(from / 64) {
            let rest = word >> (from % 64);
            if rest != 0 {
                let worker = from + rest.trailing_zeros() as usize;
                return (worker < range.end).then_some(worker);
            }
            from = (from / 64 + 1) * 64;
        }
        None
    }

    pub(crate) fn occupy(&mut self, on: WorkerId) {
        if on != WorkerId::DISPATCHER {
            self.change(on.index(), |places| places.inboxes.occupy(on));
        }
    }

    pub(crate) fn vacate(&mut self, on: WorkerId) {
        if on != WorkerId::DISPATCHER {
            self.change(on.index(), |places| places.inboxes.vacate(on));
        }
    }

    /// Pinned jobs wait for that worker, or none do; whether any do or did until now.
    #[inline]
    pub(crate) fn set_wanted(&mut self, worker: usize, wanted: bool) -> bool {
        let was = self.wanted[worker];
        if was != wanted {
            self.turn(worker);
        }
        was || wanted
    }

    #[inline(never)]
    fn turn(&mut self, worker: usize) {
        self.change(worker, |places| places.wanted[worker] ^= true);
    }

    /// The worker takes jobs from now on, or none.
    pub(crate) fn set_up(&mut self, worker: usize, up: bool) {
        self.change(worker, |places| places.inboxes.set_up(worker, up));
    }

    /// The worker's row, where it has a free place.
    #[inline]
    fn row(&self, worker: usize) -> Option<usize> {
        let row = || 2 * self.inboxes.held(worker) as usize + usize::from(self.wanted[worker]);
        self.has_place(worker).then(row)
    }

    #[inline]
    fn change<R>(&mut self, worker: usize, change: impl FnOnce(&mut Self) -> R) {
        let bit = 1 << (worker % 64);
        if let Some(row) = self.row(worker) {
            self.rows[row * self.words + worker / 64] &= !bit;
            if !self.filled.is_empty() {
                self.left(row);
            }
        }
        change(self);
        if let Some(row) = self.row(worker) {
            self.rows[row * self.words + worker / 64] |= bit;
            if !self.filled.is_empty() {
                self.entered(row);
            }
        }
    }

    #[cold]
    fn left(&mut self, row: usize) {
        let mut words = self.rows[row * self.words..][..self.words].iter();
        if words.all(|&word| word == 0) {
            self.filled[row / 64] &= !(1 << (row % 64));
            while self.filled.get(self.first) == Some(&0) {
                self.first += 1;
            }
        }
    }

    #[cold]
    fn entered(&mut self, row: usize) {
        self.filled[row / 64] |= 1 << (row % 64);
        self.first = self.first.min(row / 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The worker of `range` that holds the fewest jobs, fewer than `most`; of equals one that is not
    /// wanted, then the first.
    fn scan(places: &Places, range: Range<usize>, most: u32) -> Option<usize> {
        let key = |&worker: &usize| (places.held(worker), places.wanted[worker], worker);
        let free = |&worker: &usize| places.has_place(worker) && places.held(worker) < most;
        range.filter(free).min_by_key(key)
    }

    #[test]
    fn agrees_with_a_scan() {
        let mut rng = Rng::new(7);
        for (sizes, k) in
            [(&[1][..], 40), (&[3], 2), (&[64], 1), (&[65], 3), (&[2, 70, 1], 20), (&[200], 1)]
        {
            let mut places = Places::grouped(sizes, k);
            let n = places.workers();
            for _ in 0..3_000 {
                let worker = rng.below(n);
                let on = WorkerId(worker as u16);
                match rng.below(6) {
                    // Beyond its bound, too, as what is adopted is.
                    0 | 1 if places.held(worker) <= u32::from(k) => places.occupy(on),
                    0..=3 if places.held(worker) > 0 => places.vacate(on),
                    4 => places.set_up(worker, rng.below(3) > 0),
                    _ => {
                        let wanted = rng.below(2) > 0;
                        let either = places.wanted[worker] || wanted;
                        assert_eq!(places.set_wanted(worker, wanted), either);
                    }
                }
                let mut first = 0;
                for (group, size) in sizes.iter().enumerate() {
                    let least = scan(&places, first..first + size, u32::MAX);
                    assert_eq!(places.shortest(group).map(|on| on.index()), least);
                    first += size;
                }
                if sizes.len() == 1 {
                    let from = rng.below(n);
                    let range = from..from + 1 + rng.below(n - from);
                    let most = 1 + rng.below(4) as u32;
                    let least = scan(&places, range.clone(), most);
                    assert_eq!(places.shortest_in(range, most), least);
                }
            }
        }
    }
}
