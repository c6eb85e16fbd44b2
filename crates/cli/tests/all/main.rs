//! The integration tests, one program: what it takes to link them is spent once.

mod common;
#[path = "common/daemon.rs"]
mod daemon;
#[path = "common/server.rs"]
mod server;

mod any_server;
mod bench_kv;
mod calibrate;
mod cli;
mod compare;
mod cores;
mod daemon_packets;
mod demo;
mod elastic_serve;
mod figures;
mod full;
mod http;
mod log;
mod sigterm;
mod sim;
mod sweeps;
mod top;
mod trace;
mod types;
mod xdp;
