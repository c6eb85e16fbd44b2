#!/usr/bin/env bash
# The compiler pass: built, and its tests, with FileCheck and with whole programs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
pass/build.sh "$release"
cargo build --quiet --release -p curtail-driver
exec pass/test.sh "$release"
