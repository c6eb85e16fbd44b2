//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/daemon.rs"]
mod daemon;

mod batch;
mod evicted;
mod helps;
mod locks;
mod noise;
mod orders;
mod quanta;
mod spawned;
mod spin;
mod waiting;
