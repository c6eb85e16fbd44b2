#!/usr/bin/env bash
# The documentation of the crates, under target/doc (a broken link is an error), and the book.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need g++=g++ || die "LevelDB needs a C++ compiler"
# The libraries: what stands in a program is its help, with brackets of its own.
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --lib
say "the documentation: $target/doc/curtail/index.html"
if have mdbook; then
  mdbook build docs --dest-dir "$target/book"
  say "the book: $target/book/index.html"
else
  say "no mdbook (cargo install mdbook): read the book as it is, from docs/src/SUMMARY.md on"
fi
