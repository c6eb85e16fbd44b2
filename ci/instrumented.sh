#!/usr/bin/env bash
# What needs safepoints to be tested: the applications' tests once more, now instrumented, and the
# command `curtail` as users have it. --all: also in flag builds, and with a library of others.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_all "$@"
need_rust
need_llvm || skip "no LLVM of rustc's major"
plain_release
ci/build.sh --tested

say "the command's safepoints, verified"
ci/verify.sh "$release/curtail"

say "the applications' tests"
# With LevelDB, which is kv's default; RocksDB takes half an hour to build.
applications=(-p spin -p kv -p dns -p tpcc)
instrumented=("$release/cargo-curtail" curtail)
if need_nextest; then
  # As `cargo nextest`, cargo's own way to call it.
  PATH=$(dirname "$nextest"):$PATH
  "${instrumented[@]}" nextest run --release "${applications[@]}"
else
  "${instrumented[@]}" test --quiet --release "${applications[@]}" --tests
fi

if [ -n "$all" ]; then
  say "locks, pre-emption and evictions once more, in flag builds"
  "${instrumented[@]}" test --quiet --release --safepoint=flag "${applications[@]}" \
    --test all -- locks:: preempt:: evicted:: noise:: helps::
fi

# The tests that need what is built here, of all packages in one build.
say "batch programs that follow orders, handlers in C and C++, the safepoint suite, attacks"
CURTAIL_HOME=$release cargo test --quiet --release "${native[@]/#/--package=}" --tests -- \
  --ignored --skip outside --test-threads 1
if [ -n "$all" ]; then
  say "the safepoint suite with a library that others wrote"
  if cargo metadata --manifest-path pass/suite/outside/Cargo.toml --format-version 1 --quiet --locked \
    --filter-platform x86_64-unknown-linux-gnu --features lz4 >/dev/null; then
    CURTAIL_HOME=$release cargo test --quiet --release "${native[@]/#/--package=}" --tests \
      -- --ignored outside
  else
    say "not done: its source is not to be had from the package registry"
  fi
fi

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
  server=$("$release/cargo-curtail" curtail build --quiet --release --target-dir "$target/curtail")
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
  for kind in threads axum; do
    (
      cd "$scratch"
      "$release/cargo-curtail" curtail new "--$kind" "$kind" >/dev/null
      cd "$kind"
      cp "$lock" .
      "$release/cargo-curtail" curtail check --quiet --target-dir "$target/curtail"
    ) || die "a new project of $kind does not compile"
  done
)

say "curtail bench pre-empts"
result=$("$release/curtail" bench --policy tq --workload high-bimodal --load 0.5 --duration 500ms \
  --json -) || say "not valid on this machine; what counts here are pre-emptions"
grep -Eq '"preemptions": ?[1-9]' <<<"$result" || die "no pre-emption in: $result"
