#!/usr/bin/env bash
# Builds the programs of one benchmark: build.sh threads|echo|wakeups|pool|locks|redis. They are left in
# target/bench/peers/bin as BENCH-NAME; where one can't be built here, BENCH-NAME.skipped says why.
source "$(dirname "${BASH_SOURCE[0]}")/../../ci/common.sh"
bench=$1
work=$target/bench/peers
bin=$work/bin
mkdir -p "$bin"
rm -f "$bin/$bench-"*

# skipped NAME WHY…
skipped() {
  local name=$1
  shift
  echo "$*" >"$bin/$bench-$name.skipped"
}

# attempt NAME COMMAND…: what makes $bin/$bench-NAME.
attempt() {
  local name=$1 log=$work/$bench-$1.log
  shift
  "$@" >"$log" 2>&1 || skipped "$name" "it does not build: $log"
}

in_c() {
  attempt "$1" cc -O2 -pthread -o "$bin/$bench-$1" "bench/$bench/$1.c"
}

in_go() {
  if have go; then
    attempt go go build -o "$bin/$bench-go" "bench/$bench/go.go"
  else
    skipped go "no Go toolchain (golang.org/dl has one; 1.22 or newer)"
  fi
}

# A workspace of its own, and one package a program: what glommio needs is asked of no other program.
in_rust() {
  local name
  for name in "$@"; do
    attempt "$name" cargo build --quiet --release --locked --target-dir "$work/rust" \
      --manifest-path bench/peers/rust/Cargo.toml --no-default-features --features "$name" \
      --bin "$bench-$name"
    [ -e "$bin/$bench-$name.skipped" ] || cp "$work/rust/release/$bench-$name" "$bin/"
  done
}

boost_fiber() {
  if need g++=g++ /usr/include/boost/fiber/all.hpp=libboost-fiber-dev \
    /usr/include/boost/context/fiber.hpp=libboost-context-dev; then
    attempt boost_fiber g++ -O2 -o "$bin/$bench-boost_fiber" bench/threads/boost_fiber.cpp \
      -lboost_fiber -lboost_context -pthread
  else
    skipped boost_fiber "no Boost.Fiber"
  fi
}

# with_safepoints NAME MANIFEST PROGRAM
with_safepoints() {
  local built log=$work/$bench-$1.log
  if ! need_llvm; then
    skipped "$1" "no LLVM of rustc's major, no safepoints"
    return
  fi
  cargo build --quiet --release -p curtail-driver
  pass/build.sh "$release"
  if built=$("$release/cargo-curtail" curtail build --quiet --release --target-dir "$work/safepoints" \
    --manifest-path "$2" --bin "$3" 2>"$log"); then
    cp "$(grep "/$3\$" <<<"$built")" "$bin/$bench-$1"
  else
    skipped "$1" "it does not build: $log"
  fi
}

# Ours: once plainly, once with safepoints, without which a quantum cuts nothing.
curtail() {
  local manifest=bench/peers/curtail/Cargo.toml
  attempt curtail cargo build --quiet --release --target-dir "$work/curtail" \
    --manifest-path "$manifest" --bin "$bench-curtail"
  [ -e "$bin/$bench-curtail.skipped" ] || cp "$work/curtail/release/$bench-curtail" "$bin/"
  if [ "$bench" = echo ]; then
    # The same program: it goes by its name.
    [ -e "$bin/$bench-curtail.skipped" ] || ln -f "$bin/$bench-curtail" "$bin/$bench-curtail_uring"
    return 0
  fi
  if [ -e "$bin/$bench-curtail.skipped" ]; then
    cp "$bin/$bench-curtail.skipped" "$bin/$bench-curtail_quantum_2us.skipped"
  else
    with_safepoints curtail_quantum_2us "$manifest" "$bench-curtail"
  fi
}

# The same source on the kernel's threads, without safepoints.
on_threads() {
  attempt threads cargo build --quiet --release --target-dir "$work/curtail" \
    --manifest-path bench/peers/curtail/Cargo.toml --bin "$bench-threads"
  [ -e "$bin/$bench-threads.skipped" ] || cp "$work/curtail/release/$bench-threads" "$bin/"
}

# Two programs with all of the ways to work, each once plainly and once with safepoints.
pool() {
  local manifest=bench/pool/Cargo.toml
  attempt web cargo build --quiet --release --locked --target-dir "$work/rust" \
    --manifest-path "$manifest" --bin pool-web
  [ -e "$bin/pool-web.skipped" ] || cp "$work/rust/release/pool-web" "$bin/"
  with_safepoints safepoints "$manifest" pool-web
  attempt sqlite cargo build --quiet --release --locked --target-dir "$work/rust" \
    --manifest-path "$manifest" --bin pool-sqlite
  [ -e "$bin/pool-sqlite.skipped" ] || cp "$work/rust/release/pool-sqlite" "$bin/"
  with_safepoints sqlite_safepoints "$manifest" pool-sqlite
}

need_rust
need setpriv=util-linux taskset=util-linux || die "programs are pinned by taskset"
say "building the programs of $bench: $bin"
case $bench in
threads)
  in_c pthread
  in_go
  in_rust tokio glommio may
  boost_fiber
  ;;
echo)
  in_c epoll
  in_go
  in_rust tokio monoio
  ;;
wakeups)
  in_c pthread
  in_go
  in_rust tokio
  ;;
pool)
  in_go
  pool
  exit
  ;;
locks | redis)
  in_go
  in_rust tokio
  on_threads
  with_safepoints curtail bench/peers/curtail/Cargo.toml "$bench-curtail"
  if [ "$bench" = redis ] && ! need redis-server=redis-server; then
    skipped server "no redis-server"
  fi
  exit
  ;;
*) die "build.sh threads|echo|wakeups|pool|locks|redis, not $bench" ;;
esac
curtail
