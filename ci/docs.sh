#!/usr/bin/env bash
# The documentation of the crates, under target/doc; a broken link is an error.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need g++=g++ || die "LevelDB needs a C++ compiler"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
say "the documentation: $target/doc/curtail/index.html"
