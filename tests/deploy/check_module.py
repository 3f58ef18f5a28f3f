"""check_module.py PREFIX NETWORK: the installed command reads a Keras file with the module of the prefix; without it says what is missing and
what to do, with exit status 1, and does all else. A copy is tried, so the prefix stays as it is."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

prefix, network = Path(sys.argv[1]), sys.argv[2]
module = next(prefix.rglob("libmillrace_hdf5.so"))
wrong = []


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    copy = Path(name)
    (copy / "bin").mkdir()
    (copy / "lib" / "millrace").mkdir(parents=True)
    command = shutil.copy2(prefix / "bin" / "millrace", copy / "bin")
    beside = copy / "lib" / "millrace" / module.name
    shutil.copy2(module, beside)
    asked = ("import", "--keras", network, "--out", copy / "net")
    if run(command, *asked)[0] != 0:
        wrong.append("the module in ../lib/millrace was not used")
    beside.write_text("no library")
    status, words = run(command, *asked)
    if status != 1 or "cannot be loaded" not in words:
        wrong.append(f"with a damaged module: {status}, {words}")
    beside.unlink()
    status, words = run(command, *asked)
    if status == 0:  # where this build was installed to, there is another
        print("the module of an install was found; its absence cannot be tried")
    elif status != 1 or f"{module.name} is not beside the program; install Millrace anew" not in words:
        wrong.append(f"without the module: {status}, {words}")
    if run(command, "plan", "--model", "lenet5", "--cluster", "cpux2")[0] != 0:
        wrong.append("what reads no HDF5 needs the module")
for one in wrong:
    print(f"FAILED: {one}")
sys.exit(1 if wrong else 0)
