#!/usr/bin/env bash
# Builds packages/Containerfile on a root of this machine's distribution, by buildah, and asks the service
# that comes out. The images are in a directory of their own, which goes.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
have buildah || skip "the container: no buildah (apt: buildah)"
need unshare=util-linux ip=iproute2 curl=curl || skip "the container: no unshare, ip, curl"
need_rust
ci/package/root.sh || exit

package=$target/package
scratch=$(mktemp -d /tmp/curtail-container.XXXXXX)
images() {
  buildah --root "$scratch/root" --runroot "$scratch/run" --storage-driver vfs "$@"
}
clean() {
  images rm --all >/dev/null 2>&1 || true
  rm -rf --one-file-system "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM

say "building the container (log: $package/container.log)"
begin=$SECONDS
{
  base=$(images from scratch)
  images add "$base" "$package/root.tar" /
  images commit --rm "$base" base
} >"$package/container.log" 2>&1 || die "no base: $(tail -n1 "$package/container.log")"
# What cargo has downloaded for this clone, so that it needs no network.
cargo fetch --quiet --locked
mkdir -p "$scratch/cargo/registry"
cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/{index,cache} "$scratch/cargo/registry"
printf '[net]\noffline = true\n' >"$scratch/cargo/config.toml"
images build --isolation chroot --build-arg BASE=localhost/base \
  --volume "$(rustc --print sysroot):/opt/rust:ro" --volume "$scratch/cargo:/opt/cargo" \
  --tag prices --file packages/Containerfile "$package" >>"$package/container.log" 2>&1 ||
  die "the container can't be built: $(tail -n1 "$package/container.log")"
service=$(images from --name prices localhost/prices)

# In a network of its own, which ends with it.
export -f images
export scratch service
unshare --net --pid --fork --kill-child bash -euc '
  ip link set lo up
  images run --isolation chroot "$service" -- /usr/local/bin/prices >"$scratch/said" 2>&1 &
  until_there=(--silent --fail --retry 100 --retry-delay 1 --retry-connrefused --retry-max-time 60)
  [ "$(curl "${until_there[@]}" http://127.0.0.1:4002/price)" = 12.50 ]
  [ "$(curl --silent --fail --max-time 60 http://127.0.0.1:4002/primes/1000)" = 168 ]
' || die "the service in the container fails: $(tail -n1 "$scratch/said")"
say "the container works: $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
