"""check_headers.py PREFIX SOURCE: the installed headers are the public ones, and all that they include is there.

A header that says "Internal to <its folder>" where it opens is not for users (deploy/cmake/install_headers.cmake); which headers say so,
tests/architecture/rules.py decides."""

import re
import sys
from pathlib import Path

prefix, source = Path(sys.argv[1]) / "include/millrace", Path(sys.argv[2])
installed = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*.h")}
failures = []
for name in sorted(installed):
    text = (prefix / name).read_text(encoding="utf-8")
    if "nternal to" in " ".join(text.split("#pragma once")[0].replace("//", " ").split()):
        failures.append(f"{name} is internal, and installed")
    for other in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE):
        if other not in installed:
            failures.append(f"{name} includes {other}, which is not installed")
for example in sorted((source / "deploy/examples").glob("*.cpp")):
    for other in re.findall(r'^#include "([^"]+)"', example.read_text(encoding="utf-8"), re.MULTILINE):
        if other not in installed:
            failures.append(f"{example.name} includes {other}, which is not installed")
print(f"{len(installed)} headers, {len(failures)} failures")
print("\n".join(failures))
sys.exit(1 if failures or not installed else 0)
