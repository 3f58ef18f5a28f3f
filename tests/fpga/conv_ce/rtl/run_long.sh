#!/usr/bin/env bash
# Every set of engine parameters (about forty-five) against the functional model, 25 geometries each unless
# told otherwise, and the cycles of engines against the cycle model.
#
#   tests/fpga/conv_ce/rtl/run_long.sh build/rtl-long 25
#
# Configures a build folder of its own, makes the Verilated models (most of the time: about a quarter of an hour on two
# cores) and runs them one after the other. Ends with 1 at the first difference.
set -euo pipefail
build=${1:-build/rtl-long}
geometries=${2:-25}
source_folder=$(cd "$(dirname "$0")/../../../.." && pwd)
cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_ALL_ENGINE_SETS=ON -DMILLRACE_WITH_CUDA=OFF >/dev/null
mapfile -t programs < <(ninja -C "$build" -t targets all | sed -n "s/^bin\/\(cosimulation_[a-z0-9_]*\): .*/\1/p" | sort)
ninja -C "$build" -j "${JOBS:-2}" "${programs[@]/#/bin/}"
for program in "${programs[@]}"; do
  "$build/bin/$program" --geometries "$geometries" --seed 2026
  [[ "$program" != cosimulation_k* ]] || "$build/bin/$program" --cycles 2 --seed 2026
done
echo "${#programs[@]} sets of parameters, $geometries geometries each: all bit by bit as the functional model, in as many cycles as modelled"
