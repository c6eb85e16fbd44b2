#!/usr/bin/env bash
# The crates that users build on, as packages, in target/package/crates. Built from what is in them,
# beside each other, unless --quick says not to: that takes minutes. --list: only says what is in them.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need_rust

packages=()
for name in $(sed -n 's/^\(curtail[a-z-]*\) = .*version = .*/\1/p' Cargo.toml); do
  packages+=(-p "$name")
done
[ ${#packages[@]} -gt 0 ] || die "Cargo.toml names no crate with a version"

if [ "${1:-}" = --list ]; then
  exec cargo package --allow-dirty --list "${packages[@]}"
fi
build=()
[ "${1:-}" != --quick ] || build=(--no-verify)

# Cargo makes its packages in a directory of the same name as ours.
scratch=$target/crates
package() {
  cargo package --quiet --allow-dirty --target-dir "$scratch" "${build[@]}" "$@" "${packages[@]}"
}

say "packaging $((${#packages[@]} / 2)) crates"
rm -rf "$scratch" "$target/package/crates"
# What they need is here if they were built once; then no network is needed.
package --offline 2>/dev/null || package || die "they can't be packaged"
mkdir -p "$target/package/crates"
mv "$scratch"/package/*.crate "$target/package/crates"
rm -rf "$scratch"
