#!/bin/sh
# Whole programs: built plainly and with safepoints, at several levels and kinds, they must print the
# same, fire when asked to, and report sane figures. programs.sh DIRECTORY (of the built tools).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$1" && pwd)
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
failures=0

fail() {
  echo "FAIL $1"
  failures=$((failures + 1))
}

# The one JSON line: all fields there, and consistent. $1 file, $2 fewest firings.
sane() {
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
line = open(sys.argv[1]).read()
assert line.count("\n") == 1, line
t = json.loads(line)
names = "quantum_cycles yields interval_mean interval_mae interval_p50 interval_p99 interval_max"
assert list(t) == (names + " tsc_hz disturbed calm_mae calm_p99 readings").split(), list(t)
assert t["yields"] >= int(sys.argv[2]), t
assert t["interval_p50"] <= t["interval_p99"] <= t["interval_max"], t
assert t["interval_mean"] <= t["interval_max"] and 1e8 < t["tsc_hz"] < 1e10, t
PYTHON
}

# $1 label, $2 plain compiler, $3 ours, $4 source, then flags for both.
compare() {
  label=$1 plain=$2 ours=$3 source=$4
  shift 4
  "$plain" "$@" -o "$scratch/plain" "$here/programs/$source" -lm
  "$scratch/plain" >"$scratch/expected"
  for kind in clock flag; do
    if ! "$out/$ours" --safepoint=$kind "$@" -o "$scratch/ours" "$here/programs/$source" -lm \
      2>"$scratch/log" || [ -s "$scratch/log" ]; then
      cat "$scratch/log"
      fail "$label $kind: does not build in silence"
      continue
    fi
    "$scratch/ours" >"$scratch/got" && cmp -s "$scratch/expected" "$scratch/got" ||
      fail "$label $kind: differs"
    CURTAIL_TIMING=1us CURTAIL_TIMING_OUT="$scratch/timing" "$scratch/ours" >"$scratch/got" &&
      cmp -s "$scratch/expected" "$scratch/got" || fail "$label $kind: differs when firing"
    # Clock builds fire by themselves; flag builds need a second core to be fired at (flags.c does
    # without).
    least=100
    [ $kind = clock ] || least=0
    sane "$scratch/timing" $least || fail "$label $kind: figures"
    rm -f "$scratch/timing"
  done
  echo "done $label"
}

# A steady program reads the clock about once a quantum, however short that is: the rate is learnt from
# every one.
steady() {
  "$out/curtail-cc" -O2 -o "$scratch/ours" "$here/programs/steady.c"
  for quantum in 500ns 2us; do
    CURTAIL_TIMING=$quantum CURTAIL_TIMING_OUT="$scratch/timing" "$scratch/ours" >/dev/null
    sane "$scratch/timing" 100 || fail "steady $quantum: figures"
    python3 - "$scratch/timing" <<'PYTHON' || fail "steady $quantum: readings"
import json, sys
t = json.load(open(sys.argv[1]))
assert t["yields"] <= t["readings"] <= 3 * t["yields"], t
PYTHON
  done
  echo "done steady.c"
}
steady

# Loops that use thread-local variables have safepoints, where no address is held.
for flags in -O1 -O2 -O3 "-O2 -static" "-O2 -fno-lto"; do
  "$out/curtail-c++" $flags -o "$scratch/ours" "$here/programs/locals.cpp"
  CURTAIL_TIMING=1us CURTAIL_TIMING_OUT="$scratch/timing" "$scratch/ours" >"$scratch/got"
  [ "$(cat "$scratch/got")" = "3729680626 39999 39999" ] || { cat "$scratch/got"; fail "locals.cpp $flags: wrong result"; }
  sane "$scratch/timing" 100 || fail "locals.cpp $flags: does not fire"
  "$out/curtail-verify" "$scratch/ours" >"$scratch/log" || {
    cat "$scratch/log"
    fail "locals.cpp $flags: the verifier has findings"
  }
done
echo "done locals.cpp"

# Flag builds fire where they are asked to, and only there.
header=$here/../../crates/fiber/include
for flags in -O0 -O1 -O2 -O3 "-O2 -fPIC -pie" "-O2 -static" "-O2 -fno-lto"; do
  "$out/curtail-cc" --safepoint=flag $flags -I "$header" -o "$scratch/flags" "$here/programs/flags.c"
  "$scratch/flags" >"$scratch/got" || {
    cat "$scratch/got"
    fail "flags.c $flags"
  }
done
echo "done flags.c"

clang=/usr/lib/llvm-$major/bin/clang
for level in -O0 -O1 -O2 -O3; do
  compare "mixed.c $level" "$clang" curtail-cc mixed.c $level
  compare "mixed.cpp $level" "$clang++" curtail-c++ mixed.cpp $level
done
compare "mixed.c -O2 -fPIC -pie" "$clang" curtail-cc mixed.c -O2 -fPIC -pie
compare "mixed.c -O2 static" "$clang" curtail-cc mixed.c -O2 -static
vector=$(sed -n 's/^flags.*\(avx512bw\).*/-mavx512bw/p;t end;s/^flags.*\(avx2\).*/-mavx2/p;:end' \
  /proc/cpuinfo | head -n 1)
for flags in -msse2 $vector; do
  compare "vectors.c -O2 $flags" "$clang" curtail-cc vectors.c -O2 $flags
done

for flags in -O0 -O2 "-O2 -static"; do
  compare "long-calls.c $flags" "$clang" curtail-cc long-calls.c $flags
done
# A copy of 64 MiB is interrupted all the way, once a quantum.
"$out/curtail-cc" -O2 -o "$scratch/ours" "$here/programs/long-calls.c"
CURTAIL_TIMING=2us CURTAIL_TIMING_OUT="$scratch/timing" "$scratch/ours" copy >"$scratch/got"
# No time is asserted: interval and quantum are both in cycles of the same run, so the machine's speed
# is in neither side of the ratio; and a median stands whatever befalls up to half of the intervals.
# A copy in one piece would be a thousand quanta long.
python3 - "$scratch/timing" <<'PYTHON' || fail "long-calls.c: long copies are not interrupted in time"
import json, sys
t = json.load(open(sys.argv[1]))
assert t["yields"] >= 100, t
assert 0.5 < t["interval_p50"] / t["quantum_cycles"] < 2, t
PYTHON
rm -f "$scratch/timing"
echo "done long calls"

native=$here/../../crates/fiber/native
general="-std=gnu11 -O2 -mgeneral-regs-only -I $native/../include -I $native"
gcc $general -c "$native/safepoint.c" -o "$scratch/safepoint.o"
gcc $general -c "$here/programs/stub.c" -o "$scratch/stub-test.o"
gcc "$scratch/stub-test.o" "$scratch/safepoint.o" "$native/stub.S" -o "$scratch/stub"
"$scratch/stub" || fail "stub"
echo "done stub"

. "$here/rules.sh"
. "$here/builds.sh"
. "$here/edges.sh"

if [ "$failures" -ne 0 ]; then
  echo "$failures of the whole-program tests failed" >&2
  exit 1
fi
echo "all whole-program tests passed"
