#!/usr/bin/env bash
# The main job: an instrumented LevelDB server, driven under several policies.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ci/build.sh
mkdir -p "$target/demo"
"$release/curtail" demo --help >/dev/null 2>&1 || die "this \`curtail\` has no verb \`demo\`"
exec "$release/curtail" demo --out "$target/demo" "$@"
