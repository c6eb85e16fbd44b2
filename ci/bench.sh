#!/usr/bin/env bash
# The benchmarks, on instrumented programs: bench.sh [NAME…] [OPTIONS] (see bench/run.sh), or
# bench.sh safepoint [OPTIONS], programs with and without safepoints (with --set outside, libraries
# that others wrote, from the package registry), or
# bench.sh threads|echo|wakeups|pool|locks|redis|skew [OPTIONS], threads beside those of others (bench/threads/README.md,
# bench/echo/README.md, bench/wakeups/README.md, bench/pool/README.md,
# bench/locks/README.md, bench/redis/README.md), or
# bench.sh colocate [EXPERIMENT…] [OPTIONS], services and batch work on the same cores
# (bench/colocate/README.md), or
# bench.sh attack [ATTACK…] [OPTIONS], attacks on a server from outside (bench/attack/README.md), or
# bench.sh transports [SECONDS_EACH], round trips over each transport (crates/net/examples), and the
# servers of echo, or
# bench.sh leveldb [OPTIONS], what safepoints cost LevelDB (bench/leveldb/measure.py), or
# bench.sh sweep [CRATE…], popular crates inside of pre-empted jobs and threads
# (bench/sweep/README.md), or
# bench.sh web [OPTIONS], the axum service of apps/web under wrk (bench/web/measure.py), or
# bench.sh trace [OPTIONS], what recording costs (bench/trace/measure.py), or
# bench.sh dispatchers [OPTIONS], several dispatchers over sockets (bench/dispatchers/measure.py), or
# bench.sh pthreads|memcached [OPTIONS], programs of pthreads as distributions ship them, on the
# kernel's threads and on Curtail's (bench/pthreads/measure.py; memcached --own-tests: its own tests;
# memcached --beside: it and batch work on one core, bench/pthreads/beside.py), or
# bench.sh quota [OPTIONS], a server in control groups with a CPU quota (bench/quota/measure.py), or
# bench.sh dns [compare] [OPTIONS], apps/dns beside knot and gdnsd (bench/dns/README.md), or
# bench.sh tpcc [OPTIONS], TPC-C's transactions by policy (bench/tpcc/README.md), or
# bench.sh rocksdb [OPTIONS], RocksDB by policy (bench/rocksdb/README.md).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# build_app PACKAGE PROGRAM WITHOUT: $program, with safepoints; where there is no LLVM, without, and says
# WITHOUT.
build_app() {
  if need_llvm; then
    cargo build --quiet --release -p curtail-driver
    pass/build.sh "$release"
    built=$("$release/cargo-curtail" curtail build --quiet --release -p "$1")
    program=$(grep "/$2\$" <<<"$built") || die "cargo curtail build tells of no program \`$2\`"
  else
    say "no safepoints: $3"
    cargo build --quiet --release -p "$1"
    program=$release/$2
  fi
}

if [ "${1:-}" = safepoint ]; then
  shift
  need_rust
  need_llvm || die "no LLVM of rustc's major: there are no safepoints to measure"
  cargo build --quiet --release -p curtail-driver -p safepoint-suite
  pass/build.sh "$release"
  for option in "$@"; do
    [ "$option" != --instructions ] || need valgrind=valgrind || die "--instructions needs valgrind"
  done
  exec "$release/safepoint-suite" --tools "$release" --out "$target/bench" "$@"
fi

case ${1:-} in
threads | echo | wakeups | pool | locks | redis | skew)
  need_rust
  cargo build --quiet --release -p peer-bench
  # `skew` runs the programs of `locks`.
  bench/peers/build.sh "${1/skew/locks}"
  exec "$release/peer-bench" "$@" --programs "$target/bench/peers/bin" --out "$target/bench"
  ;;
esac

if [ "${1:-}" = hang-ups ]; then
  shift
  need_rust
  exec cargo run --quiet --release -p curtail --example hang_ups -- "$@"
fi

if [ "${1:-}" = transports ]; then
  shift
  need_rust
  mkdir -p "$target/bench"
  cargo run --quiet --release -p curtail-net --example transport_cost -- \
    "${1:-1}" "$target/bench/transports.json"
  say "servers of others beside Curtail's"
  exec ci/bench.sh echo --rounds 3
fi

if [ "${1:-}" = colocate ]; then
  shift
  need_rust
  ci/build.sh --command
  cargo build --quiet --release -p colocate-bench
  plain=$release/montecarlo
  batch=$plain
  inside=()
  if need_llvm; then
    built=$("$release/cargo-curtail" curtail build --quiet --release -p colocate-bench)
    batch=$(grep '/montecarlo$' <<<"$built")
    inside=(--inside "$(grep '/colocate-bench$' <<<"$built")")
  else
    say "no safepoints: batch work is pre-empted by the kernel"
  fi
  exec "$release/colocate-bench" --out "$target/bench" --curtail "$release/curtail" \
    --batch "$batch" --batch-plain "$plain" "${inside[@]}" "$@"
fi

if [ "${1:-}" = attack ]; then
  shift
  need_rust
  ci/build.sh --command
  cargo build --quiet --release -p attack-bench
  exec "$release/attack-bench" --curtail "$release/curtail" --out "$target/bench" "$@"
fi

if [ "${1:-}" = leveldb ]; then
  shift
  need_rust
  need_llvm || die "no LLVM of rustc's major: there are no safepoints to measure"
  source=$(apps/kv/fetch-leveldb.sh "$target") || die "no LevelDB"
  cargo build --quiet --release -p curtail-driver
  pass/build.sh "$release"
  exec python3 bench/leveldb/measure.py --tools "$release" --source "$source" --out "$target/bench" "$@"
fi

if [ "${1:-}" = sweep ]; then
  shift
  need_rust
  need g++=g++ make=make perl=perl cmake=cmake || die "some crates have C in them"
  need_llvm || die "no LLVM of rustc's major: there are no safepoints, and nothing is pre-empted"
  cargo build --quiet --release -p curtail-driver
  pass/build.sh "$release"
  cargo build --quiet --release --locked --target-dir "$target/bench/sweep/plain" \
    --manifest-path bench/sweep/Cargo.toml --bin sweep
  exec "$target/bench/sweep/plain/release/sweep" --build bench/sweep/build.sh --out "$target/bench" "$@"
fi

if [ "${1:-}" = web ]; then
  shift
  need_rust
  need taskset=util-linux wrk=wrk python3=python3 || die "wrk asks, and programs are pinned by taskset"
  build_app web web "requests on the pool run to completion"
  exec python3 bench/web/measure.py --program "$program" --out "$target/bench" "$@"
fi

if [ "${1:-}" = dispatchers ]; then
  shift
  need_rust
  need python3=python3 || die "python3 runs the servers in turns"
  ci/build.sh --command
  exec python3 bench/dispatchers/measure.py --curtail "$release/curtail" --out "$target/bench" "$@"
fi

if [ "${1:-}" = trace ]; then
  shift
  need_rust
  need python3=python3 || die "python3 runs the programs in turns"
  cargo build --quiet --release -p curtail-observe --example recording
  # In a directory of its own: all that depends on the runtime is built anew.
  without=$target/without-recorder
  RUSTFLAGS="${RUSTFLAGS:-} --cfg curtail_no_recorder" \
    cargo build --quiet --release -p curtail-observe --example recording --target-dir "$without"
  exec python3 bench/trace/measure.py --program "$release/examples/recording" \
    --without "$without/release/examples/recording" --out "$target/bench" "$@"
fi

if [ "${1:-}" = pthreads ] || [ "${1:-}" = memcached ]; then
  programs=()
  [ "$1" = pthreads ] || programs=(memcached)
  shift
  need_rust
  need python3=python3 taskset=util-linux pigz=pigz zstd=zstd pbzip2=pbzip2 stress-ng=stress-ng \
    redis-server=redis-server redis-benchmark=redis-tools memcached=memcached \
    memcaslap=libmemcached-tools || say "programs that are not there are left out"
  cargo build --quiet --release -p curtail-pthread
  if [ "${1:-}" = --own-tests ]; then
    need prove=perl make=make dpkg-source=dpkg-dev xz=xz-utils /usr/include/event.h=libevent-dev \
      /usr/include/openssl/ssl.h=libssl-dev /usr/share/perl5/IO/Socket/SSL.pm=libio-socket-ssl-perl ||
      die "memcached's own tests are built from Debian's sources"
    exec bench/pthreads/own-tests.sh "$release/libcurtail_pthread.so" "$target/memcached-tests"
  fi
  if [ "${1:-}" = --beside ]; then
    shift
    ci/build.sh --command
    exec python3 bench/pthreads/beside.py --curtail "$release/curtail" --curtaild "$release/curtaild" \
      --out "$target/bench" "$@"
  fi
  exec python3 bench/pthreads/measure.py --library "$release/libcurtail_pthread.so" \
    --out "$target/bench" "$@" "${programs[@]}"
fi

if [ "${1:-}" = quota ]; then
  shift
  need_rust
  need python3=python3 || die "python3 makes the groups and runs the programs"
  ci/build.sh --command
  exec python3 bench/quota/measure.py --curtail "$release/curtail" --out "$target/bench" "$@"
fi

if [ "${1:-}" = dns ]; then
  shift
  PATH=$PATH:/usr/sbin # Where Debian has its servers.
  need_rust
  if [ "${1:-}" = compare ]; then
    shift
    need /usr/lib/python3/dist-packages/dns/__init__.py=python3-dnspython || die "it asks by dnspython"
    have knotd || die "no knotd: install Debian's package knot (which starts it, on port 53)"
    cargo build --quiet --release -p dns
    exec /usr/bin/python3 bench/dns/compare.py --program "$release/dns" "$@"
  fi
  need python3=python3 taskset=util-linux chrt=util-linux dnsperf=dnsperf || die "dnsperf asks"
  for peer in knotd gdnsd; do
    have "$peer" || say "no $peer here, it is left out (Debian's package would start it, on port 53)"
  done
  ci/build.sh --command
  cargo build --quiet --release -p colocate-bench
  plain=$release/montecarlo
  if need_llvm; then
    built=$("$release/cargo-curtail" curtail build --quiet --release -p dns -p colocate-bench)
    program=$(grep '/dns$' <<<"$built") batch=$(grep '/montecarlo$' <<<"$built")
  else
    say "no safepoints: queries run to completion, batch work is pre-empted by the kernel"
    cargo build --quiet --release -p dns
    program=$release/dns batch=$plain
  fi
  exec python3 bench/dns/measure.py --program "$program" --curtail "$release/curtail" \
    --daemon "$release/curtaild" --batch "$batch" --batch-plain "$plain" --out "$target/bench" "$@"
fi

if [ "${1:-}" = tpcc ]; then
  shift
  need_rust
  mkdir -p "$target/bench"
  build_app tpcc tpcc-bench "transactions run to completion"
  exec "$program" --json "$target/bench/tpcc.json" "$@"
fi

if [ "${1:-}" = rocksdb ]; then
  shift
  need_rust
  need g++=g++ || die "RocksDB needs a C++ compiler"
  need_llvm || die "no LLVM of rustc's major: there are no safepoints, and nothing is pre-empted"
  mkdir -p "$target/bench"
  LIBCLANG_PATH=${LIBCLANG_PATH:-$(llvm-config-22 --libdir 2>/dev/null || true)}
  export LIBCLANG_PATH
  cargo build --quiet --release -p curtail-driver
  pass/build.sh "$release"
  say "building RocksDB, instrumented: the first time takes half an hour on two cores"
  built=$("$release/cargo-curtail" curtail build --quiet --release -p curtail-cli --features rocksdb)
  program=$(grep '/curtail$' <<<"$built") || die "cargo curtail build tells of no program \`curtail\`"
  exec bench/rocksdb/run.sh "$program" "$target/bench" "$@"
fi

# The simulator serves no requests: nothing need be instrumented for `sim` alone.
if [ "${1:-}" = sim ] && [[ "${2:---}" == --* ]]; then
  need_rust
else
  ci/build.sh --command
fi
exec bench/run.sh "$@"
