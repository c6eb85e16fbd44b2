#!/usr/bin/env bash
# What users install, under target/package: a Debian package, an archive with the same for other
# distributions, the crates, wheels for Python. Then all of it is tried, in a root file system of its
# own. Nothing is published.
# --no-try: only makes it. --list, --quick: only the crates: what would be in them; not built from
# their packages.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

try=yes
case ${1:-} in
'' | --try) ;;
--no-try) try= ;;
--list | --quick) exec ci/package/crates.sh "$1" ;;
*) die "package takes --try, --no-try, --list, --quick" ;;
esac

begin=$SECONDS
rm -f "$target/package/root.tar"
trap 'rm -f "$target/package/root.tar"' EXIT
ci/build.sh
ci/package/crates.sh --quick
ci/package/tree.sh
ci/package/deb.sh
ci/package/archive.sh
ci/package/wheels.sh || [ $? -eq 77 ] || die "the wheel failed"
say "made in $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s:"
(cd "$target/package" && ls -sh1 -- *.deb *.tar.xz *.whl 2>/dev/null) || true
[ -n "$try" ] || exit 0
# What can't be tried for want of a tool or of rights has said so.
for part in try container; do
  ci/package/$part.sh || [ $? -eq 77 ] || die "$part failed"
done
