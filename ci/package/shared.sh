#!/usr/bin/env bash
# The runtime for C as a shared object: shared.sh ARCHIVE OUTPUT. It exports what the headers declare, the
# safepoint's parts, for which the program's own come first, and the functions that it defines instead
# of the C library's.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need gcc=gcc nm=binutils
archive=$1 output=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
libc=$(gcc -print-file-name=libc.so.6)
nm --dynamic --defined-only "$libc" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/libc"
nm --extern-only --defined-only "$archive" 2>/dev/null |
  awk 'NF == 3 && $2 ~ /[TDBRWV]/ { print $2, $3 }' | sort -u >"$scratch/all"
# What kind a program's safepoints are, it says itself; hooks are each library's own.
awk '$2 ~ /^curtail_/ { print $2 }' "$scratch/all" |
  grep -Ev '^curtail_(kind_|quiet_hook$|batch_adopt$)' >"$scratch/names"
awk '$1 == "T" { print $2 }' "$scratch/all" | sort -u | comm -12 - "$scratch/libc" >>"$scratch/names"
{
  echo "CURTAIL_0 { global:"
  sed 's/$/;/' "$scratch/names"
  echo "local: *; };"
} >"$scratch/exports"
sed 's/^/-Wl,-u,/' "$scratch/names" >"$scratch/roots"
gcc -shared -o "$output" "-Wl,-soname,$(basename "$output")" "@$scratch/roots" "$archive" \
  "-Wl,--version-script=$scratch/exports" -Wl,--gc-sections,--as-needed,-z,now,-s -shared-libgcc
