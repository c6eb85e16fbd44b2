#!/usr/bin/env bash
# Packets by DPDK, which no other part builds: ci/dpdk.sh [--installed | --all]. --installed: only where
# dpdk-dev is there already; --all: that, and ten million hostile frames. Without root, or in a
# container that makes no network namespaces, tests say that they are skipped.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case ${1:-} in
'') need pkg-config=pkg-config /usr/include/dpdk/rte_eal.h=dpdk-dev || die "DPDK can't be installed" ;;
--installed | --all) ;;
*) die "dpdk.sh takes --installed or --all" ;;
esac
need_rust
pkg-config --exists 'libdpdk >= 22.11' 2>/dev/null ||
  skip "no DPDK 22.11 or later here (apt install dpdk-dev): packets by DPDK are not tried"
say "DPDK $(pkg-config --modversion libdpdk)"
cargo clippy --quiet -p curtail-net -p curtaild -p dns --features curtail-net/dpdk,curtaild/dpdk,dns/dpdk --all-targets -- -D warnings
features=curtail-net/dpdk,curtaild/dpdk,dns/dpdk,curtail-cli/dpdk
build=(-p curtail-net -p curtaild -p dns -p curtail-cli)
if [ -n "${CURTAIL_LEVELDB_DIR:-}" ] || apps/kv/fetch-leveldb.sh >/dev/null; then
  build+=(-p kv)
  features+=,kv/dpdk
fi
build+=(--features "$features" --tests)
if [ "${1:-}" = --all ]; then
  # In five minutes, which is what a test has.
  export CURTAIL_HOSTILE_FRAMES=10000000
  build+=(--release)
else
  build+=(--profile ci)
fi
# One process a test where it can be; a line for each that could not run here. All that they say is in
# target/dpdk.log.
filter='test(/dpdk|xdp|packet/)'
if need_nextest; then
  build=("${build[@]/#--profile/--cargo-profile}")
  "$nextest" nextest run "${build[@]}" -E "$filter" --status-level pass --success-output immediate \
    2>&1 | tee "$target/dpdk.log" | grep -E '^ +(PASS|FAIL|Summary)|skipped: |^error'
else
  cargo test --quiet "${build[@]}" -- dpdk xdp packet
fi
