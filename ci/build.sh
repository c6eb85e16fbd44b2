#!/usr/bin/env bash
# Builds everything, optimised, into target/release. With LLVM, the command `curtail` is built by
# our own drivers, so that its applications (LevelDB included) are instrumented; without, plainly.
# --command: without the library for C and C++. --tested: with all that ci/instrumented.sh runs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need g++=g++ make=make || die "LevelDB needs a C++ compiler"

if [ "${1:-}" = --tested ]; then
  build_native
else
  say "building the drivers, the verifier and the core allocator"
  cargo build --quiet --release -p curtail-driver -p curtail-verify -p curtaild -p curtail-pthread
fi

kv=(--features kv)
if ! apps/kv/fetch-leveldb.sh "$target" >/dev/null; then
  say "no LevelDB: \`curtail\` is built without the application kv"
  kv=()
fi

# What only wants the command does without: it is a minute of compiling.
if [ "${1:-}" != --command ]; then
  say "building the runtime for C and C++"
  [ "${1:-}" = --tested ] || cargo build --quiet --release -p curtail-capi
  ci/plain-archive.sh "$release/libcurtail_c.a"
  mkdir -p "$release/include"
  cp crates/capi/include/*.h crates/fiber/include/*.h "$release/include"
fi

if need_llvm; then
  say "building the pass"
  pass/build.sh "$release"
  for part in cargo-curtail curtail-cc curtail-c++ curtail-verify libcurtail_pass.so libcurtail_safepoint.a; do
    [ -e "$release/$part" ] || die "$release/$part was not built"
  done
  say "building curtail, instrumented"
  built=$("$release/cargo-curtail" curtail build --quiet --release -p curtail-cli "${kv[@]}")
  built=$(grep '/curtail$' <<<"$built") || die "cargo curtail build tells of no program \`curtail\`"
  # By a rename: the old one may be running.
  cp "$built" "$release/curtail.new"
  mv "$release/curtail.new" "$release/curtail"
else
  say "building curtail, not instrumented: pre-emption is off"
  cargo build --quiet --release -p curtail-cli "${kv[@]}"
fi
say "done: $release/curtail, $release/curtaild"
