#!/bin/sh
# Builds the safepoint pass: build.sh [DIRECTORY] leaves libcurtail_pass.so in DIRECTORY, by default
# where cargo puts release builds. Needs the development files of the LLVM major that rustc uses.
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
exec make -s -C "$here" -j"$(nproc)" LLVM_CONFIG="$config" OUT="$(cd "$out" && pwd)/libcurtail_pass.so" \
  CXX="${CXX:-c++}"
