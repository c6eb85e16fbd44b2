//! Containers, hashes, formats, tokens.
#![forbid(unsafe_code)]

mod containers;
mod formats;
mod hashes;
mod tokens;

use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

const CHECKS: &[Check] = &[
    Check::new("bytes", containers::bytes),
    Check::new("smallvec", containers::smallvec),
    Check::new("indexmap", containers::indexmap),
    Check::new("hashbrown", containers::hashbrown),
    Check::new("slab", containers::slab),
    Check::new("bumpalo", containers::bumpalo),
    Check::new("itertools", containers::itertools),
    Check::new("ryu", formats::ryu),
    Check::new("chrono", formats::chrono),
    Check::new("sha2", hashes::sha2),
    Check::new("blake3", hashes::blake3),
    Check::new("flate2", hashes::flate2),
    Check::new("regex", formats::regex),
    Check::new("serde_json", formats::serde_json),
    Check::new("rand", tokens::rand),
    Check::new("uuid", tokens::uuid),
    Check::new("ulid", tokens::ulid),
];

fn main() -> ExitCode {
    inside::main(CHECKS)
}
