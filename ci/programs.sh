#!/usr/bin/env bash
# The tests of all crates, and the examples in their documentation. --all: also what takes long and
# seldom finds anything (.config/nextest.toml lists it).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_all "$@"
need_rust
need g++=g++ || die "LevelDB needs a C++ compiler"

# With LevelDB, which the package kv brings in any case.
build=(--workspace --features curtail-cli/kv)
[ -z "$all" ] || export CURTAIL_HOSTILE_FRAMES=10000000
if need_nextest; then
  "$nextest" nextest run --cargo-profile ci "${build[@]}" --tests \
    --profile "$([ -n "$all" ] && echo all || echo default)"
else
  cargo test --quiet --no-fail-fast --profile ci "${build[@]}" --tests
fi
say "the examples in the documentation"
cargo test --quiet --profile ci "${build[@]}" --doc
