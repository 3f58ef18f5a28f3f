#!/usr/bin/env bash
# Every set of engine parameters against the functional model, the cycle model and the peak, and whole devices under Icarus; what is
# seen goes to tests/benchmarks/results/conv_ce_verification.json. Takes a quarter of an hour on two idle cores, goes on where it
# was stopped.
#
#   nice tests/fpga/conv_ce/rtl/run_long.sh build/rtl-long 25
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../../../.." && pwd)
exec python3 -B "$source_folder/tests/benchmarks/conv_ce_verification.py" --build "${1:-build/rtl-long}" --geometries "${2:-25}" --jobs "${JOBS:-2}"
