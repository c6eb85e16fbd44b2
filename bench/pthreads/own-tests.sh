#!/usr/bin/env bash
# memcached's own tests (Debian's source package), on the kernel's threads and on Curtail's.
#
#   own-tests.sh LIBRARY DIRECTORY [KTHREADS]
#
# The same build runs both times; for Curtail's threads a script in its place loads LIBRARY. Prints what each
# said in the end, and fails where the second passes fewer. The list is that of `make test`, then the tests of
# TLS, then `testapp`. Logs and the sources are in DIRECTORY.
set -euo pipefail
library=$(realpath "$1")
mkdir -p "$2"
place=$(cd "$2" && pwd)
kthreads=${3:-2}

# Debian's sources, by lists of their own: nothing under /etc changes.
fetch() {
  local lists=$place/apt
  mkdir -p "$lists"/{lists,cache/archives}/partial
  : >"$lists/src.sources"
  cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed 's/^Types:.*/Types: deb-src/' >"$lists/src.sources"
  if [ ! -s "$lists/src.sources" ]; then
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$lists/src.list"
    rm "$lists/src.sources"
  fi
  local from=("$lists"/src.*)
  local options=(-qq -o "Dir::Etc::sourcelist=${from[0]}" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$place" && apt-get "${options[@]}" source memcached)
}

build() {
  local found
  found=$(find "$place" -maxdepth 1 -type d -name 'memcached-1*' | head -1)
  if [ -z "$found" ]; then
    fetch >"$place/fetch.log" 2>&1
    found=$(find "$place" -maxdepth 1 -type d -name 'memcached-1*' | head -1)
  fi
  cd "$found"
  if [ ! -x testapp ]; then
    { ./configure -q --disable-docs --enable-tls && make -s -j"$(nproc)"; } >"$place/build.log" 2>&1
    rm -f t/whitespace.t # It looks at the sources, in git.
    mv memcached-debug memcached-debug.real
  fi
}

# start_by WAY: what the tests start from now on.
start_by() {
  if [ "$1" = curtail ]; then
    local load="LD_PRELOAD='$library' CURTAIL_KTHREADS=$kthreads CURTAIL_QUIET=1 "
  fi
  # shellcheck disable=SC2016 # It is the script's.
  printf '#!/bin/sh\n%sexec "$(dirname "$0")/memcached-debug.real" "$@"\n' "${load:-}" >memcached-debug
  chmod +x memcached-debug
}

# said LOG: how many files passed, were skipped and failed.
said() {
  printf '%d passed, %d skipped, %d failed' "$(grep -cE '^t/.* ok$' "$1" || true)" \
    "$(grep -cE '^t/.* skipped' "$1" || true)" "$(grep -cE '^t/.* (Failed|Dubious)' "$1" || true)"
}

build
failed=0
for way in native curtail; do
  start_by "$way"
  prove -j 6 t >"$place/$way.log" 2>&1 || failed=1
  SSL_TEST=1 prove -j 6 t/ssl_*.t >"$place/$way-tls.log" 2>&1 || failed=1
  ./testapp >"$place/$way-testapp.log" 2>&1 || failed=1
  echo "$way: $(said "$place/$way.log"); TLS: $(said "$place/$way-tls.log");" \
    "testapp: $(grep -c '^ok' "$place/$way-testapp.log" || true) of" \
    "$(sed -n 's/^1\.\.//p' "$place/$way-testapp.log")"
done
exit "$failed"
