#!/usr/bin/env bash
# Kthreads with their threads, and a server with a dispatcher, played by seeds: ci/simulate.sh [SEEDS
# [FIRST]], as many at once as there are processors. --all: a hundred times as many.
# CURTAIL_SEEDS=FIRST..END plays those alone. A seed that fails is named, with the command that plays it
# again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
export RUSTFLAGS="${RUSTFLAGS:-} --cfg curtail_virtual_time"
build() {
  CARGO_TARGET_DIR=$target/simulate cargo test --quiet --profile simulate -p "$1" --lib --no-run \
    --message-format json | grep -o '"executable":"[^"]*"' | tail -1 | cut -d'"' -f4
}
threads=$(build curtail-rt) server=$(build curtail-server)
[ -x "$threads" ] && [ -x "$server" ] || die "the simulations were not built"

# play FIRST END: those seeds.
play() {
  CURTAIL_SEEDS=$1..$2 "$threads" --exact thread::kthread::simulation::played_threads_come_to_their_end \
    --nocapture | grep '^seeds' &&
    CURTAIL_SEEDS=$1..$2 "$server" --exact simulation::a_played_server_answers_each_request_once \
      --nocapture | grep '^seeds'
}

if [ -n "${CURTAIL_SEEDS:-}" ]; then
  play "${CURTAIL_SEEDS%%..*}" "${CURTAIL_SEEDS##*..}"
  exit
fi
case "${1:-}" in
  '') seeds=4000 first=0 ;;
  --all) seeds=400000 first=0 ;;
  *) seeds=$1 first=${2:-0} ;;
esac
# What abandoned requests have stays in memory: a process ends after some thousand seeds.
at_once=$(nproc) end=$((first + seeds)) piece=2000
for ((from = first; from < end; from += at_once * piece)); do
  pids=()
  for ((part = from; part < from + at_once * piece && part < end; part += piece)); do
    play "$part" "$((part + piece < end ? part + piece : end))" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
done
