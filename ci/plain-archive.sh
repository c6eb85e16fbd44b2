#!/usr/bin/env bash
# Makes libcurtail_c.a one that any compiler links without -lm: plain-archive.sh FILE. Its one call of
# libm's is then of its own function (crates/capi/src/log2.rs). Doing it twice does nothing more.
set -euo pipefail
objcopy --redefine-sym log2=curtail_log2 "$1"
