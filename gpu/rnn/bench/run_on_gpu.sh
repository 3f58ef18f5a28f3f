#!/bin/sh
# Builds gpu/rnn alone on a machine with a GPU, a C++ compiler, CMake and nvcc, runs its tests and its benchmark, and
# writes the results as JSON, with the GPU's name, the commit and the command in them.
#
#   gpu/rnn/bench/run_on_gpu.sh [RESULTS.json] [further arguments of millrace-bench-rnn, as --quick]
#
# cuDNN and cuBLAS are found through LD_LIBRARY_PATH, also in Python's nvidia packages.
set -eu
cd "$(dirname "$0")/../../.."
results=${1:-build/gpu-only/rnn-results.json}
[ $# -gt 0 ] && shift

if ! command -v nvidia-smi > /dev/null || ! nvidia-smi -L > /dev/null 2>&1; then
  echo "run_on_gpu.sh: no GPU here (nvidia-smi finds none); run it on a machine with an NVIDIA GPU and its driver" >&2
  exit 1
fi
# This GPU's architecture alone: a tenth of the compilation for all.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d ' .')
[ "$capability" = 90 ] && capability=90a
for folder in $(python3 -c 'import site,glob; print(" ".join(f for s in site.getsitepackages() for f in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null || true); do
  LD_LIBRARY_PATH="$folder:${LD_LIBRARY_PATH:-}"
done
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
includes=$(python3 -c 'import site,glob; print(" ".join(f for s in site.getsitepackages() for f in glob.glob(s + "/nvidia/cudnn/include")))' 2> /dev/null || true)
[ -n "$includes" ] && export CPATH="$includes:${CPATH:-}"

cmake --preset gpu-only -DCMAKE_CUDA_ARCHITECTURES="$capability-real"
cmake --build --preset gpu-only --parallel "$(nproc)"
ctest --preset gpu-only
commit=$(git rev-parse HEAD 2> /dev/null || echo unknown)
build/gpu-only/bin/millrace-bench-rnn --commit "$commit" --choices build/gpu-only/rnn-layouts.txt --json "$results" "$@"
echo "results: $results"
