#!/usr/bin/env bash
# What CI runs: within a quarter of an hour on two cores. --all: also what takes long and seldom finds
# anything, for before a release. Stops at the first part that fails; says at the end what ran and for
# how long.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_all "$@"

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
plain_release
step build ci/build.sh --tested
step lint ci/lint.sh
step tests ci/programs.sh ${all:+"$all"}
step loom ci/loom.sh
step simulation ci/simulate.sh ${all:+"$all"}
step pass ci/pass.sh
step instrumented ci/instrumented.sh ${all:+"$all"}
step python ci/python.sh ${all:+"$all"}
step docs ci/docs.sh
if [ -n "$all" ]; then
  step dpdk ci/dpdk.sh --all
  step packages ci/package.sh
  step miri ci/miri.sh
  step sanitizers ci/sanitize.sh
fi
report
say "all passed in $((SECONDS / 60)) min $((SECONDS % 60)) s"
