//! How many events a second one core simulates, and what a run needs in memory:
//! `cargo run --release -p curtail-sim --example speed [JOBS]`.

use curtail_policy::{Spec, catalogue};
use curtail_sim::{Config, run};
use curtail_workload::{Arrivals, Requests, Until, named};
use std::time::Instant;

fn main() {
    let jobs: u64 = std::env::args().nth(1).map_or(2_000_000, |n| n.parse().expect("a number"));
    println!(
        "{:16} {:18} {:>7} {:>9} {:>9} {:>9}",
        "policy", "workload", "workers", "events/s", "jobs/s", "ns/event"
    );
    for (workload, workers) in
        [("extreme-bimodal", 1), ("extreme-bimodal", 16), ("exp1", 16), ("exp1", 1_024)]
    {
        let mix = named(workload).expect("it is in the list").mix();
        for entry in catalogue() {
            let spec = Spec::preset(entry.name).expect("it is in the catalogue");
            let config = Config::ideal(spec, workers, 1);
            let rate = mix.rate_rps(0.7, workers);
            let requests = Requests::new(&mix, Arrivals::Poisson, rate, 1, Until::Jobs(jobs));
            let start = Instant::now();
            let outcome = run(&config, requests, mix.classes().len(), Until::Jobs(jobs / 10))
                .expect("presets are valid");
            let took = start.elapsed().as_secs_f64();
            println!(
                "{:16} {:18} {:>7} {:>8.1}M {:>8.1}M {:>9.1}",
                entry.name,
                workload,
                workers,
                outcome.events as f64 / took / 1e6,
                outcome.arrived as f64 / took / 1e6,
                took * 1e9 / outcome.events as f64,
            );
        }
    }
}
