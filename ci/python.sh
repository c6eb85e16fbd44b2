#!/usr/bin/env bash
# The Python module curtail_sim: installs it into an environment of its own, and runs its tests.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
have python3 || skip "no python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3 without venv (apt: python3-venv)"

environment=$(mktemp -d "$target/python.XXXXXX")
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
pip=("$environment/bin/python" -m pip install --quiet)
"${pip[@]}" 'maturin>=1.8,<2' 'pytest>=7' ||
  skip "pip cannot install maturin and pytest: is a package index within reach?"

say "building the module and the command that it is compared with"
# In the profile of `cargo test`, which has compiled most of it.
cargo build --quiet -p curtail-cli
PATH=$environment/bin:$PATH MATURIN_PEP517_ARGS="--profile dev" \
  "${pip[@]}" --no-build-isolation ./python

say "its tests"
CURTAIL=$target/debug/curtail "$environment/bin/python" -m pytest -q -p no:cacheprovider python

"${pip[@]}" -r bench/sim/requirements.txt || skip "pip cannot install ciw and simpy"
say "ciw and simpy find what our simulator finds"
cargo run --quiet -p curtail-bench -- sim --smoke --python "$environment/bin/python"
