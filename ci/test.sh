#!/usr/bin/env bash
# Everything that CI runs. Stops at the first part that fails; says at the end what ran and for how
# long.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -eq 0 ] || die "./x test takes no arguments; the parts are ci/*.sh"

summary=()
CURTAIL_SKIPPED=$(mktemp)
export CURTAIL_SKIPPED
trap 'rm -f "$CURTAIL_SKIPPED"' EXIT

report() {
  echo
  printf '%s\n' "${summary[@]}"
}

# step NAME COMMAND…: status 77 means skipped, with the reason in $CURTAIL_SKIPPED.
step() {
  local name=$1 begin=$SECONDS status=0
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" </dev/null || status=$?
  local line
  line=$(printf '%-14s %4d s' "$name" $((SECONDS - begin)))
  case $status in
  0) summary+=("  ok       $line") ;;
  77) summary+=("  skipped  $line  ($(cat "$CURTAIL_SKIPPED"))") ;;
  *)
    summary+=("  FAILED   $line")
    report
    die "$name failed with status $status: $*"
    ;;
  esac
}

need_rust
step build ci/build.sh
step lint ci/lint.sh
# With LevelDB, which the package kv brings in any case.
step tests cargo test --quiet --no-fail-fast --workspace --features curtail-cli/kv
step packages ci/package.sh --quick
step loom ci/loom.sh
step miri ci/miri.sh
step pass ci/pass.sh
step instrumented ci/instrumented.sh
step python ci/python.sh
step docs ci/docs.sh
report
say "all passed in $((SECONDS / 60)) min $((SECONDS % 60)) s"
