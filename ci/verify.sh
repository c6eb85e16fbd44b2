#!/usr/bin/env bash
# verify.sh PROGRAM: curtail-verify finds nothing in it but what ci/verify-known.txt lists.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

status=0
said=$("$release/curtail-verify" --all "$1") || status=$?
[ "$status" -le 1 ] || die "curtail-verify could not read $1"
# Its verdict and its summary, then the findings, each with its address.
head -n 4 <<<"$said"
findings=$(grep '^  0x' <<<"$said") || [ "$status" = 0 ] || die "$said"

known=$(grep -v '^\(#\|$\)' ci/verify-known.txt)
unknown=$(grep -vF -- "$known" <<<"$findings" | grep .) || unknown=
[ -z "$unknown" ] || die "curtail-verify finds in $1 what ci/verify-known.txt does not list:
$unknown"
while read -r line; do
  grep -qF -- "$line" <<<"$findings" || say "no such finding any more, take it out of ci/verify-known.txt: $line"
done <<<"$known"
