//! The longest path without a safepoint to each block of a function.
//!
//! Distances flow along edges from blocks that hand theirs on (those without a safepoint). Where such
//! edges form a cycle, a `Prover` must prove that it ends: it names a block that every round
//! passes, and how often at most. A cycle without a proof is reported, and then counts as one round,
//! so that the same fault is not reported again by everything around it.

use std::collections::{HashMap, HashSet};

/// A distance, and the address at which it begins.
pub type Since = (u64, u64);

/// What may have been executed without a safepoint when a block is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Since the function's entry, if a path from there comes here without a safepoint.
    pub entry: Option<u64>,
    /// Since the last safepoint in the function.
    pub local: Option<Since>,
}

impl At {
    /// The larger of both, each for itself.
    #[must_use]
    pub fn join(self, other: At) -> At {
        At { entry: self.entry.max(other.entry), local: self.local.max(other.local) }
    }

    /// Further on by `cost`.
    #[must_use]
    pub fn plus(self, cost: u64) -> At {
        At {
            entry: self.entry.map(|d| d.saturating_add(cost)),
            local: self.local.map(|(d, from)| (d.saturating_add(cost), from)),
        }
    }

    fn is_reached(self) -> bool {
        self != At::default()
    }
}

/// How a cycle is known to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// A block that every round passes.
    pub through: usize,
    /// How often it is passed at most, in one stay in the cycle.
    pub most: u64,
}

/// Proves that cycles end.
pub trait Prover {
    /// A strongly connected set of blocks (sorted): how often it goes round. `entries`: the blocks at
    /// which it is entered.
    fn rounds(&mut self, cycle: &[usize], entries: &[usize]) -> Option<Rounds>;
    /// There is no proof that this one ends. May be told of one cycle several times.
    fn unproven(&mut self, cycle: &[usize]);
    /// It ends, but so late? `round`: the longest way round. Says whether it counts as one round.
    fn too_long(&mut self, cycle: &[usize], most: u64, round: u64) -> bool;
}

/// A function's blocks as the distances see them.
#[derive(Debug, Default)]
pub struct Graph {
    /// Edges along which distances are handed on.
    pub next: Vec<Vec<usize>>,
    /// What each block adds, its call included.
    pub cost: Vec<u64>,
}

/// The distances at the beginning of each block, from those at the starts.
pub fn solve(graph: &Graph, starts: &HashMap<usize, At>, prover: &mut dyn Prover) -> Vec<At> {
    let mut solver = Solver { graph, prover };
    let all: Vec<usize> = (0..graph.next.len()).collect();
    let mut at = vec![At::default(); all.len()];
    solver.region(&all, None, starts, &mut at);
    at
}

struct Solver<'a> {
    graph: &'a Graph,
    prover: &'a mut dyn Prover,
}

impl Solver<'_> {
    /// One set of blocks; edges into `cut` do not count.
    fn region(
        &mut self,
        nodes: &[usize],
        cut: Option<usize>,
        starts: &HashMap<usize, At>,
        at: &mut [At],
    ) {
        let inside: HashSet<usize> = nodes.iter().copied().collect();
        for &node in nodes {
            at[node] = starts.get(&node).copied().unwrap_or_default();
        }
        let graph = self.graph;
        let next = |node: usize| {
            let to = graph.next[node].iter().copied();
            to.filter(|to| inside.contains(to) && Some(*to) != cut).collect::<Vec<_>>()
        };
        // Tarjan's components come callees first: the reverse is an order of the paths.
        let mut components = components(nodes, &next);
        components.reverse();
        for component in components {
            let cyclic = component.len() > 1 || next(component[0]).contains(&component[0]);
            if cyclic {
                self.cycle(&component, at);
            }
            for &node in &component {
                if !at[node].is_reached() {
                    continue;
                }
                let out = at[node].plus(graph.cost[node]);
                for to in next(node) {
                    if component.binary_search(&to).is_err() {
                        at[to] = at[to].join(out);
                    }
                }
            }
        }
    }

    /// A cycle whose entries' distances are known: sets those of all its blocks.
    fn cycle(&mut self, nodes: &[usize], at: &mut [At]) {
        let starts: HashMap<usize, At> =
            nodes.iter().filter(|&&n| at[n].is_reached()).map(|&n| (n, at[n])).collect();
        let mut entries: Vec<usize> = starts.keys().copied().collect();
        entries.sort_unstable();
        let Some(&first) = entries.first() else { return };
        let proof = self.prover.rounds(nodes, &entries);
        if proof.is_none() {
            self.prover.unproven(nodes);
        }
        let Rounds { through, most } = proof.unwrap_or(Rounds { through: first, most: 1 });

        // From the other entries up to `through`; then from there once round.
        let others = starts.iter().filter(|(node, _)| **node != through);
        let others: HashMap<usize, At> = others.map(|(&node, &at)| (node, at)).collect();
        let mut scratch = at.to_vec();
        self.region(nodes, Some(through), &others, &mut scratch);
        let first_lap: Vec<At> = nodes.iter().map(|&n| scratch[n]).collect();
        let mut arriving = starts.get(&through).copied().unwrap_or_default();
        for &node in nodes {
            if self.graph.next[node].contains(&through) && scratch[node].is_reached() {
                arriving = arriving.join(scratch[node].plus(self.graph.cost[node]));
            }
        }
        let zero = HashMap::from([(through, At { entry: Some(0), local: None })]);
        self.region(nodes, Some(through), &zero, &mut scratch);
        let lap = |n: usize| scratch[n].entry.map_or(0, |d| d.saturating_add(self.graph.cost[n]));
        let longest = nodes.iter().map(|&n| lap(n)).max().unwrap_or(0);
        let most = if self.prover.too_long(nodes, most, longest) { 1 } else { most };
        let turned = arriving.plus(longest.saturating_mul(most.saturating_sub(1)));
        for (&node, before) in nodes.iter().zip(first_lap) {
            let later = scratch[node].entry.map_or(At::default(), |d| turned.plus(d));
            at[node] = before.join(later);
        }
    }
}

/// Strongly connected components, each sorted, in reverse topological order (Tarjan, without
/// recursion: functions may have tens of thousands of blocks).
pub fn components(nodes: &[usize], next: &dyn Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    #[derive(Default)]
    struct State {
        index: HashMap<usize, (usize, usize)>,
        on_stack: HashSet<usize>,
        stack: Vec<usize>,
    }
    let mut found = Vec::new();
    let mut s = State::default();
    for &root in nodes {
        if s.index.contains_key(&root) {
            continue;
        }
        let mut calls: Vec<(usize, Vec<usize>, usize)> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(node) = enter.take() {
                let number = s.index.len();
                s.index.insert(node, (number, number));
                s.stack.push(node);
                s.on_stack.insert(node);
                calls.push((node, next(node), 0));
            }
            let Some((node, to, at)) = calls.last_mut() else { break };
            if let Some(&other) = to.get(*at) {
                *at += 1;
                if let Some(&(number, _)) = s.index.get(&other) {
                    if s.on_stack.contains(&other) {
                        let low = &mut s.index.get_mut(node).expect("entered above").1;
                        *low = (*low).min(number);
                    }
                } else {
                    enter = Some(other);
                }
                continue;
            }
            let node = *node;
            calls.pop();
            let (number, low) = s.index[&node];
            if let Some((parent, ..)) = calls.last() {
                let above = &mut s.index.get_mut(parent).expect("entered above").1;
                *above = (*above).min(low);
            }
            if low == number {
                let start = s.stack.iter().rposition(|&n| n == node).expect("pushed when entered");
                let mut component = s.stack.split_off(start);
                component.iter().for_each(|n| {
                    s.on_stack.remove(n);
                });
                component.sort_unstable();
                found.push(component);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known(Option<Rounds>, usize);
    impl Prover for Known {
        fn rounds(&mut self, _: &[usize], _: &[usize]) -> Option<Rounds> {
            self.0
        }
        fn unproven(&mut self, _: &[usize]) {
            self.1 += 1;
        }
        fn too_long(&mut self, _: &[usize], _: u64, _: u64) -> bool {
            false
        }
    }

    fn entry(graph: &Graph, proof: Option<Rounds>) -> (Vec<Option<u64>>, usize) {
        let starts = HashMap::from([(0, At { entry: Some(0), local: None })]);
        let mut prover = Known(proof, 0);
        let at = solve(graph, &starts, &mut prover);
        (at.iter().map(|at| at.entry).collect(), prover.1)
    }

    #[test]
    fn the_longer_arm_counts() {
        let graph =
            Graph { next: vec![vec![1, 2], vec![3], vec![3], vec![]], cost: vec![1, 5, 9, 1] };
        assert_eq!(entry(&graph, None).0, [Some(0), Some(1), Some(1), Some(10)]);
    }

    #[test]
    fn a_loop_counts_as_often_as_it_is_proven_to_run() {
        // 0 → 1 ⇄ 2, 1 → 3
        let graph =
            Graph { next: vec![vec![1], vec![2, 3], vec![1], vec![]], cost: vec![3, 2, 5, 0] };
        let (at, unproven) = entry(&graph, Some(Rounds { through: 1, most: 4 }));
        // Three rounds of 7, then block 1 once more.
        assert_eq!((at[1], at[3], unproven), (Some(3 + 21), Some(3 + 21 + 2), 0));
        let (at, unproven) = entry(&graph, None);
        assert_eq!((at[3], unproven), (Some(5), 1));
    }

    #[test]
    fn what_is_not_reached_has_no_distance() {
        let graph = Graph { next: vec![vec![], vec![0]], cost: vec![1, 1] };
        assert_eq!(entry(&graph, None).0, [Some(0), None]);
    }

    #[test]
    fn components_are_found_without_recursion() {
        let n = 200_000;
        let next = |at: usize| if at + 1 < n { vec![at + 1] } else { vec![n - 2] };
        let nodes: Vec<usize> = (0..n).collect();
        let found = components(&nodes, &next);
        assert_eq!(found.len(), n - 1);
        assert_eq!(found[0], [n - 2, n - 1]);
    }
}
