#!/usr/bin/env bash
# The rings, and the hand-over of cores, under loom: every interleaving within small bounds.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
# Other flags for every crate: a directory of its own keeps the others' builds.
export CARGO_TARGET_DIR=$target/loom RUSTFLAGS="--cfg loom"
cargo test --release -p curtail-ring --test all
exec cargo test --release -p curtail-shm --test protocol
