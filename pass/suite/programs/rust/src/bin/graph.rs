//! Graphs: breadth-first search, Dijkstra with a heap, union-find, strongly connected components by
//! recursion, triangle counting; adjacency in vectors of vectors, most of them short.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const ROUNDS: u32 = 50;

type Graph = Vec<Vec<(u32, u32)>>;

fn generate(random: &mut Random, n: u64) -> Graph {
    (0..n)
        .map(|_| {
            let degree = random.below(3) * random.below(4);
            let mut edges: Vec<_> = (0..degree)
                .map(|_| (random.below(n) as u32, 1 + random.below(100) as u32))
                .collect();
            edges.sort_unstable();
            edges.dedup_by_key(|edge| edge.0);
            edges
        })
        .collect()
}

fn breadth_first(graph: &Graph, from: u32) -> u64 {
    let mut levels = vec![u32::MAX; graph.len()];
    let mut queue = VecDeque::from([from]);
    levels[from as usize] = 0;
    let mut total = 0;
    while let Some(at) = queue.pop_front() {
        let level = levels[at as usize];
        total += u64::from(level);
        for (to, _) in &graph[at as usize] {
            if levels[*to as usize] == u32::MAX {
                levels[*to as usize] = level + 1;
                queue.push_back(*to);
            }
        }
    }
    total
}

fn shortest(graph: &Graph, from: u32) -> u64 {
    let mut distance = vec![u64::MAX; graph.len()];
    let mut heap = BinaryHeap::from([Reverse((0u64, from))]);
    let mut total = 0u64;
    while let Some(Reverse((far, at))) = heap.pop() {
        if distance[at as usize] <= far {
            continue;
        }
        distance[at as usize] = far;
        total = total.wrapping_mul(3).wrapping_add(far);
        heap.extend(
            graph[at as usize]
                .iter()
                .map(|(to, weight)| (far + u64::from(*weight), *to))
                .filter(|(far, to)| *far < distance[*to as usize])
                .map(Reverse),
        );
    }
    total
}

fn components(graph: &Graph) -> u64 {
    fn root(parents: &mut [u32], mut at: u32) -> u32 {
        while parents[at as usize] != at {
            parents[at as usize] = parents[parents[at as usize] as usize];
            at = parents[at as usize];
        }
        at
    }
    let mut parents: Vec<u32> = (0..graph.len() as u32).collect();
    for (from, edges) in graph.iter().enumerate() {
        for (to, _) in edges {
            let (a, b) = (root(&mut parents, from as u32), root(&mut parents, *to));
            parents[a.max(b) as usize] = a.min(b);
        }
    }
    parents.iter().enumerate().filter(|(at, parent)| *at as u32 == **parent).count() as u64
}

struct Tarjan<'a> {
    graph: &'a Graph,
    /// 0: not yet visited.
    index: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    next: u32,
    found: u64,
}

impl Tarjan<'_> {
    fn visit(&mut self, at: u32) -> u32 {
        let own = self.next;
        self.next += 1;
        self.index[at as usize] = own;
        self.stack.push(at);
        self.on_stack[at as usize] = true;
        let mut low = own;
        let graph = self.graph;
        for (to, _) in &graph[at as usize] {
            if self.index[*to as usize] == 0 {
                low = low.min(self.visit(*to));
            } else if self.on_stack[*to as usize] {
                low = low.min(self.index[*to as usize]);
            }
        }
        if low == own {
            self.found += 1;
            while let Some(member) = self.stack.pop() {
                self.on_stack[member as usize] = false;
                if member == at {
                    break;
                }
            }
        }
        low
    }
}

fn strongly_connected(graph: &Graph) -> u64 {
    let n = graph.len();
    let (index, on_stack) = (vec![0; n], vec![false; n]);
    let mut search = Tarjan { graph, index, on_stack, stack: Vec::new(), next: 1, found: 0 };
    for at in 0..n as u32 {
        if search.index[at as usize] == 0 {
            search.visit(at);
        }
    }
    search.found
}

fn triangles(graph: &Graph) -> u64 {
    let mut count = 0;
    for edges in graph {
        for (b, _) in edges {
            for (c, _) in &graph[*b as usize] {
                count += u64::from(edges.binary_search_by_key(c, |edge| edge.0).is_ok());
            }
        }
    }
    count
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    for _ in 0..rounds(ROUNDS) {
        for n in [12, 400, 20_000] {
            for _ in 0..40_000 / n {
                let graph = generate(&mut random, n);
                let from = random.below(n) as u32;
                sum.mix(breadth_first(&graph, from));
                sum.mix(shortest(&graph, from));
                sum.mix(components(&graph));
                sum.mix(strongly_connected(&graph));
                sum.mix(triangles(&graph));
            }
        }
    }
    sum.end();
}
