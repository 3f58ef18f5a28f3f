#!/usr/bin/env bash
# Every engine of blocked columns against the functional model (more than a thousand cases in all) and the cycle model, and the paper's
# engine at full size; what is seen goes to tests/benchmarks/results/sbe_verification.json, a line per engine. Takes some five minutes of
# processor time beside what the build takes.
#
#   tests/fpga/sbe/rtl/run_long.sh build/rtl-long 90        # cases per engine
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../../../.." && pwd)
build=$(realpath -m "${1:-build/rtl-long}")
cases=${2:-90}
cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_TESTS=ON -DMILLRACE_WITH_CUDA=OFF \
  -DMILLRACE_ALL_ENGINE_SETS=ON > /dev/null
mapfile -t engines < <(ninja -C "$build" -t targets all | grep -o '^cosimulation_sbe_[a-z_]*:' | tr -d : | grep -v another | sort -u)
cmake --build "$build" --target "${engines[@]}" full_size_sbe

# lines_of COMMAND...: its lines of JSON, comma after comma.
lines_of() {
  "$@" | sed -e 's/^/    /' -e '$!s/$/,/'
}
engines_of_all() {
  local engine
  for engine in "${engines[@]}"; do
    cd "$build/tests/fpga/sbe/rtl/run_${engine#cosimulation_sbe_}"
    "$build/bin/$engine" --cases "$cases" --steps 20 --batches 40 --seed 20
  done
}
full_sizes() {
  local blocks
  for blocks in 8 16; do "$build/bin/full_size_sbe" "$blocks"; done
}
{
  printf '{\n  "origin": "measured: Verilator against the functional model and the cycle model",\n  "engines": [\n'
  lines_of engines_of_all
  printf '  ],\n  "full_size": [\n'
  lines_of full_sizes
  printf '  ]\n}\n'
} > "$source_folder/tests/benchmarks/results/sbe_verification.json"
