#!/usr/bin/env bash
# What needs safepoints to be tested: the applications' tests once more, now instrumented, and the
# command `curtail` as users have it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
ci/build.sh

say "the command's safepoints, verified"
ci/verify.sh "$release/curtail"

say "the applications' tests"
"$release/cargo-curtail" curtail test --quiet --release -p spin -p kv --all-features

say "locks, pre-emption and evictions once more, in flag builds"
"$release/cargo-curtail" curtail test --quiet --release --safepoint=flag -p spin -p kv --all-features \
  --test all -- locks:: preempt:: evicted:: noise:: helps::

say "batch programs follow the orders for their cores"
CURTAIL_HOME=$release cargo test --quiet --release -p colocate-bench --test all -- --ignored batch::

say "handlers in C and C++"
CURTAIL_HOME=$release cargo test --quiet --release -p curtail-capi -- --ignored

say "the safepoint suite, small: all variants print the same"
CURTAIL_HOME=$release cargo test --quiet --release -p safepoint-suite --test smoke -- --ignored \
  --skip outside
say "the same with a library that others wrote"
if cargo metadata --manifest-path pass/suite/outside/Cargo.toml --format-version 1 --quiet --locked \
  --filter-platform x86_64-unknown-linux-gnu --features lz4 >/dev/null; then
  CURTAIL_HOME=$release cargo test --quiet --release -p safepoint-suite --test smoke -- --ignored outside
else
  say "not done: its source is not to be had from the package registry"
fi

say "attacks from outside, small"
CURTAIL_HOME=$release cargo test --quiet --release -p attack-bench --test smoke -- --ignored \
  --test-threads 1

say "a new project builds, serves and ends"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
port=$((20000 + RANDOM % 20000))
lock=$PWD/Cargo.lock
(
  cd "$scratch"
  "$release/cargo-curtail" curtail new primes >/dev/null
  cd primes
  # Two tests on one machine should not meet.
  sed -i "s/:4000/:$port/" src/main.rs
  unset CARGO_TARGET_DIR
  cp "$lock" .
  server=$("$release/cargo-curtail" curtail build --quiet --release --target-dir "$target/new")
  "$server" >said </dev/null &
  pid=$!
  answer=
  for _ in $(seq 100); do
    # Until it listens, nothing is there to take the datagram.
    exec 3<>"/dev/udp/127.0.0.1/$port"
    # `read` would take a byte, and with it the datagram.
    if printf 1000 >&3 2>/dev/null &&
      answer=$(timeout 5 dd bs=2048 count=1 status=none <&3 2>/dev/null) && [ -n "$answer" ]; then
      break
    fi
    sleep 0.2
  done
  kill -TERM "$pid"
  wait "$pid" || die "the new project's server ended badly: $(cat said)"
  [ "$answer" = 168 ] || die "the new project's server answered: $answer"
  grep -q 'short: [1-9]' said || die "the new project's server said: $(cat said)"
)

say "curtail bench pre-empts"
result=$("$release/curtail" bench --policy tq --workload high-bimodal --load 0.5 --duration 500ms \
  --json -)
grep -Eq '"preemptions": ?[1-9]' <<<"$result" || die "no pre-emption in: $result"
