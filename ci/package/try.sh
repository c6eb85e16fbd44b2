#!/usr/bin/env bash
# Tries target/package in a root file system of its own: a minimal Debian or Ubuntu as this one, from the
# archives that this machine's apt uses. The Debian package is installed by apt, with what it depends
# on; this machine's Rust is there to read only. Then an ordinary user, without a network, makes the
# README's server, the web service and a server of C, has each of them pre-empt, and does the same with
# the archive. --keep: leaves the root, and says where.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
keep=
[ "${1:-}" != --keep ] || keep=yes
need unshare=util-linux ip=iproute2 || skip "trying the packages: no unshare, ip"
need_rust
ci/package/root.sh || exit

package=$target/package
deb=$(echo "$package"/curtail_*.deb)
[ -f "$deb" ] || die "no $deb: ./x package makes it"
archive=$(echo "$package"/curtail-*.tar.xz)
root=$(mktemp -d /tmp/curtail-root.XXXXXX)
# All mounts are in namespaces, which end with what runs in them.
clean() {
  if [ -n "$keep" ]; then say "the root: $root"; else rm -rf --one-file-system "$root"; fi
}
trap clean EXIT
trap 'exit 130' INT TERM

# within NET USER COMMAND…: in the root; NET is `net` or `alone` (a loopback device and nothing else).
within() {
  local net=() user=$2
  [ "$1" = net ] || net=(--net)
  shift 2
  unshare --mount --propagation private --pid --fork --kill-child "${net[@]}" -- bash -euc '
    root=$1 rust=$2 user=$3 alone=$4
    shift 4
    [ -z "$alone" ] || ip link set lo up
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 tmp "$root/tmp"
    mount --bind "$rust" "$root/opt/rust"
    mount -o remount,bind,ro "$root/opt/rust"
    exec chroot --userspec="$user" "$root" env -i HOME=/srv/user LANG=C.UTF-8 CARGO_NET_OFFLINE=true \
      PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
  ' - "$root" "$(rustc --print sysroot)" "$user" "${net[*]}" "$@"
}

took() {
  say "$1: $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
}

tar -xf "$package/root.tar" -C "$root"
mkdir "$root/opt/rust"
: >"$package/try.log"

begin=$SECONDS
cp "$deb" "$root/opt/curtail.deb"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
within net 0:0 bash -euc '
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install /opt/curtail.deb
  useradd -m -d /srv/user -u 1000 user' >>"$package/try.log" 2>&1 || die "apt could not install it: $(tail -n1 "$package/try.log")"
took "the package, with all that it depends on"

# The crates of other authors, as cargo has downloaded them for this clone: there is no network.
cargo fetch --quiet --locked
registry=$root/srv/user/.cargo/registry
mkdir -p "$registry"
cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/{index,cache} "$registry"
cp ci/package/try/user.sh "$root/opt"
chown -R 1000:1000 "$root/srv/user"

for way in server axum c; do
  begin=$SECONDS
  within alone 1000:1000 bash /opt/user.sh /usr $way || die "the Debian package failed: $way"
  took "$way, from the package to the first pre-empted request"
done
within alone 0:0 bash /opt/user.sh /usr without_clang || die "the Debian package failed: without clang"
within alone 0:0 dpkg -r curtail >>"$package/try.log" 2>&1 || die "it can't be removed"
left=$(find "$root/usr" -name '*curtail*' ! -path "$root/usr/share/doc/*" | head -n3)
[ -z "$left" ] || die "dpkg -r has left $left"

if [ -f "$archive" ]; then
  tar -xJf "$archive" -C "$root/srv/user"
  unpacked=/srv/user/$(basename "$archive" .tar.xz)
  for way in server c; do
    begin=$SECONDS
    within alone 1000:1000 bash /opt/user.sh "$unpacked" $way || die "the archive failed: $way"
    took "$way, from the archive"
  done
fi
say "the packages work"
