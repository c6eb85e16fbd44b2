#!/usr/bin/env bash
# Makes libcurtail_c.a one that any compiler links without -lm: plain-archive.sh FILE. What it calls of
# libm (log2, pow) is then its own (crates/capi/src/log2.rs). Doing it twice does nothing more.
set -euo pipefail
objcopy --redefine-sym log2=curtail_log2 --redefine-sym pow=curtail_pow "$1"
