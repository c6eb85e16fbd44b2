#!/usr/bin/env bash
# Builds the program of one group with safepoints: build.sh GROUP. Prints its path, or why there is none.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/common.sh"
work=$target/bench/sweep
log=$work/$1.log
mkdir -p "$work"
# curtail's drivers are where ci/bench.sh has put them, unless told otherwise.
tools=${CURTAIL_TOOLS:-$release}
if built=$("$tools/cargo-curtail" curtail build --quiet --release --locked --target-dir "$work/build" \
  --manifest-path bench/sweep/Cargo.toml --features "in-$1" --bin "sweep-$1" 2>"$log"); then
  grep "/sweep-$1\$" <<<"$built"
else
  echo "it does not build ($log): $(grep -m1 '^error' "$log" || echo "no error is named there")"
  exit 1
fi
