//! Buffers, vectors, maps and arenas: what was put in is there.

use bumpalo::Bump;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use curtail_sweep::{Outcome, must};
use hashbrown::HashMap;
use indexmap::IndexMap;
use itertools::Itertools;
use slab::Slab;
use smallvec::SmallVec;

pub fn bytes() -> Outcome {
    let mut buffer = BytesMut::with_capacity(16);
    for n in 0..500_u32 {
        buffer.put_u32(n);
    }
    let whole: Bytes = buffer.clone().freeze();
    let mut parts = Vec::new();
    while buffer.len() >= 100 {
        parts.push(buffer.split_to(100).freeze());
    }
    parts.push(buffer.freeze());
    let shared: Vec<Bytes> = parts.iter().map(|part| part.slice(..)).collect();
    must!(shared.concat() == whole, "joined parts are not the whole");
    let mut reader = whole;
    let mut sum = 0_u64;
    while reader.has_remaining() {
        sum += u64::from(reader.get_u32());
    }
    Ok(sum.to_string())
}

pub fn smallvec() -> Outcome {
    let mut all: SmallVec<[u64; 8]> = SmallVec::new();
    for n in 0..300 {
        all.push(n);
        all.insert(all.len() / 2, n * 2);
    }
    let middle: SmallVec<[u64; 8]> = all.drain(100..500).collect();
    all.shrink_to_fit();
    all.truncate(6);
    all.shrink_to_fit();
    must!(!all.spilled(), "six of eight have spilled");
    Ok(format!("{} {}", all.iter().sum::<u64>(), middle.iter().sum::<u64>()))
}

pub fn indexmap() -> Outcome {
    let mut map: IndexMap<String, u64> = (0..300).map(|n| (format!("key {n}"), n)).collect();
    map.retain(|_, value| *value % 3 != 0);
    map.shift_remove("key 100").ok_or("key 100 is missing")?;
    let in_order: Vec<u64> = map.values().copied().collect();
    must!(in_order.is_sorted(), "the order of insertion is lost");
    map.sort_by(|a, _, b, _| b.cmp(a));
    let (key, value) = map.first().ok_or("it is empty")?;
    Ok(format!("{} {key} {value}", map.len()))
}

pub fn hashbrown() -> Outcome {
    let mut tables: HashMap<u64, HashMap<u64, u64>> = HashMap::new();
    for n in 0..2_000_u64 {
        *tables.entry(n % 13).or_default().entry(n % 101).or_insert(0) += n;
    }
    tables.retain(|key, _| key % 2 == 0);
    tables.shrink_to_fit();
    let sum: u64 = tables.values().flat_map(HashMap::values).sum();
    let count: usize = tables.values().map(HashMap::len).sum();
    Ok(format!("{sum} {count}"))
}

pub fn slab() -> Outcome {
    let mut slab = Slab::new();
    let keys: Vec<usize> = (0..300).map(|n| slab.insert(n)).collect();
    for key in keys.iter().step_by(2) {
        must!(slab.remove(*key) == *key, "key {key} led elsewhere");
    }
    let again: Vec<usize> = (0..150).map(|n| slab.insert(n * 10)).collect();
    must!(slab.len() == 300 && again.iter().all(|key| *key < 300), "free keys were not used");
    Ok(slab.iter().map(|(key, value)| key * value).sum::<usize>().to_string())
}

pub fn bumpalo() -> Outcome {
    let mut arena = Bump::with_capacity(256);
    let mut sum = 0;
    for round in 0..4_u64 {
        let mut kept = bumpalo::collections::Vec::new_in(&arena);
        for n in 0..200 {
            let slice: &[u64] = arena.alloc_slice_fill_copy(5, n * round);
            kept.push((slice, arena.alloc_str(&n.to_string())));
        }
        for (n, (slice, text)) in (0..).zip(&kept) {
            must!(slice.iter().all(|it| *it == n * round), "slice {n} has other numbers");
            must!(text.parse() == Ok(n), "text {n} is {text}");
            sum += slice[4];
        }
        drop(kept);
        arena.reset();
    }
    Ok(sum.to_string())
}

pub fn itertools() -> Outcome {
    let groups = (0..400).chunk_by(|n| n / 7);
    let longest = groups.into_iter().map(|(_, group)| group.count()).max();
    let pairs = (0..20).cartesian_product(0..20).filter(|(a, b)| a < b).count();
    let orders = (0..5).permutations(4).unique().count();
    let merged = (0..100).step_by(2).merge((1..100).step_by(2)).collect_vec();
    must!(merged == (0..100).collect_vec(), "merged out of order");
    let text = (0..50).map(|n| n * n).join(",");
    let by_last = (0..100).into_group_map_by(|n| n % 10);
    Ok(format!("{longest:?} {pairs} {orders} {} {}", text.len(), by_last[&7].iter().sum::<i32>()))
}
