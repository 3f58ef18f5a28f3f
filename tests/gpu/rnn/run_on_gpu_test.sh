#!/bin/sh
# gpu/rnn/bench/run_on_gpu.sh without a GPU, over programs that stand in for nvidia-smi, the tests and the benchmark: slices in
# their order, one at a time with --once, each with its JSON; a benchmark that dies is gone on with; what is missing is said.
#
#   run_on_gpu_test.sh RUN_ON_GPU_SH
set -eu
script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tools"
PATH=$work/tools:$PATH
export PATH
failed=0
expect() { # expect WHAT STATUS EXPECTED
  [ "$2" = "$3" ] || { echo "FAILED: $1: $2, not $3"; failed=1; }
}
program() { cat > "$1"; chmod +x "$1"; }

program "$work/tools/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in *-L*) [ ! -f "${0%/*}/no-gpu" ] ;; *name*) echo "A GPU" ;; *) echo 9.0 ;; esac
END
for tool in compute-sanitizer ncu; do
  program "$work/tools/$tool" <<'END'
#!/bin/sh
exit 0
END
done
program "$work/bin/test_gpu_rnn_gpu" <<'END'
#!/bin/sh
echo "all checks hold"
END
program "$work/bin/run.sh" <<'END'
#!/bin/sh
echo "ok   a check" >&2
echo '{"checks": []}'
END
# The benchmark's stand-in: a case per run, three in all; the second one kills it.
program "$work/bin/millrace-bench-rnn" <<'END'
#!/bin/sh
json=
while [ $# -gt 0 ]; do [ "$1" != --json ] || json=$2; shift; done
n=$(grep -c '{"case": ' "$json" 2> /dev/null || true)
n=$((${n:-0} + 1))
[ ! -f "${0%/*}/dead" ] || exit 139
i=0
{ echo '{'; [ "$n" = 2 ] || { echo '  "wrong": 0,'; [ "$n" -ge 3 ] && left=false || left=true; echo "  \"cases_left\": $left,"; }
  while [ $i -lt $n ]; do i=$((i + 1)); echo "    {\"case\": \"$i\"},"; done; echo '}'; } > "$json"
[ "$n" != 2 ] || exit 139
[ "$n" -ge 3 ] || exit 3
END

status=0; sh "$script" --bin "$work/bin" --out "$work/all" > "$work/said" 2>&1 || status=$?
expect "all slices" $status 0
expect "the benchmark's cases" "$(grep -c '{"case": ' "$work/all/grid.json")" 3
expect "the device's report" "$(cat "$work/all/device-report.json")" '{"checks": []}'
expect "the device's log" "$(cat "$work/all/device-check.log")" "ok   a check"
for slice in correctness device-check quick grid memcheck profile; do [ -s "$work/all/$slice.json" ] || { echo "FAILED: no $slice.json"; failed=1; }; done
expect "order of the first slices" "$(sed -n 's/^\([a-z-]*\): .*/\1/p' "$work/said" | head -n 3 | tr '\n' ' ')" "correctness device-check quick "
expect "the outcome" "$(sed -n 's/.*"outcome": "\(.*\)".*/\1/p' "$work/all/correctness.json")" passed

# One slice at a time.
runs=0; status=3
while [ $status = 3 ] && [ $runs -lt 30 ]; do
  runs=$((runs + 1)); status=0
  sh "$script" --bin "$work/bin" --out "$work/once" --once > /dev/null 2>&1 || status=$?
done
expect "the last of single slices" $status 0
expect "slices of correctness, the device, three of quick, three of grid, memcheck, profile, and none left" $runs 11

# A test that fails is said at the end, and gates nothing.
printf '#!/bin/sh\nexit 1\n' > "$work/bin/test_gpu_rnn_gpu"
status=0; sh "$script" --bin "$work/bin" --out "$work/wrong" > /dev/null 2>&1 || status=$?
expect "a failed check" $status 1
[ -s "$work/wrong/grid.json" ] || { echo "FAILED: the grid did not run"; failed=1; }
# A benchmark that dies at once is given up.
: > "$work/bin/dead"
status=0; sh "$script" --bin "$work/bin" --out "$work/dead" > "$work/said" 2>&1 || status=$?
expect "a dead benchmark" $status 1
grep -q "makes no progress" "$work/said" || { echo "FAILED: no word about the dead benchmark"; failed=1; }
# Nothing to run, no GPU, wrong words.
rm "$work/bin/millrace-bench-rnn"
status=0; sh "$script" --bin "$work/bin" > "$work/said" 2>&1 || status=$?
expect "no benchmark" $status 1
grep -q "has no millrace-bench-rnn" "$work/said" || { echo "FAILED: which program is missing"; failed=1; }
: > "$work/tools/no-gpu"
status=0; sh "$script" --bin "$work/bin" > "$work/said" 2>&1 || status=$?
expect "no GPU" $status 1
grep -q "no GPU here" "$work/said" || { echo "FAILED: no word about the GPU"; failed=1; }
status=0; sh "$script" --fast > /dev/null 2>&1 || status=$?
expect "an unknown option" $status 2
status=0; sh "$script" --help > "$work/said" 2>&1 || status=$?
expect "help" $status 0
grep -q -- "--without-cudnn" "$work/said" && grep -q "Exit status: 0" "$work/said" && ! grep -q "set -eu" "$work/said" ||
  { echo "FAILED: the help is not the beginning of the script"; failed=1; }
[ $failed = 0 ] && echo "run_on_gpu.sh does as it says"
exit $failed
