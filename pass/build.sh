#!/bin/sh
# Builds the safepoint pass: build.sh [DIRECTORY] leaves libcurtail_pass.so, libcurtail_safepoint.a
# and the name curtail-c++ in DIRECTORY, by default where cargo puts release builds. Needs the
# development files of the LLVM major that rustc uses.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-${CARGO_TARGET_DIR:-$here/../target}/release}

major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if [ -z "$major" ]; then
  echo "pass/build.sh: rustc -vV names no LLVM version" >&2
  exit 1
fi
config=
for candidate in "${LLVM_CONFIG:-}" "llvm-config-$major" "/usr/lib/llvm-$major/bin/llvm-config" \
  llvm-config; do
  [ -n "$candidate" ] || continue
  case $("$candidate" --version 2>/dev/null || true) in
  "$major".*) config=$candidate && break ;;
  esac
done
if [ -z "$config" ]; then
  echo "pass/build.sh: rustc uses LLVM $major: install llvm-$major-dev (or set LLVM_CONFIG)" >&2
  exit 1
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
make -s -C "$here" -j"$(nproc)" LLVM_CONFIG="$config" OUT="$out/libcurtail_pass.so" CXX="${CXX:-c++}"

# The safepoint's native half, as crates/fiber/build.rs compiles it: never instrumented.
native=$here/../crates/fiber/native
objects=$out/libcurtail_pass.so.objects
for source in "$native"/*.c "$native"/*.S; do
  "${CURTAIL_NATIVE_CC:-gcc}" -std=gnu11 -O2 -g1 -fPIC -fno-lto -mgeneral-regs-only \
    -fasynchronous-unwind-tables -fno-stack-protector -ftls-model=initial-exec -Wall -Wextra \
    -I "$native/../include" -c "$source" -o "$objects/native-$(basename "$source").o"
done
rm -f "$out/libcurtail_safepoint.a.new"
# It and kind_flag.c both define the block: a linker that needs it takes it from the first.
first=$objects/native-safepoint.c.o
set -- "$first"
for object in "$objects"/native-*.o; do
  [ "$object" = "$first" ] || set -- "$@" "$object"
done
ar rcsD "$out/libcurtail_safepoint.a.new" "$@"
# An unchanged library keeps its age: `cargo curtail` links everything anew when that changes.
if cmp -s "$out/libcurtail_safepoint.a.new" "$out/libcurtail_safepoint.a"; then
  rm "$out/libcurtail_safepoint.a.new"
else
  mv "$out/libcurtail_safepoint.a.new" "$out/libcurtail_safepoint.a"
fi

# Cargo cannot build a program of this name.
ln -sf curtail-cc "$out/curtail-c++"
