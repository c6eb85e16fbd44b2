#!/bin/sh
# The benchmarks: bench/run.sh [ring|switch|dispatch|preempt]… [options of curtail-bench]
# Builds what they need, runs them, leaves JSON (and a page, where there are runs) in target/bench/.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/bench"
target=$(cd "$target" && pwd)

cargo build --quiet --release -p curtail-bench

# A build made by `./x build` is instrumented; without one, the benchmark says that it skips us.
if [ -n "${CURTAIL:-}" ]; then
  set -- "$@" --curtail "$CURTAIL"
elif [ -x "$target/release/curtail" ]; then
  set -- "$@" --curtail "$target/release/curtail"
else
  echo "bench: no $target/release/curtail; \`./x build\` makes it"
fi

if command -v go >/dev/null 2>&1; then
  (cd bench/go && go build -o "$target/bench/peer-go" .)
  set -- "$@" --go "$target/bench/peer-go"
else
  echo "bench: no Go toolchain, its peer is skipped (golang.org/dl has one)"
fi

exec "$target/release/curtail-bench" "$@" --out "$target/bench"
