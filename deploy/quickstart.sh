#!/usr/bin/env bash
# From a fresh clone to a plan and a trained network: installs what is missing, builds the `millrace` command and runs the demo
# below. Run it as often as you like; without missing packages it needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/packages.sh

millrace=build/release/bin/millrace
run=runs/quickstart

step() { printf '\n==> %s\n' "$*"; }

step "Packages"
install_packages "${build_packages[@]}"

step "Build ($millrace)"
cmake --preset release -DMILLRACE_CUDA_ARCHITECTURES="$(cuda_architectures)"
cmake --build --preset release --target millrace --parallel "$(nproc)"

step "Demo"
deploy/demo.sh "$millrace" "$run"

step "Done. The run is in $run; deploy/check.sh runs the tests; $millrace --help tells the rest."
