#!/usr/bin/env bash
# The applications' tests once more, this time instrumented: what needs pre-emption is tested here.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
need_llvm || skip "no LLVM of rustc's major"
[ -x "$release/cargo-curtail" ] && [ -e "$release/libcurtail_pass.so" ] || ci/build.sh
exec "$release/cargo-curtail" curtail test --quiet --release -p spin -p kv --all-features
