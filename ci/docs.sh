#!/usr/bin/env bash
# The documentation of the crates, under target/doc (a broken link is an error), and the book.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need g++=g++ || die "LevelDB needs a C++ compiler"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
say "the documentation: $target/doc/curtail/index.html"
if have mdbook; then
  mdbook build docs --dest-dir "$target/book"
  say "the book: $target/book/index.html"
else
  say "no mdbook (cargo install mdbook): read the book as it is, from docs/src/SUMMARY.md on"
fi
