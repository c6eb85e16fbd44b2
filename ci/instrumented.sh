#!/usr/bin/env bash
# What needs safepoints to be tested: the applications' tests once more, now instrumented, and the
# command `curtail` as users have it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
ci/build.sh

say "the applications' tests"
"$release/cargo-curtail" curtail test --quiet --release -p spin -p kv --all-features

say "locks and pre-emption once more, in flag builds"
"$release/cargo-curtail" curtail test --quiet --release --safepoint=flag -p spin -p kv --all-features \
  --test locks --test preempt

say "batch programs follow the orders for their cores"
CURTAIL_HOME=$release cargo test --quiet --release -p colocate-bench --test batch -- --ignored

say "handlers in C and C++"
CURTAIL_HOME=$release cargo test --quiet --release -p curtail-capi -- --ignored

say "the safepoint suite, small: all variants print the same"
CURTAIL_HOME=$release cargo test --quiet --release -p safepoint-suite --test smoke -- --ignored \
  --skip outside
say "the same with a library that others wrote"
if cargo metadata --manifest-path bench/safepoint/outside/Cargo.toml --format-version 1 --quiet --locked \
  --filter-platform x86_64-unknown-linux-gnu --features lz4 >/dev/null; then
  CURTAIL_HOME=$release cargo test --quiet --release -p safepoint-suite --test smoke -- --ignored outside
else
  say "not done: its source is not to be had from the package registry"
fi

say "attacks from outside, small"
CURTAIL_HOME=$release cargo test --quiet --release -p attack-bench --test smoke -- --ignored \
  --test-threads 1

say "curtail bench pre-empts"
result=$("$release/curtail" bench --policy tq --workload high-bimodal --load 0.5 --duration 500ms \
  --json -)
grep -Eq '"preemptions": ?[1-9]' <<<"$result" || die "no pre-emption in: $result"
