//! A tournament over the workers: which has the least key, in O(1), and a changed key in O(log n).
//!
//! A complete binary tree in an array; each node holds the winner of its two children, the left one
//! (the lower index) on a tie, and how many leaves share the winning key. Leaves beyond the last
//! worker have the worst key and count as none.

#[derive(Clone, Copy, PartialEq, Eq)]
struct Node<K> {
    key: K,
    /// The leaf it comes from.
    index: u32,
    /// How many leaves below have this key.
    ties: u32,
}

/// A tournament over the workers, whose winner has the least key.
pub(crate) struct Tournament<K> {
    /// The root is 1, node i's children are 2i and 2i + 1, leaf i is `leaves + i`.
    nodes: Vec<Node<K>>,
    leaves: usize,
}

impl<K: Copy + Ord> Tournament<K> {
    /// `n` contestants with the key `initial`; none has ever a key above `worst`.
    pub(crate) fn new(n: usize, initial: K, worst: K) -> Self {
        let leaves = n.next_power_of_two();
        let mut nodes = vec![Node { key: worst, index: 0, ties: 0 }; 2 * leaves];
        for (index, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.index = index as u32;
            if index < n {
                (leaf.key, leaf.ties) = (initial, 1);
            }
        }
        let mut tree = Self { nodes, leaves };
        for node in (1..leaves).rev() {
            tree.nodes[node] = tree.play(node);
        }
        tree
    }

    fn play(&self, node: usize) -> Node<K> {
        // By index rather than by branches: which one wins can't be predicted.
        let children = &self.nodes[2 * node..][..2];
        let winner = children[usize::from(children[1].key < children[0].key)];
        let shared = children[1].key == children[0].key;
        let others = if shared { children[1].ties } else { 0 };
        Node { ties: winner.ties + others, ..winner }
    }

    /// The key of contestant `index`.
    pub(crate) fn key(&self, index: usize) -> K {
        self.nodes[self.leaves + index].key
    }

    /// Changes the key of contestant `index`.
    pub(crate) fn set(&mut self, index: usize, key: K) {
        let mut node = self.leaves + index;
        if self.nodes[node].key == key {
            return;
        }
        self.nodes[node].key = key;
        while node > 1 {
            node /= 2;
            let winner = self.play(node);
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }

    /// The lowest index among those with the least key, and that key.
    pub(crate) fn best(&self) -> (usize, K) {
        (self.nodes[1].index as usize, self.nodes[1].key)
    }

    /// How many share the least key.
    pub(crate) fn ties(&self) -> usize {
        self.nodes[1].ties as usize
    }

    /// The one at place `rank`, from 0 and by index, among those that share the least key.
    pub(crate) fn tied(&self, mut rank: usize) -> usize {
        debug_assert!(rank < self.ties());
        let least = self.nodes[1].key;
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            let left = &self.nodes[node];
            let on_the_left = if left.key == least { left.ties as usize } else { 0 };
            if rank >= on_the_left {
                rank -= on_the_left;
                node += 1;
            }
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn agrees_with_a_scan() {
        let mut rng = Rng::new(7);
        for n in [1, 2, 3, 5, 8, 17, 64, 100] {
            let mut keys = vec![3_u32; n];
            let mut tree = Tournament::new(n, 3, u32::MAX);
            for _ in 0..2_000 {
                let (index, key) = (rng.below(n), rng.below(6) as u32);
                // The worst key is a real key too: that of a contestant who is out.
                let key = if key == 5 { u32::MAX } else { key };
                keys[index] = key;
                tree.set(index, key);
                let least = *keys.iter().min().unwrap();
                let tied: Vec<_> = (0..n).filter(|&i| keys[i] == least).collect();
                assert_eq!(tree.best(), (tied[0], least));
                assert_eq!(tree.ties(), tied.len());
                assert!(tied.iter().enumerate().all(|(rank, &i)| tree.tied(rank) == i));
                assert_eq!(tree.key(index), key);
            }
        }
    }
}
