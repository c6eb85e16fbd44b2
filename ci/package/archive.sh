#!/usr/bin/env bash
# target/package/tree as an archive that works wherever it is unpacked.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need xz=xz-utils || skip "the archive: no xz"

package=$target/package
version=$(sed -n 's/^Version: //p' "$package/tree/lib/pkgconfig/curtail.pc")
name=curtail-$version-x86_64-linux-gnu
rm -f "$package"/curtail-*.tar.xz
XZ_OPT=-T0 tar -C "$package" --transform "s|^tree|$name|" --owner 0 --group 0 --numeric-owner \
  --sort name -cJf "$package/$name.tar.xz" tree
say "the archive: $package/$name.tar.xz"
