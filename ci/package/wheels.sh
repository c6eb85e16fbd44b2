#!/usr/bin/env bash
# The wheel of the Python module curtail_sim, in target/package: one for all versions from 3.9 on. It is
# installed and used once, in an environment of its own.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need_rust
{ have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; } ||
  skip "the wheel: no python3 with venv (apt: python3-venv)"

environment=$(mktemp -d "$target/wheel.XXXXXX")
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
"$environment/bin/pip" install --quiet 'maturin>=1.8,<2' ||
  skip "the wheel: pip cannot install maturin"
say "building the wheel"
rm -f "$target"/package/curtail_sim-*.whl
"$environment/bin/maturin" build --quiet --release --locked --manifest-path python/Cargo.toml \
  --interpreter "$environment/bin/python" --out "$target/package"
wheel=$(echo "$target"/package/curtail_sim-*-abi3-*.whl)
[ -f "$wheel" ] || die "maturin made no wheel for Python's stable interface"
"$environment/bin/pip" install --quiet --no-deps "$wheel"
(cd "$environment" && bin/python -c 'import curtail_shm, curtail_sim; assert curtail_sim.policies()') ||
  die "$wheel does not work"
say "the wheel: $wheel"
