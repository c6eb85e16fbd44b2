//! The standard library's maps: BTreeMap and HashMap with numbers and strings, an LRU cache on
//! indices, interned words.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

const ROUNDS: u32 = 26;

/// Without a random seed: the same order in every run.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

fn ordered(random: &mut Random, n: u64) -> u64 {
    let mut map = BTreeMap::new();
    for i in 0..n {
        *map.entry(random.below(4 * n)).or_insert(0u64) += i;
    }
    let mut total = 0u64;
    for _ in 0..n {
        let from = random.below(4 * n);
        total += map.range(from..).take(5).map(|(key, value)| key ^ value).sum::<u64>();
        map.remove(&random.below(4 * n));
    }
    total + map.len() as u64
}

fn words(random: &mut Random, n: u64) -> u64 {
    let mut ids: Map<String, u32> = Map::default();
    let mut names: Vec<String> = Vec::new();
    let mut total = 0u64;
    for _ in 0..n {
        let word: String =
            (0..1 + random.below(4)).map(|_| char::from(b'a' + random.below(12) as u8)).collect();
        let next = names.len() as u32;
        let id = *ids.entry(word).or_insert_with_key(|word| {
            names.push(word.clone());
            next
        });
        total += u64::from(id) + names[id as usize].len() as u64;
    }
    total
}

/// Least recently used: a map to places in a doubly linked list of indices.
struct Cache {
    places: Map<u64, usize>,
    keys: Vec<u64>,
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Cache {
    /// Place 0 is the list's head.
    fn new(capacity: usize) -> Self {
        let ring = |step: usize| (0..=capacity).map(|i| (i + step) % (capacity + 1)).collect();
        Self {
            places: Map::default(),
            keys: vec![u64::MAX; capacity + 1],
            before: ring(capacity),
            after: ring(1),
        }
    }

    fn touch(&mut self, key: u64) -> bool {
        let known = self.places.get(&key).copied();
        let place = known.unwrap_or(self.before[0]);
        if known.is_none() {
            self.places.remove(&self.keys[place]);
            self.places.insert(key, place);
            self.keys[place] = key;
        }
        let (before, after) = (self.before[place], self.after[place]);
        self.after[before] = after;
        self.before[after] = before;
        let first = self.after[0];
        self.after[0] = place;
        self.before[place] = 0;
        self.after[place] = first;
        self.before[first] = place;
        known.is_some()
    }
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    for _ in 0..rounds(ROUNDS) {
        for n in [20, 500, 20_000] {
            for _ in 0..40_000 / n {
                sum.mix(ordered(&mut random, n));
                sum.mix(words(&mut random, n));
            }
            let mut cache = Cache::new(n as usize / 2);
            let hits = (0..20_000)
                .filter(|_| {
                    let wide = random.below(3) == 0;
                    cache.touch(random.below(if wide { 2 * n } else { n / 4 }))
                })
                .count();
            sum.mix(hits as u64);
        }
    }
    sum.end();
}
