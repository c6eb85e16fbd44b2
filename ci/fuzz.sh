#!/usr/bin/env bash
# Random programs through the safepoint pass: fuzz.sh [MINUTES] [OPTIONS] (--help tells of them).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
need csmith=csmith /usr/include/csmith/csmith.h=libcsmith-dev || say "own programs only"
pass/build.sh "$release"
cargo build --quiet --release -p curtail-driver -p curtail-fuzz
"$release/curtail-fuzz" "$@"
