# shellcheck shell=bash disable=SC2034  # the lists are used by the scripts that source this
# The Debian packages that Millrace is built and tested with, and how the missing ones are installed.
#
#   source deploy/packages.sh
#   install_packages "${build_packages[@]}"                    # what is missing, or ends with a reason
#   install_packages_if_possible "${optional_packages[@]}"     # what is missing, or says what stays untested
#
# When nothing is missing nothing is touched: no package manager, no network, no sudo.

# What the command needs.
build_packages=(cmake ninja-build g++ ccache mold libprotobuf-dev protobuf-compiler libspdlog-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev libdnnl-dev ocl-icd-opencl-dev zlib1g-dev libxxhash-dev libopenmpi-dev openmpi-bin)
# What the tests need besides.
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3)
# Tests that need one of these are skipped without it.
optional_packages=(dataset-fashion-mnist bible-kjv bible-kjv-text asterisk-core-sounds-en-wav asterisk-core-sounds-en libkissfft-dev
  libjpeg62-turbo-dev libpng-dev python3-numpy python3-pil libonnx-dev libonnx-testdata libhdf5-dev clang-format-14 chromium verilator iverilog yosys libxrt-dev libxrt1)

missing_packages() {
  local package
  for package in "$@"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || echo "$package"
  done
}

# Returns 1, having said why, when something is still missing afterwards.
try_to_install_packages() {
  local missing sudo=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    echo "These packages are missing, and there is no apt-get here to install them: ${missing[*]}" >&2
    return 1
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "These packages are missing; as root, run: apt-get install ${missing[*]}" >&2
      return 1
    fi
    sudo=(sudo)
    echo "Installing with sudo, which may ask for your password."
  fi
  echo "Installing: ${missing[*]}"
  # The list of packages may be old or, on a fresh machine, empty. Failing to renew it is no failure: the packages decide.
  "${sudo[@]}" apt-get update -qq || true
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" || return 1
  [[ -z "$(missing_packages "$@")" ]]
}

install_packages() {
  if ! try_to_install_packages "$@"; then
    echo "Millrace cannot be built without these packages: $(missing_packages "$@" | paste -sd ' ')" >&2
    exit 1
  fi
}

install_packages_if_possible() {
  local package
  for package in "$@"; do
    try_to_install_packages "$package" || echo "Going on without $package: the tests that need it will be skipped."
  done
}

# Architectures that GPU kernels are compiled for where nobody says: 90a, whose PTX the tests read, and those of this machine's GPUs.
# All that the compiler knows would take the first command several minutes more, and would be compiled again by the second.
cuda_architectures() {
  local major architectures=90a
  while read -r major; do
    case $major in
      8) architectures+=';80' ;;
      10) architectures+=';100' ;;
      12) architectures+=';120' ;;
    esac
  done < <(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | cut -d . -f 1 | sort -u)
  echo "$architectures"
}
