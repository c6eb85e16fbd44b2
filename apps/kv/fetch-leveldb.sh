#!/bin/sh
# Puts LevelDB's source at TARGET_DIR/vendor/leveldb-1.23 and prints that path.
#
#   apps/kv/fetch-leveldb.sh [TARGET_DIR]      default: $CARGO_TARGET_DIR, else the repository's target/
#
# The source is the upstream tarball of the distribution's own source package, downloaded with
# `apt-get source` from the archives that this machine uses already, with their keys. The source
# lists, the package lists and the cache are private copies under TARGET_DIR: nothing outside it
# changes, and no root is needed. The tarball's SHA-256 is pinned below, so it does not matter which
# archive it came from. None of the distribution's patches is applied: they concern its build.
#
# CURTAIL_LEVELDB_DIR names a source tree to use instead; nothing is fetched then.
set -eu

version=1.23
tarball=leveldb_$version.orig.tar.gz
sha256=9a37f8a6174f09bd622bc723b55881dc541cd50747cbd08831c2a82d620f6d76

die() {
    echo "fetch-leveldb: $*" >&2
    exit 1
}

is_leveldb() {
    [ -f "$1/include/leveldb/db.h" ] && [ -f "$1/db/db_impl.cc" ] && [ -f "$1/helpers/memenv/memenv.cc" ]
}

if [ -n "${CURTAIL_LEVELDB_DIR:-}" ]; then
    is_leveldb "$CURTAIL_LEVELDB_DIR" ||
        die "CURTAIL_LEVELDB_DIR=$CURTAIL_LEVELDB_DIR is not a LevelDB source tree"
    echo "$CURTAIL_LEVELDB_DIR"
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
target=${1:-${CARGO_TARGET_DIR:-$here/../../target}}
mkdir -p "$target/vendor" || die "cannot create $target/vendor"
vendor=$(cd "$target/vendor" && pwd)
final=$vendor/leveldb-$version

if is_leveldb "$final"; then
    echo "$final"
    exit 0
fi

hint="set CURTAIL_LEVELDB_DIR to an unpacked LevelDB $version instead"
for tool in apt-get apt-config awk sha256sum tar gzip; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool is missing here: $hint"
done

# Everything happens in a directory of this run's own; the result appears by one rename, so that two
# builds at once do not meet.
work=$(mktemp -d "$vendor/.fetch.XXXXXX") || die "cannot create a directory in $vendor"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial" "$work/source"
log=$work/log

# The machine's own sources, as sources of source packages.
LIST= PARTS=
eval "$(apt-config shell LIST Dir::Etc::sourcelist/f PARTS Dir::Etc::sourceparts/d)"
count=0
for file in "$LIST" "${PARTS%/}"/*.list "${PARTS%/}"/*.sources; do
    [ -f "$file" ] && [ -r "$file" ] || continue
    count=$((count + 1))
    case $file in
    *.sources)
        # deb822: one `Types:` a stanza; the rest (URIs, suites, key, Enabled) stays as it is.
        awk 'tolower($0) ~ /^types:/ { print "Types: deb-src"; next } { print }' \
            "$file" >"$work/parts/$count.sources"
        ;;
    *)
        # One line a source: deb [options] URI suite components. Discs have no sources online.
        awk '($1 == "deb" || $1 == "deb-src") && $0 !~ /cdrom:/ { $1 = "deb-src"; print }' \
            "$file" | sort -u >"$work/parts/$count.list"
        ;;
    esac
done
[ "$count" -gt 0 ] || die "this machine has no package sources: $hint"

# A configuration that the caller has chosen (a proxy, say) still holds; ours comes after it.
[ -z "${APT_CONFIG:-}" ] || cat "$APT_CONFIG" >"$work/apt.conf"
cat >>"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/parts";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "$work";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
# The unprivileged user that apt drops to cannot write here; without root there is none.
[ "$(id -u)" -ne 0 ] || echo 'APT::Sandbox::User "root";' >>"$work/apt.conf"
APT_CONFIG=$work/apt.conf
export APT_CONFIG

why() {
    # The first thing that apt complained about: what follows it are consequences.
    awk '/^(E|W|Err):/ { print; found = 1; exit } END { if (!found) print "no reason given" }' "$log"
}

echo "fetch-leveldb: reading the archives' lists of source packages" >&2
# A third-party archive without sources makes the update fail as a whole although the others are
# there: what counts is whether the package is found.
apt-get -q update >"$log" 2>&1 || true
echo "fetch-leveldb: downloading $tarball" >&2
(cd "$work/source" && apt-get -q --download-only --tar-only source leveldb) >>"$log" 2>&1 ||
    die "apt-get source leveldb failed ($(why)): $hint"
[ -f "$work/source/$tarball" ] ||
    die "the archives offer $(ls "$work/source" | tr '\n' ' ')but not $tarball: $hint"
echo "$sha256  $work/source/$tarball" | sha256sum -c - >/dev/null 2>&1 ||
    die "$tarball does not have the expected SHA-256: $hint"

mkdir "$work/tree"
tar -xzf "$work/source/$tarball" -C "$work/tree" --strip-components=1 ||
    die "$tarball cannot be unpacked"
is_leveldb "$work/tree" || die "$tarball does not hold LevelDB's source"
# Another run may have been quicker; an incomplete tree is replaced.
if ! is_leveldb "$final"; then
    rm -rf "$final"
    mv "$work/tree" "$final" 2>/dev/null || is_leveldb "$final" || die "cannot create $final"
fi
echo "$final"
