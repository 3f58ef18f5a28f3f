#!/bin/sh
# A day with a GPU: correctness first, then the benchmark's quick cases, then its grid, then profiles, in slices of less than ten
# minutes, each of which leaves its JSON in a folder. Run again, it goes on where it stopped.
#
#   gpu/rnn/bench/run_on_gpu.sh [--bin FOLDER] [--out FOLDER] [--seconds S] [--once] [--without-cudnn]
#
#   --bin FOLDER     prebuilt programs (tests/gpu/cuda/bundle.py packs them): nothing is compiled, and neither nvcc nor CMake nor MPI
#                    nor a network is wanted. Without it the folder of this script is searched, then everything is built with nvcc
#   --out FOLDER     where results go (build/gpu-results, or gpu-results beside the packed programs)
#   --seconds S      most seconds of a slice (540)
#   --once           one slice, for machines that are lent for minutes
#   --without-cudnn  time our own kernels alone where there is no cuDNN
#
# Exit status: 0 all slices done and well; 1 no GPU, something missing, or a slice that found something wrong; 2 wrong arguments;
# 3 (with --once) slices are left. cuDNN, cuBLAS and the run-time compiler are found through LD_LIBRARY_PATH, also in Python's packages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin= out= once= without= seconds=540
say() { echo "run_on_gpu.sh: $*" >&2; }
while [ $# -gt 0 ]; do
  case $1 in
    --bin | --out | --seconds)
      [ $# -gt 1 ] || { say "$1 needs a value"; exit 2; }
      case $1 in --bin) bin=$2 ;; --out) out=$2 ;; *) seconds=$2 ;; esac
      shift ;;
    --once) once=yes ;;
    --without-cudnn) without=--without-cudnn ;;
    --help | -h) sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) say "there is no \"$1\"; see --help"; exit 2 ;;
  esac
  shift
done
case $seconds in '' | *[!0-9]*) say "--seconds takes a whole number"; exit 2 ;; esac

if ! command -v nvidia-smi > /dev/null || ! nvidia-smi -L > /dev/null 2>&1; then
  say "no GPU here (nvidia-smi finds none); run it on a machine with an NVIDIA GPU and its driver"
  exit 1
fi
for folder in $(python3 -c 'import site,glob; print(" ".join(f for s in site.getsitepackages() for f in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null || true); do
  LD_LIBRARY_PATH="$folder:${LD_LIBRARY_PATH:-}"
done
export LD_LIBRARY_PATH="$here/lib:${LD_LIBRARY_PATH:-}"

commit=unknown
if [ -z "$bin" ] && [ -x "$here/millrace-bench-rnn" ]; then bin=$here; fi
if [ -n "$bin" ]; then
  bin=$(cd "$bin" && pwd)
  [ -f "$bin/commit" ] && commit=$(cat "$bin/commit")
  out=${out:-$bin/gpu-results}
else
  cd "$here/../../.."
  for tool in cmake nvcc; do
    command -v $tool > /dev/null || PATH=$PATH:/usr/local/cuda/bin
    command -v $tool > /dev/null || { say "$tool is not here to build with; give --bin FOLDER with programs that were built elsewhere"; exit 1; }
  done
  includes=$(python3 -c 'import site,glob; print(":".join(f for s in site.getsitepackages() for f in glob.glob(s + "/nvidia/cudnn/include")))' 2> /dev/null || true)
  [ -z "$includes" ] || export CPATH="$includes:${CPATH:-}"
  if [ -z "$without" ] && ! echo '#include <cudnn.h>' | nvcc -x cu -E - > /dev/null 2>&1; then
    say "cudnn.h is not found, so that nothing could be compared; put its folder into CPATH, or give --without-cudnn"
    exit 1
  fi
  # This GPU's architecture alone: a fraction of the compilation for all.
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d ' .')
  [ "$capability" = 90 ] && capability=90a
  if ! nvcc --list-gpu-arch | grep -q "^compute_${capability%a}$"; then
    say "this nvcc does not compile for compute capability $capability; take a newer CUDA toolkit, or --bin FOLDER"
    exit 1
  fi
  cmake --preset gpu-only -DCMAKE_CUDA_ARCHITECTURES="$capability"
  cmake --build --preset gpu-only --parallel "$(nproc)"
  commit=$(git rev-parse HEAD 2> /dev/null || echo unknown)
  bin=$PWD/build/gpu-only/bin
  out=${out:-$PWD/build/gpu-results}
fi
for program in test_gpu_rnn_gpu millrace-bench-rnn; do
  [ -x "$bin/$program" ] || { say "$bin has no $program; build the preset gpu-only, or pack it with tests/gpu/cuda/bundle.py"; exit 1; }
done
mkdir -p "$out"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)

# check NAME PROGRAM...: one slice whose outcome is its exit status; NAME.json says it, NAME.log holds what the program said.
check() {
  name=$1
  shift
  [ ! -f "$out/$name.json" ] || return 0
  begin=$(date +%s)
  status=0
  timeout "$((seconds + 30))" "$@" > "$out/$name.log" 2>&1 || status=$?
  case $status in 0) outcome=passed ;; 77) outcome=skipped ;; 124) outcome="out of time" ;; *) outcome=failed ;; esac
  printf '{\n  "gpu": "%s",\n  "commit": "%s",\n  "slice": "%s",\n  "outcome": "%s",\n  "status": %d,\n  "seconds": %d,\n  "log": "%s"\n}\n' \
    "$gpu" "$commit" "$name" "$outcome" "$status" "$(($(date +%s) - begin))" "$name.log" > "$out/$name.json.new"
  mv "$out/$name.json.new" "$out/$name.json"
  echo "$name: $outcome ($out/$name.json)"
  end_of_slice
}

# measure NAME ARGUMENTS...: the benchmark, slice after slice, until no case is left. A case that ends the program is passed over the
# next time; a program that ends twice at the same number of cases is given up.
measure() {
  name=$1
  shift
  while ! grep -q '"cases_left": false' "$out/$name.json" 2> /dev/null; do
    [ ! -f "$out/$name.given_up" ] || return 0
    before=$(grep -c '{"case": ' "$out/$name.json" 2> /dev/null || true)
    status=0
    timeout "$((seconds + 30))" "$bin/millrace-bench-rnn" "$@" $without --commit "$commit" --choices "$out/layouts.txt" \
      --json "$out/$name.json" --resume --seconds "$seconds" >> "$out/$name.log" 2>&1 || status=$?
    after=$(grep -c '{"case": ' "$out/$name.json" 2> /dev/null || true)
    echo "$name: ${after:-0} cases, exit status $status ($out/$name.json)"
    if [ "$status" -gt 3 ] || ! grep -q '"cases_left"' "$out/$name.json" 2> /dev/null; then
      [ "${before:-0}" != "${after:-0}" ] || { say "$name makes no progress; see $out/$name.log"; : > "$out/$name.given_up"; }
    fi
    end_of_slice
  done
}

end_of_slice() { [ -z "$once" ] || exit 3; }

check correctness "$bin/test_gpu_rnn_gpu"
# Its report has a file of its own: the log tells check by check, whatever ends them.
if [ -x "$bin/run.sh" ]; then check device-check sh -c '"$0" --json > "$1"' "$bin/run.sh" "$out/device-report.json"; fi
measure quick --quick --calibrate --runs 25
measure grid --runs 51
if command -v compute-sanitizer > /dev/null; then check memcheck compute-sanitizer --error-exitcode 1 "$bin/test_gpu_rnn_gpu"; fi
if command -v ncu > /dev/null; then
  check profile ncu --set full --kernel-name regex:persistent --launch-count 4 --export "$out/profile" --force-overwrite \
    "$bin/millrace-bench-rnn" --quick --runs 1 --layouts 1 $without
fi

wrong=0
for slice in correctness device-check memcheck; do
  [ ! -f "$out/$slice.json" ] || grep -q '"outcome": "passed"' "$out/$slice.json" || { say "$slice did not pass: $out/$slice.log"; wrong=1; }
done
for slice in quick grid; do
  [ ! -f "$out/$slice.given_up" ] || { say "$slice was given up: $out/$slice.log"; wrong=1; continue; }
  grep -q '"wrong": 0,' "$out/$slice.json" || { say "$slice has cases that are wrong, refused or broken: $out/$slice.json"; wrong=1; }
done
echo "results: $out"
exit $wrong
