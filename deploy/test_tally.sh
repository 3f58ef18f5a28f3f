#!/usr/bin/env bash
# test_tally.sh RESULTS.xml: one line, `N passed, N failed, N skipped`, from what `ctest --output-junit` wrote.
# Exits 1 when a test failed or none passed. Only a test that says itself that it skips, or is disabled, counts as
# skipped: one whose program is missing or whose set-up failed did not run, and has failed.
set -euo pipefail

results=${1:?usage: test_tally.sh RESULTS.xml}
if [[ ! -s $results ]]; then
  echo "test_tally.sh: $results is missing or empty: ctest wrote no results" >&2
  exit 1
fi

# Lines at these depths are ctest's own: in a test's output every < is escaped.
count() { grep -c -E "$1" "$results" || true; }
total=$(count $'^\t<testcase ')
passed=$(count $'^\t<testcase .* status="run">$')
skipped=$(($(count $'^\t\t<skipped message="SKIP_') + $(count $'^\t<testcase .* status="disabled">$')))
failed=$((total - passed - skipped))

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
