//! How long GET, PUT, DELETE and SCAN take, one at a time on an otherwise idle store, through the
//! whole handler: request parsed, reply written. Built plainly, these are the un-instrumented service
//! times that slowdown is measured against; built instrumented, their difference is what
//! instrumentation costs.
//!
//! `cargo run --release -p kv --example service-times [VALUE_BYTES]`

use curtail::App;
use kv::load;
use kv::protocol::{NO_LIMIT, Op, Opcode, Reply, Request, Status};
use kv::{KvApp, KvOptions};
use std::time::Instant;

/// The operations are measured in turns, many short ones each, so that a disturbance of the machine
/// hits all alike and the quickest turn is free of it.
const TURNS: usize = 60;

fn main() {
    let value_bytes = std::env::args().nth(1).map_or(64, |n| n.parse().expect("VALUE_BYTES"));
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((u128::from(state) * u128::from(load::PAPER_KEYS)) >> 64) as u32
    };
    let value = vec![7; value_bytes];
    let mut turns: [Vec<f64>; 4] = Default::default();
    let (mut requests, mut reply) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        // Every turn on a new store, so that nothing drifts: LevelDB keeps what was written over or
        // deleted until it compacts, and SCANs go through it.
        let app = KvApp::open(KvOptions { value_bytes, ..KvOptions::default() }).expect("a store");
        app.setup().expect("keys");
        for opcode in [Opcode::Scan, Opcode::Get, Opcode::Put, Opcode::Delete] {
            let count = if opcode == Opcode::Scan { 8 } else { 2_000 };
            requests.clear();
            for id in 0..count {
                let key = load::key(random());
                let op = match opcode {
                    Opcode::Get => Op::Get { key: &key },
                    Opcode::Put => Op::Put { key: &key, value: &value },
                    Opcode::Delete => Op::Delete { key: &key },
                    Opcode::Scan => Op::Scan { start: &[], end: &[], limit: NO_LIMIT },
                };
                let mut bytes = Vec::new();
                Request { id, op }.write(&mut bytes).expect("short enough");
                requests.push(bytes);
            }
            let started = Instant::now();
            for request in &requests {
                reply.clear();
                app.serve(request, &mut reply);
            }
            turns[opcode.index()].push(started.elapsed().as_nanos() as f64 / count as f64);
            let last = Reply::parse(&reply).expect("a reply");
            assert_eq!(last.status, Status::Ok);
            assert!(opcode != Opcode::Scan || last.entries == load::PAPER_KEYS);
        }
    }
    println!("{} keys, values of {value_bytes} bytes; ns a request", load::PAPER_KEYS);
    println!("{:8} {:>10} {:>10}", "", "quickest", "median");
    for (opcode, turns) in Opcode::ALL.into_iter().zip(&mut turns) {
        turns.sort_by(f64::total_cmp);
        println!("{:8} {:10.0} {:10.0}", opcode.name(), turns[0], turns[TURNS / 2]);
    }
}
