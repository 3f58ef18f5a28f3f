"""Packs what checks and measures on a GPU into one folder, for a machine with a GPU and a driver and nothing else.

    python3 bundle.py --build build/bundle OUT  builds all of it first, in that folder; then there: OUT/run_on_gpu.sh, everything in slices,
                                                or OUT/run.sh [--json], the device alone
    python3 bundle.py build/release/bin OUT     what a build has: without benchmarks the device's check alone
    python3 bundle.py build/gpu-only/bin OUT    the recurrent kernels' tests and benchmark without the device's check

OUT gets the programs that are there (millrace-gpu-check with its CUDA module; the recurrent kernels' test and benchmark), run.sh,
run_on_gpu.sh, the commit, and lib/: the shared libraries of all, but for the C library's own, and CUDA's only with --cuda (hundreds of
megabytes: machines with a GPU usually have them, and both scripts look in the usual places, Python's site-packages included). Needs ldd.
Exit status 1, naming it, when a library cannot be found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECK = ("millrace-gpu-check", "libmillrace_cuda.so")
RECURRENT = ("test_gpu_rnn_gpu", "millrace-bench-rnn")
TARGETS = ("millrace-gpu-check", "millrace_cuda", *RECURRENT)
SOURCE = Path(__file__).resolve().parents[3]
SCRIPT = SOURCE / "gpu/rnn/bench/run_on_gpu.sh"
OF_THE_SYSTEM = re.compile(r"^(ld-linux|linux-vdso|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libgcc_s\.|libcuda\.|libnvidia)")
OF_CUDA = re.compile(r"^lib(cudart|cudnn|cublas|nvrtc|nvJitLink)")

RUN = """#!/bin/sh
# Runs the check; CUDA's libraries are taken from beside it, the toolkit, or Python's packages.
here=$(dirname "$(readlink -f "$0")")
places=$here/lib:/usr/local/cuda/lib64
for site in $(python3 -c 'import site; print(" ".join(site.getsitepackages()))' 2>/dev/null); do
  for folder in "$site"/nvidia/*/lib; do places=$places:$folder; done
done
LD_LIBRARY_PATH=$places${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/millrace-gpu-check" "$@"
"""


def libraries_of(path):
    """(name, path or None) of every shared library that a program loads."""
    text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+|not found))?", line)
        if match and not OF_THE_SYSTEM.match(Path(match[1]).name):
            found.append((match[1], match[2] if match[2] and match[2].startswith("/") else None))
    return found


def build(folder):
    """Everything, in `folder`; its programs' folder."""
    configure = ["cmake", "-S", SOURCE, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DMILLRACE_BENCHMARKS=ON"]
    make = ["cmake", "--build", folder, "--parallel", str(len(os.sched_getaffinity(0))), "--target", *TARGETS]
    for command in (configure, make):
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed; all of it needs nvcc, cuDNN's headers and cuBLAS here (see deploy/guide)")
    return folder / "bin"


def main():
    parser = argparse.ArgumentParser(description="pack the GPU check for a machine with a driver and nothing else")
    parser.add_argument("binaries", type=Path, nargs="?", help="where the build put its programs")
    parser.add_argument("out", type=Path, help="folder to make")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build them first, there")
    parser.add_argument("--cuda", action="store_true", help="take CUDA's libraries along, too")
    arguments = parser.parse_args()
    if (arguments.build is None) == (arguments.binaries is None):
        parser.error("give either a folder of programs or --build FOLDER, and OUT")
    if arguments.build:
        arguments.binaries = build(arguments.build)
    lib = arguments.out / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    packed = [names for names in (CHECK, RECURRENT) if all((arguments.binaries / name).exists() for name in names)]
    if not packed:
        sys.exit(f"{arguments.binaries} has neither {' and '.join(CHECK)} nor {' and '.join(RECURRENT)}; build those targets")
    for name in [name for names in packed for name in names]:
        source = arguments.binaries / name
        shutil.copy2(source, arguments.out / name)
        for library, path in libraries_of(source):
            if OF_CUDA.match(library) and not arguments.cuda:
                continue
            if path is None:
                sys.exit(f"{name} loads {library}, which is nowhere here; install it, or leave --cuda out if it is CUDA's")
            shutil.copy2(path, lib / library)
            if library.startswith("libcudnn.so"):  # loads the rest of itself by name
                for part in Path(path).parent.glob("libcudnn_*.so." + library.rsplit(".", 1)[1]):
                    shutil.copy2(part, lib / part.name)
    if CHECK in packed:
        run = arguments.out / "run.sh"
        run.write_text(RUN, encoding="utf-8")
        run.chmod(0o755)
    if RECURRENT in packed:
        shutil.copy2(SCRIPT, arguments.out / SCRIPT.name)
        (arguments.out / SCRIPT.name).chmod(0o755)
    commit = subprocess.run(["git", "-C", str(SCRIPT.parent), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    (arguments.out / "commit").write_text(commit or "unknown\n", encoding="utf-8")
    size = sum(file.stat().st_size for file in arguments.out.rglob("*") if file.is_file())
    print(f"{arguments.out}: {size / 1e6:.0f} MB; take it to the GPU and start {'run_on_gpu.sh' if RECURRENT in packed else 'run.sh'}")


if __name__ == "__main__":
    main()
