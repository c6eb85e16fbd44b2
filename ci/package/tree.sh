#!/usr/bin/env bash
# Everything that is installed, below target/package/tree as it will be below /usr: the commands, the
# pass, the libraries for C, headers, manuals, completions, the crates. What ./x build and
# ci/package/crates.sh have made is taken as it is.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
need strip=binutils

tree=$target/package/tree
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
for part in curtail curtaild libcurtail_pass.so libcurtail_c.a libcurtail_pthread.so; do
  [ -e "$release/$part" ] || die "no $release/$part: ./x build makes it, with LLVM"
done
rm -rf "$tree"
mkdir -p "$tree"/{bin,include,lib/{curtail,pkgconfig},share/{curtail/crates,doc/curtail/examples}}

say "putting the tree together"
for tool in curtaild cargo-curtail curtail-cc curtail-verify; do
  strip -o "$tree/bin/$tool" "$release/$tool"
done
# By its symbols it knows which code may be interrupted.
strip --strip-debug -o "$tree/bin/curtail" "$release/curtail"
ln -s curtail-cc "$tree/bin/curtail-c++"
for part in libcurtail_pass.so libcurtail_pthread.so; do
  strip --strip-unneeded -o "$tree/lib/curtail/$part" "$release/$part"
done
cp "$release/libcurtail_safepoint.a" "$tree/lib/curtail"

strip --strip-debug -o "$tree/lib/libcurtail_c.a" "$release/libcurtail_c.a"
ci/package/shared.sh "$tree/lib/libcurtail_c.a" "$tree/lib/libcurtail_c.so.0"
cp packages/libcurtail_c.so "$tree/lib"
cp crates/capi/include/*.h crates/fiber/include/*.h "$tree/include"
sed "s/@VERSION@/$version/" packages/curtail.pc.in >"$tree/lib/pkgconfig/curtail.pc"

"$release/curtail" manual "$tree/share"
mkdir -p "$tree/lib/systemd/user"
cp packages/curtaild.service "$tree/lib/systemd/user"
cp packages/grafana.json "$tree/share/curtail"

for package in "$target"/package/crates/*.crate; do
  tar -xzf "$package" -C "$tree/share/curtail/crates"
done
# One version of each: its name is enough.
for crate in "$tree"/share/curtail/crates/*-"$version"; do
  rm -f "$crate"/{Cargo.lock,.cargo_vcs_info.json,Cargo.toml.orig}
  mv "$crate" "${crate%-"$version"}"
done

cp packages/copyright LICENSE-* README.md CHANGELOG.md "$tree/share/doc/curtail"
cp crates/capi/examples/*.c examples/cpp/*.cc "$tree/share/doc/curtail/examples"
{
  echo "In these programs and libraries, with their licences (LevelDB: where \`curtail demo\` is there):"
  echo "LevelDB 1.23: BSD-3-Clause, The LevelDB Authors"
  cargo tree --prefix none --edges normal --format '{p}: {l}' --target x86_64-unknown-linux-gnu \
    -p curtail-cli -p curtaild -p curtail-driver -p curtail-verify -p curtail-capi -p curtail-pthread |
    sed 's/ (\*)$//; /^$/d; / (\//d' | sort -u
} >"$tree/share/doc/curtail/third-party"
chmod -R u=rwX,go=rX "$tree"
find "$tree" -type f ! -path "$tree/bin/*" -exec chmod 644 {} +
