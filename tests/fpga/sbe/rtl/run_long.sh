#!/usr/bin/env bash
# Every engine of blocked columns against the functional model (more than a thousand cases in all) and the cycle model; what is seen goes to
# tests/benchmarks/results/sbe_verification.json, a line per engine. Takes a few minutes on two idle cores.
#
#   tests/fpga/sbe/rtl/run_long.sh build/rtl-long 90        # cases per engine
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../../../.." && pwd)
build=${1:-build/rtl-long}
cases=${2:-90}
cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_TESTS=ON -DMILLRACE_WITH_CUDA=OFF \
  -DMILLRACE_ALL_ENGINE_SETS=ON > /dev/null
engines=$(ninja -C "$build" -t targets all | grep -o '^cosimulation_sbe_[a-z_]*:' | tr -d : | grep -v another | sort -u)
# shellcheck disable=SC2086
cmake --build "$build" --target $engines
result=$source_folder/tests/benchmarks/results/sbe_verification.json
lines=()
for engine in $engines; do
  cd "$build"/tests/fpga/sbe/rtl/run_"${engine#cosimulation_sbe_}"
  lines+=("$("$OLDPWD/$build/bin/$engine" --cases "$cases" --steps 20 --batches 40 --seed 20)")
  cd "$OLDPWD"
done
{
  printf '{\n  "origin": "measured, Verilator against the functional model and the cycle model",\n  "engines": [\n'
  separator=
  for line in "${lines[@]}"; do
    printf '%s    %s' "$separator" "$line"
    separator=$',\n'
  done
  printf '\n  ]\n}\n'
} > "$result"
