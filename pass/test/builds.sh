# Part of programs.sh (uses its variables): ways of building other than one compiler call, and cargo.

# Archives made by plain ar, ld -r, strip: everything that knows no bitcode.
mkdir "$scratch/parts"
cat >"$scratch/parts/a.c" <<'CODE'
__attribute__((noinline)) unsigned step(unsigned x) { unsigned n = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; n++; } return n; }
CODE
cat >"$scratch/parts/b.c" <<'CODE'
unsigned step(unsigned);
unsigned all(unsigned n) { unsigned sum = 0; for (unsigned i = 1; i < n; i++) sum += step(i); return sum; }
CODE
cat >"$scratch/parts/main.c" <<'CODE'
#include <stdio.h>
unsigned all(unsigned);
int main(void) { printf("%u\n", all(60000)); return 0; }
CODE
gcc -O2 "$scratch"/parts/*.c -o "$scratch/plain"
sum=$("$scratch/plain")
# $1 label, $2 program: prints the right sum, and fires.
fires() {
  CURTAIL_TIMING=1us CURTAIL_TIMING_OUT="$scratch/timing" "$2" >"$scratch/got" &&
    [ "$(cat "$scratch/got")" = "$sum" ] || fail "$1: wrong result"
  sane "$scratch/timing" 100 || fail "$1: does not fire"
  rm -f "$scratch/timing"
}
# The summary beside a report has a part for each link, and says what the report says. $1 report, then
# what was linked.
summed() {
  python3 - "$@" <<'PYTHON'
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
text = open(sys.argv[1] + ".txt").read()
assert sorted(re.findall(r"^\S.*$", text, re.M)) == sorted(sys.argv[2:]), text
done = [line for line in lines if "skipped" in line and line["skipped"] is None]
said = lambda label: sum(map(int, re.findall(rf"^  {label} +(\d+)", text, re.M)))
assert said("instrumented") == len(done) >= 2, text
assert said("safepoints") == sum(line["safepoints"] for line in done) >= 2, text
assert said("left alone") == sum(isinstance(line.get("skipped"), str) for line in lines), text
assert len(re.findall(r"longest path without one +\d+ units of 600: \w", text)) == len(sys.argv) - 2, text
PYTHON
}
parts() (
  set -ex
  cd "$scratch/parts"
  "$out/curtail-cc" -O2 -fPIC --report report.json -c a.c b.c main.c
  [ "$(grep -c '"summary":true' report.json)" -eq 3 ]
  "$out/curtail-cc" -O2 --report links.json main.o a.o b.o -o by-objects &
  "$out/curtail-cc" -O2 --report links.json -shared a.o b.o -o by-objects.so
  wait $!
  summed links.json by-objects by-objects.so
  ar rcs libparts.a a.o b.o
  "$out/curtail-cc" -O2 main.o libparts.a -o by-archive
  gcc -c -x c - -o plain.o </dev/null
  ld -r a.o b.o -o both.o
  strip --strip-debug both.o
  objcopy -R .llvm.lto both.o
  "$out/curtail-cc" -O2 main.o both.o plain.o -o by-relocatable
  "$out/curtail-cc" -O2 -r a.o b.o -o ours.o
  "$out/curtail-cc" -O2 main.o ours.o -o by-our-relocatable
  "$out/curtail-cc" -O2 -shared a.o b.o -o libparts.so
  "$out/curtail-cc" -O2 main.o -L. -lparts -Wl,-rpath,"$PWD" -o by-shared-object
  "$out/curtail-cc" -O2 -fno-lto a.c b.c main.c -o without-lto
  # An uninstrumented program with an instrumented library just runs.
  gcc -O2 main.c -L. -lparts -Wl,-rpath,"$PWD" -o plain-with-shared-object
  [ "$(./plain-with-shared-object)" = "$sum" ]
)
# Not as a condition: `set -e` has no effect there.
set +e
parts >"$scratch/log" 2>&1
built=$?
set -e
if [ $built -eq 0 ]; then
  for way in by-archive by-relocatable by-our-relocatable by-shared-object without-lto; do
    fires "$way" "$scratch/parts/$way"
  done
else
  cat "$scratch/log"
  fail "archives and relocatables"
fi
# The verifier finds nothing in them, and the pass's notes came through every way.
if [ $built -eq 0 ]; then
  for way in by-archive by-relocatable by-our-relocatable libparts.so without-lto; do
    "$out/curtail-verify" --json "$scratch/verdict" "$scratch/parts/$way" >"$scratch/log" ||
      { cat "$scratch/log"; fail "$way: the verifier has findings"; }
    python3 - "$scratch/verdict" <<'PYTHON' || fail "$way: what the verifier saw"
import json, sys
v = json.load(open(sys.argv[1]))
assert v["noted_bound"] >= 20 and v["instrumented"] >= 2 and v["safepoints"] >= 2, v
assert sum(v["by_kind"].values()) == v["safepoints"] and v["by_kind"].get("by hand", 0) == 0, v
PYTHON
  done
fi
echo "done builds"

# Cargo: a crate with a C part, one that opts out, a procedural build script, both profiles.
mkdir -p "$scratch/crate/src" "$scratch/crate/out/src"
{
  cat "$scratch/parts/a.c"
  # Safepoints that are asked to fire must: `asked` times in a row. None of them in a plain build.
  cat <<CODE
#include "$(cd "$header" && pwd)/curtail_safepoint.h"
#pragma weak curtail_safepoint_self
#pragma weak curtail_safepoint_arm
#pragma weak curtail_safepoint_disarm
static unsigned asked, fired, applies;
CURTAIL_NO_SAFEPOINT static void hook(struct curtail_safepoint_block *b) { b->poll = ++fired < asked; }
CURTAIL_NO_SAFEPOINT unsigned firings(unsigned count, void (*run)(void)) {
  applies = 0;
  if (!curtail_safepoint_self) return run(), count;
  struct curtail_safepoint_block *b = curtail_safepoint_self();
  void (*before)(struct curtail_safepoint_block *) = b->yield;
  if (before) return run(), count; /* the timing mode is at work */
  b->yield = hook;
  applies = 1;
  fired = 0;
  asked = count;
  curtail_safepoint_arm(b, CURTAIL_FLAG, 0, 0);
  b->poll = 1;
  run();
  curtail_safepoint_disarm(b);
  b->yield = before;
  return fired;
}
/* Does it fire behind its end at most? */
int quiet(void (*run)(void)) { unsigned times = firings(20, run); return !applies || times <= 1; }
CODE
} >"$scratch/crate/a.c"
cat >"$scratch/crate/Cargo.toml" <<'CODE'
[package]
name = "tried"
version = "0.1.0"
edition = "2021"
build = "build.rs"
[dependencies]
kept_out = { path = "out" }
[workspace]
[profile.release]
lto = "thin"
CODE
cat >"$scratch/crate/out/Cargo.toml" <<'CODE'
[package]
name = "kept_out"
version = "0.1.0"
edition = "2021"
[package.metadata.curtail]
instrument = false
CODE
cat >"$scratch/crate/out/src/lib.rs" <<'CODE'
#[inline(never)]
pub fn kept_out(n: u64) -> u64 { (0..n).fold(1, |a, i| a.rotate_left(3) ^ i) }
CODE
cat >"$scratch/crate/build.rs" <<'CODE'
use std::{env, process::Command};
fn main() {
    let out = env::var("OUT_DIR").unwrap();
    let cc = env::var("CC_x86_64_unknown_linux_gnu").unwrap_or("cc".into());
    let object = format!("{out}/a.o");
    assert!(Command::new(cc).args(["-O2", "-fPIC", "-c", "a.c", "-o", &object]).status().unwrap().success());
    let archive = format!("{out}/libstep.a");
    assert!(Command::new("ar").args(["rcs", &archive, &object]).status().unwrap().success());
    println!("cargo:rustc-link-search={out}\ncargo:rustc-link-lib=static=step\ncargo:rerun-if-changed=a.c");
}
CODE
cat >"$scratch/crate/src/main.rs" <<'CODE'
use std::{cell::{Cell, RefCell}, sync::OnceLock, collections::{BTreeMap, HashMap}};
extern "C" {
    fn step(x: u32) -> u32;
    fn firings(count: u32, run: extern "C" fn()) -> u32;
}
thread_local! { static KEPT: RefCell<Vec<u64>> = RefCell::new(Vec::new()); static COUNT: Cell<u64> = const { Cell::new(0) }; }
// What raised the depth is left by a panic: it is to be lowered again, or nothing fires any more.
#[inline(never)] fn fails(i: u64) -> u64 { if i != 7 { panic!() } i }
#[inline(never)] fn adds(i: u64) -> u64 { COUNT.with(|n| { n.set(n.get() + 1); fails(i) + n.get() }) }
#[inline(never)] fn lends(i: u64) -> u64 { KEPT.with(|kept| { kept.borrow_mut().push(i); fails(i) + kept.borrow().len() as u64 }) }
fn once(i: u64) -> u64 { *OnceLock::new().get_or_init(|| fails(i)) }
extern "C" fn keeps() {
    for round in 0..5000u64 {
        let folded = (0..round).fold(1u64, |a, i| a.rotate_left(5) ^ i);
        KEPT.with_borrow_mut(|kept| { kept.push(folded); if kept.len() > 9 { kept.clear() } });
    }
}
// Each fiber has its own, so it may be borrowed at a safepoint.
extern "C" fn borrows() {
    KEPT.with_borrow_mut(|kept| kept.push((0..300_000u64).fold(1u64, |a, i| a.rotate_left(5) ^ i)));
}
extern "C" fn folds() { assert_ne!(inside(300_000), 1); }
extern "C" fn inserts() { assert_eq!((0..5000u64).map(|i| (i ^ 21, i)).collect::<BTreeMap<_, _>>().len(), 5000); }
// Each new map counts up the standard library's thread-local keys.
extern "C" fn maps() {
    for round in 0..500u64 { assert_eq!((0..20).map(|i| (i, i ^ round)).collect::<HashMap<_, _>>().len(), 20); }
}
fn inside(n: u64) -> u64 { (0..n).fold(1, |a, i| a.rotate_left(5) ^ i) }
fn main() {
    let mut counts = BTreeMap::new();
    for i in 1..60000 { *counts.entry(unsafe { step(i) }).or_insert(0u32) += 1; }
    println!("{:?}", counts.iter().max_by_key(|(_, n)| **n));
    println!("{} {}", inside(300_000), kept_out::kept_out(1000));
    let caught = std::panic::catch_unwind(|| { let v: Vec<u8> = vec![]; v[inside(7) as usize] });
    println!("{}", caught.is_err());
    let long: Vec<u8> = (0..300_000 + inside(0)).map(|i| i as u8).collect();
    println!("{} {}", long.len(), long.to_vec() == long);
    for run in [adds, lends, once] { assert!(std::panic::catch_unwind(|| run(1)).is_err()); }
    println!("{:?}", [folds, inserts, maps, keeps, borrows].map(|run| unsafe { firings(20, run) }));
}
#[test]
fn works() { assert_ne!(inside(3), inside(4)); }
CODE

by_cargo() (
  set -ex
  cd "$scratch/crate"
  unset CARGO_TARGET_DIR RUSTFLAGS RUSTC_WRAPPER CARGO_BUILD_TARGET
  target=x86_64-unknown-linux-gnu
  PATH=$out:$PATH
  cargo build -q --release
  ./target/release/tried >expected 2>/dev/null
  for profile in release dev; do
    for kind in clock flag; do
      cargo curtail build --profile $profile --safepoint $kind --report report.json >where
      [ "$(cat where)" = "$PWD/target/curtail/$target/$(echo $profile | sed s/dev/debug/)/tried" ]
      CURTAIL_TIMING=2us CURTAIL_TIMING_OUT=timing "$(cat where)" >got 2>/dev/null
      cmp expected got
      if [ $kind = clock ]; then sane timing 100; else sane timing 0; fi
      "$(cat where)" >got 2>/dev/null # asks safepoints to fire, whatever their kind
      cmp expected got
      summed report.json "$(sed -n 1p report.json.txt)"
      grep -q '"function":"step"' report.json || [ $profile = release ]
      grep -q '"skipped":null' report.json
      grep -q '"long_calls":[1-9]' report.json # of Rust's copies
      if grep 'kept_out8kept_out' report.json; then echo "kept_out was instrumented"; exit 1; fi
      if nm target/curtail/*/build/tried-*/build-script-build | grep curtail_; then
        echo "what runs at build time has safepoints"; exit 1
      fi
    done
  done
  # A keep-out list: Rust, and C that a build script compiles (inlined there). Another list: anew.
  printf 'tried::inside\nstep\n' >list
  cargo curtail build --release --keep-out list --report report.json >where
  if grep 'tried6inside.*"skipped":null' report.json; then echo "the list is not kept to"; exit 1; fi
  grep '"function":"step".*"skipped":"keep-out list"' report.json
  cargo curtail build --release --keep-out list --report report.json >where 2>log
  if grep Compiling log; then echo "an unchanged list builds anew"; exit 1; fi
  grep 'nothing to report' log
  echo '# nothing' >list
  cargo curtail build --release --keep-out list --report report.json >where
  if grep '"skipped":"keep-out list"' report.json; then echo "the old list is still in use"; exit 1; fi
  cargo curtail test -q >/dev/null
  cargo curtail run -q --release >got 2>/dev/null
  cmp expected got
)
# Make learns of the list, and what is on it is not inlined.
cat >"$scratch/parts/inlined.c" <<'CODE'
static unsigned listed(unsigned x) { unsigned n = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; n++; } return n; }
unsigned user(unsigned x) { return listed(x) + 1; }
CODE
echo listed >"$scratch/list"
(
  cd "$scratch/parts"
  "$out/curtail-cc" -O2 --keep-out "$scratch/list" --report "$scratch/listed.json" -MD -MF deps -c inlined.c
) || fail "keep-out by curtail-cc"
grep -q "$scratch/list" "$scratch/parts/deps" || fail "make does not learn of the keep-out list"
grep -q '"function":"listed".*"skipped":"keep-out list"' "$scratch/listed.json" ||
  fail "what is on the list was inlined"

set +e
by_cargo >"$scratch/log" 2>&1
built=$?
set -e
if [ $built -ne 0 ]; then
  cat "$scratch/log"
  fail "cargo"
fi
echo "done cargo"

# Bad input is refused in one line.
refused() {
  if "$@" >"$scratch/log" 2>&1 || [ "$(wc -l <"$scratch/log")" -ne 1 ]; then
    cat "$scratch/log"
    fail "not refused: $*"
  fi
}
refused "$out/curtail-cc" --safepoint=often -c "$scratch/parts/a.c" -o "$scratch/x.o"
refused "$out/curtail-cc" --keep-out "$scratch/nowhere" -c "$scratch/parts/a.c" -o "$scratch/x.o"
printf 'fine\n[oops\n' >"$scratch/list"
refused "$out/curtail-cc" --keep-out "$scratch/list" -c "$scratch/parts/a.c" -o "$scratch/x.o"
grep -q 'line 2.*\[oops' "$scratch/log" || fail "a bad keep-out list is not told by its line"
refused "$out/cargo-curtail" curtail build --keep-out "$scratch/list"
refused env CURTAIL_HOME=/nowhere "$out/curtail-cc" -c "$scratch/parts/a.c" -o "$scratch/x.o"
refused "$out/cargo-curtail" curtail frobnicate
echo "done refusals"
