#!/usr/bin/env bash
# The Python modules curtail_sim and curtail_shm: installs them into an environment of their own, and runs
# their tests and examples. --all: also beside ciw and simpy, and under Ray.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
take_all "$@"
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
# In the profile of the tests; within ./x test as the very program that they have built.
command=(-p curtail-cli)
[ -z "${CURTAIL_SKIPPED:-}" ] || command=(--workspace --features curtail-cli/kv --tests --bin curtail)
cargo build --quiet --profile ci "${command[@]}"
PATH=$environment/bin:$PATH MATURIN_PEP517_ARGS="--profile ci" \
  "${pip[@]}" --no-build-isolation ./python

say "its tests"
CURTAIL=$target/ci/curtail "$environment/bin/python" -m pytest -q -p no:cacheprovider python

say "the example first_look, with short runs"
found=$(JOBS=20000 "$environment/bin/python" python/examples/first_look.py "$environment/picture.png")
grep -q '^shinjuku  *[01]\.[0-9]*$' <<<"$found" || die "first_look found no highest load: $found"

[ -n "$all" ] || exit 0
"${pip[@]}" -r bench/sim/requirements.txt || skip "pip cannot install ciw and simpy"
say "ciw and simpy find what our simulator finds"
found=$(cargo run --quiet --profile ci -p curtail-bench -- sim --smoke --python "$environment/bin/python") ||
  die "${found:-the benchmark failed}"
# A peer that failed is but a note of the benchmark's.
for peer in ciw simpy; do
  grep -Eq "^ +seed 3 +$peer +mean" <<<"$found" || die "$peer found nothing: $found"
done

# Some 70 MB; nothing else here needs it.
timeout 180 "${pip[@]}" --only-binary :all: 'ray>=2.40,<3' ||
  skip "the example ray_sweep: pip cannot install ray within three minutes"
say "the example ray_sweep, with short runs"
timeout 180 "$environment/bin/python" python/examples/ray_sweep.py --jobs 5000 --loads 0.5,0.8 ||
  die "ray_sweep failed"
