//! What comes next: at most one pending event for each of a fixed number of sources, in a tournament
//! tree. Reading the next one is O(1), changing a source's O(log n) with no branch that depends on
//! the times; a general heap would have to find and remove what a pre-emption overtakes.

/// When something happens and, at one time, in which order: the time in nanoseconds, then a rank
/// below 4.
pub(crate) type Key = u64;

/// Never.
pub(crate) const NEVER: Key = u64::MAX;

/// A job completes, or what a worker does after one is over.
pub(crate) const COMPLETION: u64 = 0;
/// A job arrives.
pub(crate) const ARRIVAL: u64 = 1;
/// The dispatcher acts, or something it sent gets there.
pub(crate) const DISPATCH: u64 = 2;
/// A quantum ends.
pub(crate) const QUANTUM: u64 = 3;

/// The key of a time and a rank.
#[inline]
pub(crate) fn key(at_ns: u64, rank: u64) -> Key {
    debug_assert!(at_ns < NEVER >> 2, "146 years are simulated");
    at_ns << 2 | rank
}

/// The time of a key.
#[inline]
pub(crate) fn time(key: Key) -> u64 {
    key >> 2
}

/// The lower source wins a tie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    key: Key,
    source: u32,
}

/// The pending events, at most one for each source.
pub(crate) struct Agenda {
    /// The root is 1, node i's children are 2i and 2i + 1, source i's leaf is `leaves + i`.
    nodes: Vec<Node>,
    leaves: usize,
}

impl Agenda {
    /// `sources` sources with nothing pending.
    pub(crate) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two();
        let mut nodes = vec![Node { key: NEVER, source: u32::MAX }; 2 * leaves];
        (0..sources).for_each(|source| nodes[leaves + source].source = source as u32);
        for parent in (1..leaves).rev() {
            nodes[parent] = nodes[2 * parent].min(nodes[2 * parent + 1]);
        }
        Self { nodes, leaves }
    }

    /// The source's pending event is at `key` now; [`NEVER`]: it has none.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, key: Key) {
        let mut at = self.leaves + source;
        self.nodes[at].key = key;
        while at > 1 {
            let winner = self.nodes[at].min(self.nodes[at ^ 1]);
            at >>= 1;
            if self.nodes[at] == winner {
                return;
            }
            self.nodes[at] = winner;
        }
    }

    /// The key of the source's pending event.
    pub(crate) fn key(&self, source: usize) -> Key {
        self.nodes[self.leaves + source].key
    }

    /// The earliest key, and whose it is.
    #[inline]
    pub(crate) fn next(&self) -> (Key, usize) {
        let Node { key, source } = self.nodes[1];
        (key, source as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(n in 1usize..40, sets in prop::collection::vec((0usize..40, 0u64..30), 0..200)) {
            let mut agenda = Agenda::new(n);
            let mut keys = vec![NEVER; n];
            for (source, key) in sets {
                let source = source % n;
                keys[source] = if key == 0 { NEVER } else { key };
                agenda.set(source, keys[source]);
                let (at, &least) = keys.iter().enumerate().min_by_key(|(_, key)| **key).unwrap();
                prop_assert_eq!(agenda.next(), (least, at));
            }
        }
    }

    #[test]
    fn ranks_order_one_time_only() {
        let order = [COMPLETION, ARRIVAL, DISPATCH, QUANTUM].map(|rank| key(7, rank));
        assert!(order.is_sorted() && order.iter().all(|&key| time(key) == 7));
        assert!(key(7, QUANTUM) < key(8, COMPLETION));
    }
}
