#!/bin/sh
# The benchmarks: bench/run.sh [ring|switch|dispatch|preempt|sim]… [options of curtail-bench]
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

# The simulator's peers are Python packages, in an environment of their own.
peers=$target/bench/python
sim=yes
for argument in "$@"; do
  case $argument in
  sim) sim=yes && break ;;
  ring | switch | dispatch | preempt) sim=no ;;
  esac
done
if [ $sim = yes ]; then
  if ! python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "bench: no python3 (3.9 or newer, with venv), the simulator's peers are skipped"
  elif ! { [ -x "$peers/bin/pip" ] || python3 -m venv "$peers"; } ||
    ! "$peers/bin/pip" --disable-pip-version-check install --quiet -r bench/sim/requirements.txt; then
    echo "bench: pip cannot install ciw and simpy, the simulator's peers are skipped"
  else
    set -- "$@" --python "$peers/bin/python"
  fi
fi

exec "$target/release/curtail-bench" "$@" --out "$target/bench"
