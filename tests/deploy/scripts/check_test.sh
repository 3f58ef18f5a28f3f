#!/usr/bin/env bash
# check_test.sh ROOT: deploy/check.sh against stand-ins of cmake and ctest that only write down how they were called: long tests run
# with --long and never without, results decide the exit status, and unknown words are refused before anything is built.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/clone/deploy" "$work/clone/build/release"
cp "$root"/deploy/*.sh "$work/clone/deploy"

printf '#!/usr/bin/env bash\necho -n installed\n' >"$work/bin/dpkg-query"
printf '#!/usr/bin/env bash\necho "cmake $*" >>"$WORK/calls"\n' >"$work/bin/cmake"
cat >"$work/bin/ctest" <<'STAND_IN'
#!/usr/bin/env bash
echo "ctest $*" >>"$WORK/calls"
while (($#)); do [[ $1 == --output-junit ]] && results=$2; shift; done
printf '\t<testcase name="a" status="%s">\n' "$(<"$WORK/outcome")" >"$results"
[[ $(<"$WORK/outcome") == run ]]
STAND_IN
chmod +x "$work"/bin/*
export WORK=$work PATH=$work/bin:$PATH

# check STATUS ARGUMENTS...: runs the script on tests of which each ends as $outcome says.
outcome=run
check() {
  local expected=$1 status=0
  shift
  : >"$work/calls"
  echo "$outcome" >"$work/outcome"
  bash "$work/clone/deploy/check.sh" "$@" >"$work/output" 2>&1 || status=$?
  [[ $status == "$expected" ]] || fail "exit status $status, expected $expected, of check.sh $*"
}
fail() {
  echo "FAILED: $1"
  cat "$work/output" "$work/calls"
  exit 1
}

check 0
grep -q '^ctest .*--label-exclude long\$$' "$work/calls" || fail "without --long no long test runs"
grep -q '^1 passed, 0 failed, 0 skipped$' "$work/output" || fail "the last line counts"
grep -q '^cmake .*-DMILLRACE_BENCHMARKS=OFF ' "$work/calls" || fail "without --long no benchmark is built"
check 0 --long
grep -q '^ctest ' "$work/calls" || fail "--long runs tests"
grep -q '^cmake .*-DMILLRACE_BENCHMARKS=ON .*ARCHITECTURES=$' "$work/calls" || fail "--long builds the benchmarks, and kernels for every GPU"
grep -q 'label' "$work/calls" && fail "with --long every test runs"
outcome=fail
check 1 --long
outcome=run
check 0 --help
grep -q -e '--long' "$work/output" || fail "--help tells of --long"
[[ ! -s $work/calls ]] || fail "--help builds nothing"
check 2 --lnog
grep -q -e '--lnog is unknown' "$work/output" || fail "an unknown word is named"
[[ ! -s $work/calls ]] || fail "an unknown word builds nothing"

echo "check.sh: all checks hold"
