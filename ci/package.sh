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
ci/build.sh
ci/package/crates.sh --quick
ci/package/tree.sh
ci/package/deb.sh
ci/package/archive.sh
# What can't be made for want of a tool has said so.
for part in wheels container; do
  ci/package/$part.sh || [ $? -eq 77 ] || die "$part failed"
done
say "made in $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s:"
(cd "$target/package" && ls -sh1 -- *.deb *.tar.xz *.whl 2>/dev/null) || true
[ -z "$try" ] || ci/package/try.sh
