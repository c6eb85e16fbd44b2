#!/usr/bin/env bash
# The crates that users build on, as packages: put together, and built from what is in them, beside
# each other. Nothing is published. --list: says only what would be in them. --quick: does not build
# them, which takes minutes; CI does that.
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
build=()
[ "${1:-}" != --quick ] || build=(--no-verify)

package() {
  cargo package --quiet --allow-dirty "${build[@]}" "$@" "${packages[@]}"
}

say "packaging $((${#packages[@]} / 2)) crates"
# What they need is here if they were built once; then no network is needed.
package --offline 2>/dev/null || package || die "they can't be packaged"
rm -rf "$target/package"
