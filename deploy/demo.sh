#!/usr/bin/env bash
# What a program that was just built or installed should do: plans, trains a small network alone and as a ring of two processes, evaluates
# it and simulates a ring. Less than a minute. Ends with status 0 when the network is as good as promised.
#
#   demo.sh [MILLRACE [FOLDER]]          [millrace, runs/demo]; the folder is made anew each time
set -euo pipefail
millrace=${1-millrace}
run=${2-runs/demo}
least_accuracy=0.97

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

rm -rf "$run" "$run-ring"
show "$millrace" models
show "$millrace" plan --model vgg16 --cluster vc709x15 --explain
show "$millrace" train --model digits-cnn --data digits --epochs 20 --out "$run"
show "$millrace" eval --checkpoint "$run"
show env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 --oversubscribe --bind-to none \
  "$millrace" train --model digits-cnn --data digits --cluster cpux4 --alignment fpdeep --epochs 5 --out "$run-ring"
show "$millrace" simulate --model vgg16 --cluster vc709x15

# The demo's promise, checked on the JSON that scripts read.
"$millrace" eval --checkpoint "$run" --json |
  sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p' |
  awk -v least="$least_accuracy" '{ seen = 1; printf "test accuracy %.4f, promised at least %.2f\n", $1, least; if ($1 < least) exit 1 }
                                  END { if (!seen) { print "no accuracy in the result of eval"; exit 1 } }'
