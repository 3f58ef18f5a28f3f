#!/usr/bin/env bash
# test_tally_test.sh ROOT: runs ctest on tests that pass, fail, skip, crash and cannot start, and checks the line
# and the exit status that deploy/test_tally.sh makes of its results.
set -euo pipefail
tally=$1/deploy/test_tally.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect LINE STATUS CMAKE: what becomes of a project with these tests.
expect() {
  local folder=$work/$RANDOM line status=0
  mkdir "$folder"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(t NONE)\nenable_testing()\n%s\n' "$3" >"$folder/CMakeLists.txt"
  cmake -S "$folder" -B "$folder/build" >/dev/null
  (cd "$folder/build" && ctest --output-junit "$folder/results.xml" >/dev/null 2>&1) || true
  line=$(bash "$tally" "$folder/results.xml") || status=$?
  if [[ $line != "$1" || $status != "$2" ]]; then
    printf 'FAILED: "%s" with status %s; expected "%s" with status %s, for\n%s\n' "$line" "$status" "$1" "$2" "$3"
    exit 1
  fi
}

pass='add_test(NAME pass COMMAND true)'
skip='add_test(NAME skip COMMAND sh -c "exit 77")
set_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)'
expect '1 passed, 0 failed, 0 skipped' 0 "$pass"
expect '1 passed, 0 failed, 1 skipped' 0 "$pass
$skip"
expect '0 passed, 0 failed, 1 skipped' 1 "$skip"
expect '1 passed, 1 failed, 0 skipped' 1 "$pass
add_test(NAME crash COMMAND sh -c \"kill -SEGV \$\$\")"
expect '1 passed, 1 failed, 0 skipped' 1 "$pass
add_test(NAME absent COMMAND /nonexistent/program)"
expect '0 passed, 2 failed, 0 skipped' 1 'add_test(NAME setup COMMAND false)
set_tests_properties(setup PROPERTIES FIXTURES_SETUP f)
add_test(NAME user COMMAND true)
set_tests_properties(user PROPERTIES FIXTURES_REQUIRED f)'
# A failing test that prints what a passing one's result looks like.
expect '1 passed, 1 failed, 0 skipped' 1 "$pass
file(WRITE \${CMAKE_CURRENT_BINARY_DIR}/forged \"\\t<testcase name=\\\"x\\\" status=\\\"run\\\">\\n\\t\\t<skipped message=\\\"SKIP_\\\"/>\\n\")
add_test(NAME forger COMMAND sh -c \"cat forged; false\")"

if bash "$tally" "$work/nothing.xml" 2>/dev/null; then
  echo "FAILED: results that do not exist must not pass"
  exit 1
fi
echo "test_tally.sh: all checks hold"
