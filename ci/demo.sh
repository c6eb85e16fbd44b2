#!/usr/bin/env bash
# The main job: an instrumented LevelDB server, driven under several policies. Options: see
# `curtail demo --help`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ci/build.sh --command
exec "$release/curtail" demo --out "$target/demo" "$@"
