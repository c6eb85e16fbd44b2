#!/usr/bin/env bash
# The rings, the hand-over of cores and the allocator's decisions under miri, which finds undefined
# behaviour and data races. (Shared memory itself is the kernel's.) Needs a nightly toolchain.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
have rustup || skip "miri comes with rustup's nightly toolchain, and there is no rustup"
if ! cargo +nightly miri --version >/dev/null 2>&1; then
  say "installing miri by rustup"
  rustup toolchain list | grep -q '^nightly' ||
    rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || true
  rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 ||
    skip "no nightly toolchain with miri can be installed here"
fi
cargo +nightly miri test -p curtail-ring
cargo +nightly miri test -p curtail-shm --test protocol
exec cargo +nightly miri test -p curtail-alloc --lib --test all -- rules:: hostile::
