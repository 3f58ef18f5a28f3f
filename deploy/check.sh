#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests. The last line says how many passed, failed and were
# skipped; the exit status is 0 when none failed. Run it as often as you like; without missing packages it needs no network.
# What takes minutes has a label that ends in long (ctest -L 'long$') and waits for --long, as do the benchmarks, which no test runs.
set -euo pipefail

usage='usage: deploy/check.sh [--long]

  --long   the long tests too: more inputs, more seeds, whole trainings; the benchmarks are built, and GPU kernels for every
           architecture instead of one
  --help   this text'

without=(--label-exclude 'long$')
benchmarks=OFF
every_architecture=
for argument in "$@"; do
  case $argument in
    --long)
      without=()
      benchmarks=ON
      every_architecture=yes
      ;;
    --help | -h)
      echo "$usage"
      exit 0
      ;;
    *)
      printf 'check.sh: %q is unknown\n%s\n' "$argument" "$usage" >&2
      exit 2
      ;;
  esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/packages.sh

step() { printf '\n==> %s\n' "$*"; }

step "Packages"
install_packages "${build_packages[@]}" "${test_packages[@]}"
install_packages_if_possible "${optional_packages[@]}"

step "Build (build/release)"
architectures=
[[ $every_architecture ]] || architectures=$(cuda_architectures)
cmake --preset release -DMILLRACE_TESTS=ON -DMILLRACE_BENCHMARKS="$benchmarks" -DMILLRACE_CUDA_ARCHITECTURES="$architectures"
cmake --build --preset release --parallel "$(nproc)"

step "Tests"
results=$PWD/build/release/test_results.xml
rm -f "$results"
status=0
ctest --preset release --parallel "$(nproc)" --output-junit "$results" "${without[@]}" || status=$?

step "Result"
bash deploy/test_tally.sh "$results" || exit 1
exit "$status"
