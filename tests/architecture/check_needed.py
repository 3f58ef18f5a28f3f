"""check_needed.py PROGRAM [LIBRARY=MODULE]...: what PROGRAM must have in order to start holds no library of accelerators or boards, and not
HDF5's, which takes longer to load than most commands to run; each MODULE, loaded when it is wanted, does need its LIBRARY (nccl, hdf5), or
this check would see nothing. Exits 77 (skipped) without readelf (binutils)."""

import re
import shutil
import subprocess
import sys

SKIPPED = 77
WHEN_WANTED = re.compile(r"lib(nccl|cuda|cudart|cudnn|cublas|nvrtc|xrt|xilinxopencl|hdf5)", re.IGNORECASE)


def needed_by(path):
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


if shutil.which("readelf") is None:
    print("skipped: there is no readelf here; the Debian package binutils brings it")
    sys.exit(SKIPPED)
needed = needed_by(sys.argv[1])
wrong = [name for name in needed if WHEN_WANTED.search(name)]
print(f"{sys.argv[1]} needs {', '.join(needed)}")
if wrong:
    print(f"FAILED: {', '.join(wrong)} must be loaded when it is wanted, by a module")
for argument in sys.argv[2:]:
    library, module = argument.split("=", 1)
    if not any(library in name for name in needed_by(module)):
        print(f"FAILED: {module} does not need {library}")
        wrong.append(module)
sys.exit(1 if wrong else 0)
