#!/usr/bin/env bash
# From a fresh clone to a plan and a trained network: installs what is missing, builds the `millrace` command and runs the demo
# below. Run it as often as you like; without missing packages it needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/packages.sh

millrace=build/release/bin/millrace
run=runs/quickstart  # made anew each time
least_accuracy=0.97

step() { printf '\n==> %s\n' "$*"; }
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

demo() {
  rm -rf "$run" "$run-ring"
  show "$millrace" models
  show "$millrace" plan --model vgg16 --cluster vc709x15 --explain
  show "$millrace" train --model digits-cnn --data digits --epochs 20 --out "$run"
  show "$millrace" eval --checkpoint "$run"
  show env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 --oversubscribe --bind-to none \
    "$millrace" train --model digits-cnn --data digits --cluster cpux4 --alignment fpdeep --epochs 5 --out "$run-ring"
  show "$millrace" simulate --model vgg16 --cluster vc709x15
}

# The demo's promise, checked on the JSON that scripts read.
check_accuracy() {
  "$millrace" eval --checkpoint "$run" --json |
    sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p' |
    awk -v least="$least_accuracy" '{ seen = 1; printf "test accuracy %.4f, promised at least %.2f\n", $1, least; if ($1 < least) exit 1 }
                                    END { if (!seen) { print "no accuracy in the result of eval"; exit 1 } }'
}

step "Packages"
install_packages "${build_packages[@]}"

step "Build ($millrace)"
cmake --preset release
cmake --build --preset release --target millrace --parallel "$(nproc)"

step "Demo"
demo
check_accuracy

step "Done. The run is in $run; deploy/check.sh runs the tests; $millrace --help tells the rest."
