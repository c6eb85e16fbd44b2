#!/usr/bin/env bash
# A minimal Debian or Ubuntu as this one, as target/package/root.tar, from the archives that this machine's
# apt uses. One that is there is kept. Only root can.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
file=$target/package/root.tar
[ ! -e "$file" ] || exit 0
[ "$(id -u)" -eq 0 ] || skip "a root file system: only root can make one (sudo ./x package)"
need mmdebstrap=mmdebstrap || skip "a root file system: no mmdebstrap"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mapfile -t sources < <(
  grep -lsw "$suite" /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources})
[ -n "$suite" ] && [ ${#sources[@]} -gt 0 ] || skip "a root file system: apt has no sources here"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
begin=$SECONDS
apt-config dump | grep -E '^Acquire::(http|https|Check)' >"$scratch/90as-outside" || true
copies=()
for source in "${sources[@]}"; do
  copies+=(--customize-hook="copy-in '$source' /etc/apt/sources.list.d")
done
mmdebstrap --quiet --format=tar --variant=minbase --include=ca-certificates,curl,pkg-config \
  --aptopt="$scratch/90as-outside" "${copies[@]}" \
  --customize-hook="copy-in '$scratch/90as-outside' /etc/apt/apt.conf.d" \
  "$suite" "$file.new" "${sources[@]}" >"$target/package/root.log" 2>&1 ||
  die "mmdebstrap failed: $(tail -n1 "$target/package/root.log")"
mv "$file.new" "$file"
say "a root of $suite: $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
