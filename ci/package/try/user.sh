#!/bin/bash
# What a user does with an installed Curtail: user.sh PREFIX WAY. Each way builds a server, asks it for
# what takes long and then for what is short, and has the short answer before the others: so the long
# requests were pre-empted; the server's own count says so, too.
set -euo pipefail
prefix=$1
[ "$prefix" = /usr ] || PATH=$prefix/bin:$PATH
work=$(mktemp -d)
cd "$work"
server=
# The root's processes end with its namespace.
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

fail() {
  echo "try: $*" >&2
  [ ! -s served ] || sed 's/^/  server: /' served >&2
  exit 1
}

# More than there are cores.
many=$(($(nproc) * 2))
long=3000000 answer=216816

# Waits, within bounds, until COMMAND… succeeds.
until_it() {
  local tries
  for tries in {1..200}; do
    ! "$@" >/dev/null 2>&1 || return 0
    kill -0 "$server" 2>/dev/null || fail "the server has ended"
    sleep 0.1
  done
  fail "after 20 s: not $*"
}

# One datagram, which bash itself would read byte by byte, and so lose.
datagram() {
  timeout "$1" dd bs=2048 count=1 status=none <&"$2"
}

# A server on UDP: `primes`.
over_udp() {
  until_it grep -q ':0FA0 ' /proc/net/udp
  local line lines=() said
  for _ in $(seq "$many"); do
    exec {line}<>/dev/udp/127.0.0.1/4000
    printf $long >&"$line"
    lines+=("$line")
  done
  exec {line}<>/dev/udp/127.0.0.1/4000
  printf 1000 >&"$line"
  said=$(datagram 60 "$line") || fail "no answer to the short request"
  grep -q 168 <<<"$said" || fail "wrong answer: $said"
  for line in "${lines[@]}"; do
    ! read -t 0 <&"$line" || fail "a long request was answered before the short one"
  done
  for line in "${lines[@]}"; do
    said=$(datagram 120 "$line") || fail "no answer to a long request"
    grep -q $answer <<<"$said" || fail "wrong answer: $said"
  done
}

# preempted PATTERN: what the server has said has a number above 0 there.
preempted() {
  local count
  count=$(sed -nE "s/$1/\1/p" served)
  [ "${count:-0}" -gt 0 ] || fail "no pre-emption"
  echo "  short before $many long ones; $count pre-emptions"
}

ended() {
  kill -INT "$server"
  wait "$server" || fail "the server failed"
  server=
}

server() {
  cargo curtail new primes
  ! grep -q path primes/Cargo.toml || fail "Cargo.toml names a path"
  (cd primes && cargo curtail build --quiet --release)
  primes/target/curtail/x86_64-unknown-linux-gnu/release/primes >served 2>&1 &
  server=$!
  over_udp
  ended
  preempted '^pre-emption: clock, ([0-9]+) times$'
}

axum() {
  cargo curtail new --axum web
  (cd web && cargo curtail build --quiet --release)
  web/target/curtail/x86_64-unknown-linux-gnu/release/web >served 2>&1 &
  server=$!
  until_it curl -sf http://127.0.0.1:4002/price
  local asked=() one
  for one in $(seq "$many"); do
    curl -sf -m 120 -o "long-$one" "http://127.0.0.1:4002/primes/$long" &
    asked+=($!)
  done
  until_it sh -c "curtail top --metrics | grep -E '^curtail_in_system.* $many\$'"
  [ "$(curl -sf -m 60 http://127.0.0.1:4002/price)" = 12.50 ] || fail "no price"
  ! cat long-* 2>/dev/null | grep -q . || fail "a long request was answered before the short one"
  for one in "${asked[@]}"; do
    wait "$one" || fail "a long request failed"
  done
  grep -qx $answer long-1 || fail "wrong answer: $(cat long-1)"
  curtail top --metrics >>served
  ended
  preempted '^curtail_preemptions_total.* ([0-9]+)$'
}

c() {
  local how
  for how in -lcurtail_c -l:libcurtail_c.a; do
    curtail-cc -O2 -pthread "$prefix/share/doc/curtail/examples/primes.c" $how -o primes
    c_served
  done
  curtail-c++ -std=c++17 -O2 -pthread "$prefix/share/doc/curtail/examples/words.cc" -lcurtail_c -o words
  [ "$(LD_LIBRARY_PATH=$prefix/lib ./words | head -n1)" = "fish 2" ] || fail "the server of C++ answers wrongly"
  # A compiler that knows nothing of Curtail builds it, too, by what pkg-config says.
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  gcc -O2 -pthread "$prefix/share/doc/curtail/examples/primes.c" $(pkg-config --cflags --libs curtail) -o plain
}

c_served() {
  mkfifo commands
  LD_LIBRARY_PATH=$prefix/lib ./primes listen=udp://127.0.0.1:4000 policy=tq <commands >served 2>&1 &
  server=$!
  exec 9>commands
  over_udp
  # A server that has no core for a second says that it can't be looked at.
  until_it eval 'echo stats >&9; grep pre-emptions served'
  exec 9>&-
  wait "$server" || fail "the server failed"
  server=
  sed -i '/pre-emptions/q' served
  preempted '.*, ([0-9]+) pre-emptions$'
  rm commands
}

# As root, so that clang can be out of the way.
without_clang() {
  local away said
  away=$(echo /usr/lib/llvm-*)
  mv "$away" "$away.away"
  cargo curtail new primes >/dev/null
  said=$(cd primes && cargo curtail build 2>&1) && fail "it builds without clang"
  mv "$away.away" "$away"
  [ "$(wc -l <<<"$said")" = 1 ] && grep -q "install clang-${away##*-} and lld-${away##*-}" <<<"$said" ||
    fail "without clang it says: $said"
  echo "  without clang: $said"
}

case $2 in
server | axum | c | without_clang) "$2" ;;
*) fail "no way $2" ;;
esac
# Whatever else the machine had to do.
times >spent
echo "  processor time, user's and system's: $(tail -n1 spent)"
