//! Batch work as a program: `montecarlo [THREADS]` runs until its input ends. Each line of its input is
//! answered by a line `UNITS NANOSECONDS`: the paths simulated so far by all threads, and the time
//! (since the program's start). At the end it prints the prices, so that no work is left out.
#![forbid(unsafe_code)]

use colocate_montecarlo::simulate;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

fn main() -> ExitCode {
    let threads = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 1,
        Some(Ok(threads)) if (1..=1_024).contains(&threads) => threads,
        Some(_) => {
            eprintln!("usage: montecarlo [THREADS]");
            return ExitCode::from(2);
        }
    };
    let (stop, units, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let prices = std::thread::scope(|scope| {
        let start = |seed| {
            let (stop, units) = (&stop, &units);
            scope.spawn(move || simulate(seed, stop, units, &mut || {}))
        };
        let workers: Vec<_> = (1..=threads).map(start).collect();
        for line in std::io::stdin().lock().lines() {
            let (count, ns) = (units.load(Ordering::Relaxed), begun.elapsed().as_nanos());
            let told = writeln!(std::io::stdout(), "{count} {ns}");
            if line.is_err() || told.is_err() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let joined = workers.into_iter().map(|worker| worker.join().expect("it does not panic"));
        joined.collect::<Vec<f64>>()
    });
    let mean = prices.iter().sum::<f64>() / prices.len() as f64;
    // The reader may have gone.
    let _ = writeln!(std::io::stdout(), "price {mean:.6}");
    ExitCode::SUCCESS
}
