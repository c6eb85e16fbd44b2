#!/usr/bin/env bash
# The Debian package of target/package/tree. It depends on the clang and lld whose LLVM the pass was
# built for, and on the versions of libraries that its programs were linked with.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev || skip "the Debian package: no dpkg"

package=$target/package
version=$(sed -n 's/^Version: //p' "$package/tree/lib/pkgconfig/curtail.pc")
llvm=$(grep -aom1 'curtail-pass-for-llvm-[0-9]*' "$package/tree/lib/curtail/libcurtail_pass.so")
llvm=${llvm##*-}
[ -n "$llvm" ] || die "the pass does not say for which LLVM it is"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
deb=$scratch/curtail
mkdir -p "$deb/DEBIAN"
cp -a "$package/tree" "$deb/usr"
# Where Debian has them.
mv "$deb/usr/share/zsh/site-functions" "$deb/usr/share/zsh/vendor-completions"
sed -i 's|^ExecStart=|&/usr/bin/|' "$deb/usr/lib/systemd/user/curtaild.service"
sed -i 's|^prefix=.*|prefix=/usr|' "$deb/usr/lib/pkgconfig/curtail.pc"
find "$deb/usr/share/man" -type f -exec gzip -9n {} +
rm "$deb"/usr/share/doc/curtail/LICENSE-*
cat LICENSE-MIT LICENSE-APACHE >"$deb/usr/share/doc/curtail/licences"
sed -i 's/LICENSE-MIT and LICENSE-APACHE, beside/licences, beside/' "$deb/usr/share/doc/curtail/copyright"
authors='The authors of Curtail <curtail@package.invalid>'
printf 'curtail (%s) unstable; urgency=medium\n\n  * As CHANGELOG.md says.\n\n -- %s  %s\n' \
  "$version" "$authors" "$(git log -1 --format=%cD 2>/dev/null || date -R)" |
  gzip -9n >"$deb/usr/share/doc/curtail/changelog.gz"

# It wants the sources' control file, and to know where our own library is.
mkdir -p "$scratch/debian"
printf 'Source: curtail\n\nPackage: curtail\nArchitecture: amd64\n' >"$scratch/debian/control"
objects=("$deb"/usr/bin/{curtail,curtaild,cargo-curtail,curtail-cc,curtail-verify})
objects+=("$deb"/usr/lib/libcurtail_c.so.0 "$deb"/usr/lib/curtail/libcurtail_{pass,pthread}.so)
libraries=$(cd "$scratch" && dpkg-shlibdeps -O --ignore-missing-info "${objects[@]}" 2>"$scratch/said") ||
  die "dpkg-shlibdeps: $(cat "$scratch/said")"
libraries=${libraries#shlibs:Depends=}

cat >"$deb/DEBIAN/control" <<END
Package: curtail
Version: $version
Architecture: amd64
Maintainer: $authors
Section: devel
Priority: optional
Installed-Size: $(du -sk "$deb/usr" | cut -f1)
Depends: $libraries, clang-$llvm, lld-$llvm, gcc, libc6-dev
Suggests: rustup | cargo (>= 1.95), systemd
Description: pre-emptive scheduling for services whose requests take microseconds
 No request waits behind a long one: long work yields every few
 microseconds, at safepoints that a compiler pass puts into Rust, C and
 C++. A policy orders what waits.
 .
 This package has the compilers' drivers (cargo curtail, curtail-cc,
 curtail-c++), the verifier, the pass for LLVM $llvm, the runtime for C
 and C++, the crates for Rust, the command curtail and the core allocator
 curtaild. For Rust, it wants one whose LLVM is $llvm or older
 (rustc -vV).
END
printf 'activate-noawait ldconfig\n' >"$deb/DEBIAN/triggers"
printf 'libcurtail_c 0 curtail (>= %s)\n' "$version" >"$deb/DEBIAN/shlibs"
(cd "$deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$deb/DEBIAN/md5sums"

file=$package/curtail_${version}_amd64.deb
rm -f "$package"/curtail_*.deb
dpkg-deb --root-owner-group -Zxz -b "$deb" "$file" >/dev/null
say "the Debian package: $file"
