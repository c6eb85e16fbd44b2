//! rayon: its own threads work, and ours wait for them.

use curtail_sweep::{Outcome, must, text};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static OWN: LazyLock<Result<ThreadPool, String>> =
    LazyLock::new(|| rayon::ThreadPoolBuilder::new().num_threads(2).build().map_err(text));

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

pub fn rayon() -> Outcome {
    let sum: u64 = (0..5_000_u64).into_par_iter().filter(|n| n % 3 == 0).map(|n| n * n).sum();
    let mut numbers: Vec<u64> = (0..5_000).map(|n| n * 7_919 % 5_003).collect();
    numbers.par_sort_unstable();
    must!(numbers.is_sorted(), "not sorted");
    let counted = AtomicU64::new(0);
    rayon::scope(|scope| {
        for n in 0..20 {
            let counted = &counted;
            scope.spawn(move |_| {
                counted.fetch_add(n, Relaxed);
            });
        }
    });
    must!(counted.load(Relaxed) == 190, "a scope ended with {}", counted.load(Relaxed));
    let own = OWN.as_ref().map_err(Clone::clone)?;
    let inside = own.install(|| {
        let words: Vec<String> = (0..300).into_par_iter().map(|n| format!("{n:03}")).collect();
        words.par_chunks(7).map(|words| words.concat().len()).sum::<usize>()
    });
    let nth = fibonacci(12);
    let caught = std::panic::catch_unwind(|| {
        (0..64).into_par_iter().for_each(|n| {
            if n == 63 {
                std::panic::resume_unwind(Box::new(n))
            }
        })
    });
    let caught = caught.err().and_then(|panic| panic.downcast::<i32>().ok());
    must!(caught.as_deref() == Some(&63), "a panic came back as {caught:?}");
    Ok(format!("{sum} {inside} {nth}"))
}
