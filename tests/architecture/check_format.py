"""check_format.py ROOT [CLANG_FORMAT]: every source is as clang-format 14 writes it. Exits 77 (skipped) without that version:
others format differently."""

import subprocess
import sys
from pathlib import Path

import rules

SKIPPED = 77

root = Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else ""
if not program or " 14." not in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout:
    print("skipped: there is no clang-format 14 here; the Debian package clang-format-14 brings it")
    sys.exit(SKIPPED)

files = [str(path) for path in rules.sources(root)]
result = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True, check=False)
complaints = [line for line in result.stderr.splitlines() if "error:" in line]
for line in complaints:
    print(line)
print(f"{len(files)} files, {len(complaints)} places to format; `clang-format -i` on the file mends it")
sys.exit(1 if result.returncode else 0)
