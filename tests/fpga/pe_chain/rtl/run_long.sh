#!/usr/bin/env bash
# Every engine of chained elements against the functional model (about a thousand cases in all) and the cycle model, to the bit and to the
# cycle, and what is wrong on purpose; what is seen goes to tests/benchmarks/results/pe_chain_verification.json, a line per engine.
#
#   tests/fpga/pe_chain/rtl/run_long.sh build/rtl-long 120        # cases per engine
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../../../.." && pwd)
build=$(realpath -m "${1:-build/rtl-long}")
cases=${2:-120}
result=$source_folder/tests/benchmarks/results/pe_chain_verification.json
mutants=(exchanged_candidates weights_of_the_next_chain halves_of_divided_cells projected_from_u fp32_projected_before_the_gates)
cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_TESTS=ON -DMILLRACE_WITH_CUDA=OFF \
  -DMILLRACE_ALL_ENGINE_SETS=ON > /dev/null
mapfile -t engines < <(ninja -C "$build" -t targets all | grep -o '^cosimulation_pe_chain_[a-z0-9_]*:' | tr -d : |
  grep -v "${mutants[@]/#/-e}" | sort -u)
cmake --build "$build" --target "${engines[@]}" "${mutants[@]/#/cosimulation_pe_chain_}"

lines=()
differences=0
for engine in "${engines[@]}"; do
  cd "$build/tests/fpga/pe_chain/rtl/run_${engine#cosimulation_pe_chain_}"
  line=$("$build/bin/$engine" --cases "$cases" --cycles "$cases" --seed 20) || differences=1
  lines+=("$line")
done

# noticed NAME PROGRAM FLAGS...: where the first difference lies.
noticed() {
  cd "$build/tests/fpga/pe_chain/rtl/run_$2"
  local text
  if text=$("$build/bin/cosimulation_pe_chain_$2" --cases "$cases" --seed 20 "${@:3}"); then
    echo "{\"wrong\": \"$1\", \"noticed\": false}"
  else
    echo "{\"wrong\": \"$1\", \"noticed\": true, \"says\": \"$(head -n 1 <<< "$text")\"}"
  fi
}
wrong=(
  "$(noticed "an entry of the table of gates by one" gru_table --table-bit 1)"
  "$(noticed "U untransposed for the way back" lstm --untransposed 1)"
  "$(noticed "U untransposed for the way back, single precision" fp32_lstm --untransposed 1)"
  "$(noticed "a piece of the tangent by a bit, single precision" fp32_lstm --piece-bit 1)"
  "$(noticed "gru's two candidate errors exchanged" exchanged_candidates)"
  "$(noticed "weights of the next chain" weights_of_the_next_chain)"
  "$(noticed "halves of divided cells exchanged" halves_of_divided_cells)"
  "$(noticed "a projection untransposed for the way back" lstm_projected --untransposed 1)"
  "$(noticed "a projection untransposed for the way back, single precision" fp32_lstm_projected --untransposed 1)"
  "$(noticed "U's weights in place of the projection's" projected_from_u)"
  "$(noticed "projected sums that do not wait for the gates before them, single precision" fp32_projected_before_the_gates)"
)
# listed LINES...: comma after comma.
listed() {
  printf '%s\n' "$@" | sed -e 's/^/    /' -e '$!s/$/,/'
}
{
  printf '{\n  "origin": "measured: Verilator against the functional model and the cycle model",\n  "engines": [\n'
  listed "${lines[@]}"
  printf '  ],\n  "wrong_on_purpose": [\n'
  listed "${wrong[@]}"
  printf '  ]\n}\n'
} > "$result"
if grep -q '"noticed": false' "$result"; then differences=1; fi
exit $differences
