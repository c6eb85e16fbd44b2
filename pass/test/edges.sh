# Part of programs.sh (uses its variables): profiles, flags and kinds of crates that go their own way
# in the link. Each works, or is refused in a sentence.

mkdir -p "$scratch/edge/src" "$scratch/edge/.cargo"
cat >"$scratch/edge/src/lib.rs" <<'CODE'
/// ```
/// assert_ne!(edge::inside(1000), edge::inside(1001));
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn inside(n: u64) -> u64 { (0..n).fold(1, |a, i| a.rotate_left(5) ^ a.wrapping_mul(i)) }
CODE
cat >"$scratch/edge/src/main.rs" <<'CODE'
fn main() { println!("{}", edge::inside(3_000_000 * std::env::args().count() as u64)); }
CODE
cat >"$scratch/edge/plain.c" <<'CODE'
#include <stdio.h>
unsigned long inside(unsigned long);
int main(void) { printf("%lu\n", inside(3000000)); }
CODE
cat >"$scratch/edge/host.c" <<'CODE'
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **v) {
  unsigned long last = 0;
  for (int i = 1; i < n; i++) {
    void *library = dlopen(v[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return printf("%d: %s\n", i, dlerror()), 1;
    last = ((unsigned long (*)(unsigned long))dlsym(library, "inside"))(3000000);
  }
  printf("%lu\n", last);
}
CODE
# $1: lines of [profile.release]; $2: kinds of the library.
edge_manifest() {
  cat >"$scratch/edge/Cargo.toml" <<CODE
[package]
name = "edge"
version = "0.1.0"
edition = "2024"
[lib]
crate-type = [${2:-\"lib\"}]
[workspace]
[profile.release]
$1
CODE
}
edge_sum=
# $1: what it is; $2: a program, which prints the sum, and fires; then its arguments.
edge_fires() {
  what=$1
  shift
  CURTAIL_TIMING=10us CURTAIL_TIMING_OUT="$scratch/timing" "$@" >"$scratch/got" &&
    [ "$(cat "$scratch/got")" = "$edge_sum" ] || fail "$what: wrong result"
  sane "$scratch/timing" 20 || fail "$what: does not fire"
  rm -f "$scratch/timing"
}
edge_build() {
  (cd "$scratch/edge" && PATH=$out:$PATH cargo curtail "$@") 2>"$scratch/log"
}
unset CARGO_TARGET_DIR RUSTFLAGS RUSTC_WRAPPER CARGO_BUILD_TARGET
edge_manifest ""
edge_sum=$(cd "$scratch/edge" && cargo run -q --release)

for profile in 'panic = "abort"' 'opt-level = "z"' 'opt-level = 0' 'strip = true' 'lto = "fat"' \
  'debug = true
split-debuginfo = "packed"' 'debug = true
split-debuginfo = "unpacked"' 'codegen-units = 1' 'incremental = true'; do
  edge_manifest "$profile"
  program=$(edge_build -q build --release) || fail "profile $profile: $(cat "$scratch/log")"
  edge_fires "profile $profile" "$program"
done
edge_manifest ""
for flags in '-Ctarget-feature=+crt-static' '-Ctarget-feature=+crt-static -Crelocation-model=static' \
  '-Clink-arg=-fuse-ld=bfd' '-Clto=thin -Cembed-bitcode=yes'; do
  program=$(RUSTFLAGS=$flags edge_build -q build --release --target-dir flags) ||
    fail "$flags: $(cat "$scratch/log")"
  edge_fires "$flags" "$program"
done
echo "done profiles and flags"

# Another linker would build a program without safepoints.
edge_refused() {
  what=$1
  shift
  if edge_build -q build --release --target-dir linkers "$@" >/dev/null; then
    fail "$what: links without us"
  fi
  [ "$(grep -c "would leave out the safepoints: " "$scratch/log")" -ge 1 ] ||
    { cat "$scratch/log"; fail "$what: refused without a reason"; }
}
RUSTFLAGS='-C linker=cc' edge_refused "linker in RUSTFLAGS"
RUSTFLAGS='-Clink-arg=--ld-path=/usr/bin/ld' edge_refused "--ld-path"
edge_refused "linker by --config" --config 'target.x86_64-unknown-linux-gnu.linker="cc"'
printf '[build]\nrustflags = ["-Clinker=cc"]\n' >"$scratch/edge/.cargo/config.toml"
edge_refused "linker in .cargo/config.toml"
edge_build -q build --release --safepoint=none >/dev/null || fail "--safepoint=none with a linker"
# Ours wins over this one.
printf '[target.x86_64-unknown-linux-gnu]\nlinker = "cc"\n[alias]\nfast = "build --release"\n' \
  >"$scratch/edge/.cargo/config.toml"
program=$(edge_build -q build --release) || fail "target.linker: $(cat "$scratch/log")"
edge_fires "target.linker" "$program"
echo "done linkers"

# Every verb is passed on; aliases, too. A misspelt one is not, and what was meant is said.
edge_build -q clippy || fail "clippy: $(cat "$scratch/log")"
edge_build -q test --doc >"$scratch/got" || fail "documentation tests: $(cat "$scratch/log")"
grep -q '1 passed' "$scratch/got" || fail "documentation tests: $(cat "$scratch/got")"
edge_build fast || fail "an alias: $(cat "$scratch/log")"
edge_fires "an alias" "$scratch/edge/target/curtail/x86_64-unknown-linux-gnu/release/edge"
edge_build tree | grep -q '^edge' || fail "tree: $(cat "$scratch/log")"
edge_build clean || fail "clean: $(cat "$scratch/log")"
[ ! -e "$scratch/edge/target/curtail" ] || fail "clean leaves what was built"
status=0
edge_build biuld || status=$?
[ "$status $(cat "$scratch/log")" = '2 cargo curtail: no verb `biuld`: did you mean `build`?' ] ||
  fail "a misspelt verb: $status $(cat "$scratch/log")"
echo "done verbs"

# Libraries for programs of C: an archive, and forty that are loaded one after the other, all with the
# safepoints of the program that loads them.
edge_manifest "" '"lib", "staticlib", "cdylib"'
edge_build build --release --lib || fail "libraries: $(cat "$scratch/log")"
grep -q 'libedge.a is bitcode .*: link it by curtail-cc' "$scratch/log" || fail "no word of the archive"
made=$scratch/edge/target/curtail/x86_64-unknown-linux-gnu/release
"$out/curtail-cc" -O2 "$scratch/edge/plain.c" "$made/libedge.a" -o "$scratch/by-archive" ||
  fail "an archive of a crate"
edge_fires "an archive of a crate" "$scratch/by-archive"
"$out/curtail-cc" -O2 "$scratch/edge/host.c" -o "$scratch/host"
mkdir "$scratch/plugins"
for i in $(seq 40); do cp "$made/libedge.so" "$scratch/plugins/$i.so"; done
edge_fires "forty plugins" "$scratch/host" "$scratch"/plugins/*.so
# A version script with names, by which a library of C hides the rest.
printf 'LIB_1 { global: inside; local: *; };\n' >"$scratch/script"
cat >"$scratch/inside.c" <<'CODE'
unsigned long inside(unsigned long n) {
  unsigned long a = 1;
  for (unsigned long i = 0; i < n; i++) a = (a << 5 | a >> 59) ^ a * i;
  return a;
}
CODE
"$out/curtail-cc" -O2 -shared -fPIC "$scratch/inside.c" -Wl,--version-script="$scratch/script" \
  -o "$scratch/hidden.so" || fail "a version script"
edge_fires "a version script" "$scratch/host" "$scratch/hidden.so"
"$out/curtail-cc" --help | grep -q -- '--keep-out FILE' || fail "curtail-cc --help"
echo "done libraries"
