"""check_needed.py PROGRAM [MODULE]: what PROGRAM must have in order to start holds no library of accelerators or boards; MODULE, loaded
when it is wanted, does need NCCL, or this check would see nothing. Exits 77 (skipped) without readelf (binutils)."""

import re
import shutil
import subprocess
import sys

SKIPPED = 77
ACCELERATORS = re.compile(r"lib(nccl|cuda|cudart|cudnn|cublas|nvrtc|xrt|xilinxopencl)", re.IGNORECASE)


def needed_by(path):
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


if shutil.which("readelf") is None:
    print("skipped: there is no readelf here; the Debian package binutils brings it")
    sys.exit(SKIPPED)
needed = needed_by(sys.argv[1])
wrong = [name for name in needed if ACCELERATORS.search(name)]
print(f"{sys.argv[1]} needs {', '.join(needed)}")
if wrong:
    print(f"FAILED: {', '.join(wrong)} must be loaded when it is wanted, by a module")
if len(sys.argv) > 2 and not any("nccl" in name for name in needed_by(sys.argv[2])):
    print(f"FAILED: {sys.argv[2]} needs no NCCL")
    wrong.append(sys.argv[2])
sys.exit(1 if wrong else 0)
