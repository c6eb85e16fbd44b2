//! Which slots of the board are whose: ranges of one after another, first fit.

use curtail_shm::Slot;

/// The free ranges, in order, never touching each other.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Vec<(u32, u32)>,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        Self { free: vec![(0, count)] }
    }

    /// So many slots; `None`: there is no such range.
    pub(crate) fn take(&mut self, count: u32) -> Option<Slot> {
        if count == 0 {
            return Some(Slot(0));
        }
        let at = self.free.iter().position(|&(_, length)| length >= count)?;
        let (first, length) = &mut self.free[at];
        let taken = Slot(*first);
        *first += count;
        *length -= count;
        if *length == 0 {
            self.free.remove(at);
        }
        Some(taken)
    }

    /// Gives back what [`Slots::take`] gave.
    pub(crate) fn give_back(&mut self, Slot(first): Slot, count: u32) {
        if count == 0 {
            return;
        }
        let at = self.free.partition_point(|&(other, _)| other < first);
        self.free.insert(at, (first, count));
        // With its neighbours, where it touches them.
        for left in [at, at.wrapping_sub(1)] {
            let Some(&[(a, a_length), (b, b_length)]) =
                self.free.get(left..left.wrapping_add(2)).and_then(|pair| pair.first_chunk())
            else {
                continue;
            };
            assert!(a + a_length <= b, "slots are given back once");
            if a + a_length == b {
                self.free[left] = (a, a_length + b_length);
                self.free.remove(left + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_never_given_twice_and_all_come_back() {
        let mut slots = Slots::new(64);
        let mut held: Vec<(u32, u32)> = Vec::new();
        let mut state = 7_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let dice = (state >> 33) as u32;
            if dice.is_multiple_of(2) {
                let count = 1 + (dice >> 1) % 9;
                if let Some(Slot(first)) = slots.take(count) {
                    assert!(first + count <= 64);
                    let apart = |&(other, length): &(u32, u32)| {
                        other + length <= first || first + count <= other
                    };
                    assert!(held.iter().all(apart), "{first}+{count} in {held:?}");
                    held.push((first, count));
                }
            } else if !held.is_empty() {
                let (first, count) = held.swap_remove((dice >> 1) as usize % held.len());
                slots.give_back(Slot(first), count);
            }
        }
        for (first, count) in held {
            slots.give_back(Slot(first), count);
        }
        assert_eq!(slots.free, [(0, 64)]);
        assert_eq!((slots.take(65), slots.take(64)), (None, Some(Slot(0))));
    }
}
