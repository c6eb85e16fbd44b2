#!/usr/bin/env bash
# The compiler pass: built, and its tests.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
pass/build.sh "$release"
say "the pass: $release/libcurtail_pass.so"
exec pass/test.sh "$release"
