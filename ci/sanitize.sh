#!/usr/bin/env bash
# Threads under the address and the thread sanitizer: ci/sanitize.sh [SECONDS [KTHREADS]]. Everything
# at once (threads-stress) for so long under each, after defects on purpose were reported. Needs a
# nightly toolchain with the standard library's source. The builds take minutes, so only ./x test --all
# runs it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
have rustup || skip "sanitizers come with rustup's nightly toolchain, and there is no rustup"
seconds=${1:-60} kthreads=${2:-2}
triple=x86_64-unknown-linux-gnu
if ! rustup component list --toolchain nightly --installed 2>/dev/null | grep -q '^rust-src'; then
  say "installing a nightly toolchain and the standard library's source by rustup"
  rustup toolchain list | grep -q '^nightly' ||
    rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || true
  rustup component add --toolchain nightly rust-src >/dev/null 2>&1 ||
    skip "no nightly toolchain with the standard library's source can be installed here"
fi

# Stacks of fibers are mappings of which the search for leaks knows nothing.
export ASAN_OPTIONS=detect_leaks=0

# under SANITIZER DEFECT…: builds, has each defect reported, and runs the rest.
under() {
  local sanitizer=$1 defect programs said
  shift
  say "the $sanitizer sanitizer"
  # The thread sanitizer must see the standard library, too, or it reports races that are none.
  RUSTFLAGS="-Zsanitizer=$sanitizer --cfg curtail_sanitize --cfg curtail_sanitize=\"$sanitizer\"" \
    CARGO_TARGET_DIR=$target/sanitize/$sanitizer \
    cargo +nightly build -Zbuild-std --target $triple --quiet --release -p curtail-threads \
    --bin threads-stress --bin threads-defects
  programs=$target/sanitize/$sanitizer/$triple/release
  for defect; do
    if said=$("$programs/threads-defects" "$defect" 2>&1); then
      die "the $sanitizer sanitizer does not see the defect '$defect'"
    fi
    grep -q "Sanitizer: " <<<"$said" || die "no report of the defect '$defect': $said"
  done
  "$programs/threads-stress" "$seconds" "$kthreads"
}

under address freed stack
under thread race freed
