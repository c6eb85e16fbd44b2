#!/usr/bin/env bash
# table.sh NAME [FILE]: puts the Markdown table on standard input between the markers
# <!-- NAME-begin --> and <!-- NAME-end --> of FILE, by default the book's page of measurements.
# Lines that are of no table are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?usage: ci/table.sh NAME [FILE]} file=${2:-docs/src/measured.md}
fail() {
  echo "table.sh: $1" >&2
  exit 1
}
grep -q "^<!-- $name-begin -->\$" "$file" || fail "$file has no table $name"
rows=$(grep '^|') || fail "no Markdown table on standard input"
page=$(name=$name rows=$rows awk '
  $0 == "<!-- " ENVIRON["name"] "-end -->" { inside = 0 }
  !inside { print }
  $0 == "<!-- " ENVIRON["name"] "-begin -->" { inside = 1; print ENVIRON["rows"] }
' "$file")
printf '%s\n' "$page" >"$file"
