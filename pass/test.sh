#!/bin/sh
# Tests the safepoint pass: FileCheck over test/ir/*.ll, then whole programs (test/programs.sh).
# Needs the pass and the drivers, built: pass/build.sh, cargo build --release -p curtail-driver.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-${CARGO_TARGET_DIR:-$here/../target}/release}
out=$(cd "$out" && pwd)
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
bin=/usr/lib/llvm-$major/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

# What RUN lines call.
mkdir "$scratch/bin"
printf '#!/bin/sh\nexec "%s/opt" -load-pass-plugin "%s/libcurtail_pass.so" "$@"\n' "$bin" "$out" \
  >"$scratch/bin/opt"
printf '#!/bin/sh\nexec "%s/FileCheck" --dump-input-filter=error "$@"\n' "$bin" \
  >"$scratch/bin/FileCheck"
printf '#!/bin/sh\nexec "%s/llc" "$@"\n' "$bin" >"$scratch/bin/llc"
printf '#!/bin/sh\nif "$@"; then exit 1; fi\n' >"$scratch/bin/not"
chmod +x "$scratch/bin"/*

failures=0
for test in "$here"/test/ir/*.ll; do
  sed -n 's/^; RUN: //p' "$test" | sed "s#%s#$test#g" >"$scratch/run"
  if ! [ -s "$scratch/run" ]; then
    echo "FAIL $(basename "$test"): no RUN line"
    failures=$((failures + 1))
    continue
  fi
  if (PATH=$scratch/bin:$PATH && set -e && . "$scratch/run") >"$scratch/log" 2>&1; then
    echo "ok   $(basename "$test")"
  else
    echo "FAIL $(basename "$test")"
    cat "$scratch/log"
    failures=$((failures + 1))
  fi
done
if [ "$failures" -ne 0 ]; then
  echo "$failures of the pass's IR tests failed" >&2
  exit 1
fi
sh "$here/test/programs.sh" "$out"
