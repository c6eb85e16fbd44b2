#!/usr/bin/env bash
# The main job: an instrumented LevelDB server, driven under several policies. Leaves the page, the
# results and the picture in target/demo; options are those of `curtail demo`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ci/build.sh
exec "$release/curtail" demo --out "$target/demo" "$@"
