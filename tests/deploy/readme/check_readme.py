#!/usr/bin/env python3
"""README.md is short, the pictures of README and guide are shown and well formed, and the timeline is what its script draws.

  tests/deploy/readme/check_readme.py SOURCE_FOLDER
"""
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

MOST_LINES = 200


def main(root):
    problems = []
    readme = (root / "README.md").read_text(encoding="utf-8")
    if readme.count("\n") > MOST_LINES:
        problems.append(f"README.md has {readme.count(chr(10))} lines, more than {MOST_LINES}: the rest belongs into deploy/guide")
    shown = readme + "".join(page.read_text(encoding="utf-8") for page in sorted((root / "deploy/guide").glob("*.md")))
    pictures = root / "deploy/pictures"
    for picture in sorted(pictures.glob("*.svg")):
        xml.etree.ElementTree.parse(picture)
        text = picture.read_text(encoding="utf-8")
        if re.search(r"(href|src|url)\s*[=(]\s*[\"']?(https?:|data:)", text):
            problems.append(f"{picture.name} refers to something outside itself")
        if f"pictures/{picture.name})" not in shown:
            problems.append(f"neither README.md nor the guide shows {picture.name}")
    with open(pictures / "schedules.txt", encoding="utf-8") as lists:
        drawn = subprocess.run([sys.executable, "-B", pictures / "draw_schedules.py"], stdin=lists, capture_output=True, text=True, check=True)
    if drawn.stdout != (pictures / "schedules.svg").read_text(encoding="utf-8"):
        problems.append("schedules.svg is not what draw_schedules.py makes of schedules.txt; its docstring says how to draw it")
    print("\n".join(problems) or f"README.md has {readme.count(chr(10))} lines; its pictures are there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
