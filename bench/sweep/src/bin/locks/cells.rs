//! Cells that are filled once, and values that are replaced.

use arc_swap::ArcSwap;
use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must};
use once_cell::sync::{Lazy, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CELLS: usize = 1 << 16;
static FILLED: [OnceCell<u64>; CELLS] = [const { OnceCell::new() }; CELLS];
static TIMES: [AtomicU64; CELLS] = [const { AtomicU64::new(0) }; CELLS];
static SQUARES: Lazy<Vec<u64>> = Lazy::new(|| {
    (0..100)
        .map(|n| {
            compute();
            n * n
        })
        .collect()
});

pub fn once_cell() -> Outcome {
    for _ in 0..4 {
        // Eight in a row come to the same cell.
        let cell = (ticket() / 8) as usize % CELLS;
        let found = *FILLED[cell].get_or_init(|| {
            compute();
            TIMES[cell].fetch_add(1, Relaxed);
            cell as u64 * 3
        });
        let times = TIMES[cell].load(Relaxed);
        must!(found == cell as u64 * 3 && times == 1, "cell {cell}: {found}, filled {times} times");
    }
    let own = once_cell::unsync::OnceCell::new();
    let value = *own.get_or_init(|| compute() % 2);
    must!(own.get() == Some(&value), "an unshared cell changed");
    Ok(SQUARES.iter().sum::<u64>().to_string())
}

/// One number, held twice.
static PAIR: Lazy<ArcSwap<(u64, u64)>> = Lazy::new(|| ArcSwap::from_pointee((0, 0)));
static ADDED: AtomicU64 = AtomicU64::new(0);

pub fn arc_swap() -> Outcome {
    for _ in 0..10 {
        // Many guards at once: more than there are fast slots for.
        let guards: Vec<_> = (0..12).map(|_| PAIR.load()).collect();
        compute();
        for guard in &guards {
            must!(guard.0 == guard.1, "{:?} was loaded", **guard);
        }
        PAIR.rcu(|pair| {
            compute();
            Arc::new((pair.0 + 1, pair.1 + 1))
        });
        ADDED.fetch_add(1, Relaxed);
    }
    Ok("whole".to_owned())
}

pub fn arc_swap_end() -> Result<(), String> {
    let (pair, added) = (PAIR.load_full(), ADDED.load(Relaxed));
    must!(*pair == (added, added), "{pair:?} instead of {added}");
    Ok(())
}
