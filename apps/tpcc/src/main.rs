//! `tpcc`: see the library, and `tpcc --help`.
#![forbid(unsafe_code)]

use clap::Parser;
use curtail::{Nanos, Server, Spec};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use tpcc::{Scale, Store, Tpcc};

/// TPC-C's five transactions on a store in memory, each a class of the server.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where to listen, as in udp://127.0.0.1:4000,tcp://127.0.0.1:4000
    #[arg(long, value_name = "URLS", default_value = "udp://127.0.0.1:4000")]
    listen: String,
    /// Warehouses; each takes about 60 MiB
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// The policy; see `curtail policies`
    #[arg(long, value_name = "NAME", default_value = "tq")]
    policy: String,
    /// How long a transaction may run while others wait, in microseconds [default: the policy's own]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..))]
    quantum_us: Option<u64>,
    /// Workers [default: the cores, less one for the dispatcher]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
}

fn main() -> ExitCode {
    match serve(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tpcc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut spec = Spec::preset(&args.policy)?;
    if let Some(quantum) = args.quantum_us {
        spec = spec.with_quantum(Nanos(quantum * 1_000))?;
    }
    let transport = curtail::net::open(&args.listen)?;
    let store = Arc::new(Store::load(Scale::of(args.warehouses)));
    let mut server = Server::builder(Tpcc::new(store.clone())).policy(spec).transport(transport);
    if let Some(workers) = args.workers {
        server = server.workers(workers);
    }
    let server = server.build()?;
    let listens = server.listens();
    server.handle().shutdown_on_signals()?;
    println!("{listens}");
    let report = server.run()?;
    for note in report.preempt_note.iter().chain(&report.notes) {
        eprintln!("note: {note}");
    }
    for class in &report.classes {
        eprintln!("{}: {} ended, {} refused", class.name, class.completed, class.dropped);
    }
    match store.check().first() {
        None => Ok(()),
        Some(broken) => Err(format!("the tables are broken: {broken:?}").into()),
    }
}
