//! Leftist heaps threaded through one array of nodes, one node for each job: any number of heaps, of
//! any size together, without memory of their own.
//!
//! Owned by one policy. The invariant: a node is in at most one heap; each key is at most its
//! children's, and each node's right child is no further from a missing child than the left one. So
//! a right spine has O(log n) nodes, and putting in, taking the least and taking out any node are
//! O(log n) in the worst case (C. A. Crane, *Linear Lists and Priority Queues as Balanced Binary
//! Trees*, 1972).

const NIL: u32 = u32::MAX;

/// Smaller first.
pub(crate) type Key = (u64, u64);

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    left: u32,
    right: u32,
    parent: u32,
    /// Nodes on the shortest way down to a missing child.
    rank: u32,
}

/// A heap.
#[derive(Clone, Copy)]
pub(crate) struct Root(u32);

impl Root {
    pub(crate) const EMPTY: Self = Self(NIL);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == NIL
    }

    /// The node with the least key.
    pub(crate) fn least(self) -> Option<u32> {
        (self.0 != NIL).then_some(self.0)
    }
}

/// The nodes of all heaps.
pub(crate) struct Heaps(Vec<Node>);

impl Heaps {
    pub(crate) const WORST: Key = (u64::MAX, u64::MAX);

    pub(crate) fn new(nodes: usize) -> Self {
        let node = Node { key: Self::WORST, left: NIL, right: NIL, parent: NIL, rank: 1 };
        Self(vec![node; nodes])
    }

    /// The key with which that node was last put in.
    pub(crate) fn key(&self, node: u32) -> Key {
        self.0[node as usize].key
    }

    /// The least key; [`Heaps::WORST`] where there is none.
    pub(crate) fn least(&self, root: Root) -> Key {
        root.least().map_or(Self::WORST, |node| self.key(node))
    }

    /// Puts in a node that is in no heap.
    pub(crate) fn push(&mut self, root: &mut Root, node: u32, key: Key) {
        self.0[node as usize] = Node { key, left: NIL, right: NIL, parent: NIL, rank: 1 };
        root.0 = self.merge(root.0, node);
    }

    /// Takes out a node that is in this heap.
    pub(crate) fn remove(&mut self, root: &mut Root, node: u32) {
        let Node { left, right, parent, .. } = self.0[node as usize];
        let rest = self.merge(left, right);
        if rest != NIL {
            self.0[rest as usize].parent = parent;
        }
        if parent == NIL {
            root.0 = rest;
            return;
        }
        let above = &mut self.0[parent as usize];
        if above.left == node {
            above.left = rest;
        } else {
            above.right = rest;
        }
        self.lean(parent, true);
    }

    fn rank(&self, node: u32) -> u32 {
        if node == NIL { 0 } else { self.0[node as usize].rank }
    }

    /// Restores ranks from `node` upwards. `early`: stops where one has not changed, as those above
    /// are right then.
    fn lean(&mut self, mut node: u32, early: bool) {
        while node != NIL {
            let Node { left, right, .. } = self.0[node as usize];
            let (at_left, at_right) = (self.rank(left), self.rank(right));
            let it = &mut self.0[node as usize];
            if at_left < at_right {
                (it.left, it.right) = (right, left);
            }
            let rank = at_left.min(at_right) + 1;
            if early && it.rank == rank {
                return;
            }
            it.rank = rank;
            node = it.parent;
        }
    }

    /// Makes one heap of two, down their right spines.
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == NIL || b == NIL {
            let root = a.min(b);
            if root != NIL {
                self.0[root as usize].parent = NIL;
            }
            return root;
        }
        let (root, mut other) = if self.key(a) <= self.key(b) { (a, b) } else { (b, a) };
        self.0[root as usize].parent = NIL;
        let mut at = root;
        loop {
            let right = self.0[at as usize].right;
            if right != NIL && self.key(right) <= self.key(other) {
                at = right;
                continue;
            }
            self.0[at as usize].right = other;
            self.0[other as usize].parent = at;
            if right == NIL {
                break;
            }
            (at, other) = (other, right);
        }
        self.lean(at, false);
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn check(heaps: &Heaps, node: u32, parent: u32) -> usize {
        if node == NIL {
            return 0;
        }
        let it = &heaps.0[node as usize];
        assert_eq!(it.parent, parent);
        assert!(parent == NIL || heaps.key(parent) <= it.key);
        assert!(heaps.rank(it.left) >= heaps.rank(it.right));
        assert_eq!(it.rank, heaps.rank(it.right) + 1);
        1 + check(heaps, it.left, node) + check(heaps, it.right, node)
    }

    /// Against two sorted lists, with the invariant looked at after every step.
    #[test]
    fn agrees_with_sorting() {
        const NODES: usize = 60;
        let mut rng = Rng::new(11);
        let mut heaps = Heaps::new(NODES);
        let mut roots = [Root::EMPTY; 2];
        let mut sorted: [Vec<(Key, u32)>; 2] = [Vec::new(), Vec::new()];
        for seq in 0..20_000 {
            let (node, which) = (rng.below(NODES) as u32, rng.below(2));
            let place = sorted.iter().position(|s| s.iter().any(|&(_, other)| other == node));
            match place {
                None => {
                    let key = (rng.below(8) as u64, seq);
                    heaps.push(&mut roots[which], node, key);
                    sorted[which].push((key, node));
                    sorted[which].sort_unstable();
                }
                Some(heap) => {
                    let least = rng.below(3) > 0;
                    let out = if least { sorted[heap][0].1 } else { node };
                    heaps.remove(&mut roots[heap], out);
                    sorted[heap].retain(|&(_, other)| other != out);
                }
            }
            for (root, sorted) in roots.iter().zip(&sorted) {
                assert_eq!(check(&heaps, root.0, NIL), sorted.len());
                assert_eq!(root.least(), sorted.first().map(|&(_, node)| node));
                assert_eq!(heaps.least(*root), sorted.first().map_or(Heaps::WORST, |s| s.0));
            }
        }
    }
}
