#!/usr/bin/env bash
# The crates that users build on, as packages: put together, and built from what is in them, beside
# each other. Nothing is published. package.sh [--list]: says only what would be in them.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust

packages=()
for name in $(sed -n 's/^\(curtail[a-z-]*\) = .*version = .*/\1/p' Cargo.toml); do
  packages+=(-p "$name")
done
[ ${#packages[@]} -gt 0 ] || die "Cargo.toml names no crate with a version"

if [ "${1:-}" = --list ]; then
  exec cargo package --allow-dirty --list "${packages[@]}"
fi
say "packaging ${#packages[@]} crates"
cargo package --quiet --allow-dirty "${packages[@]}" || die "they can't be packaged"
rm -rf "$target/package"
