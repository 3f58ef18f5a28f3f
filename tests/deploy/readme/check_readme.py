#!/usr/bin/env python3
"""Every path that README.md links to exists, its pictures are well formed, and the timeline is what its script draws.

  tests/deploy/readme/check_readme.py SOURCE_FOLDER
"""
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree


def main(root):
    problems = []
    readme = (root / "README.md").read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)\)", readme) if "://" not in target]
    scripts = re.findall(r"(?:deploy|tests)/[\w/]+\.(?:sh|py)", readme)
    headers = re.findall(r"core/[\w/]+\.(?:h|proto)", readme)
    for path in sorted(set(targets + scripts + headers)):
        if not (root / path).exists():
            problems.append(f"README.md names {path}, which does not exist")
    pictures = root / "deploy/pictures"
    for picture in sorted(pictures.glob("*.svg")):
        xml.etree.ElementTree.parse(picture)
        text = picture.read_text(encoding="utf-8")
        if re.search(r"(href|src|url)\s*[=(]\s*[\"']?(https?:|data:)", text):
            problems.append(f"{picture.name} refers to something outside itself")
        if f"deploy/pictures/{picture.name}" not in readme:
            problems.append(f"README.md does not show {picture.name}")
    with open(pictures / "schedules.txt", encoding="utf-8") as lists:
        drawn = subprocess.run([sys.executable, "-B", pictures / "draw_schedules.py"], stdin=lists, capture_output=True, text=True, check=True)
    if drawn.stdout != (pictures / "schedules.svg").read_text(encoding="utf-8"):
        problems.append("schedules.svg is not what draw_schedules.py makes of schedules.txt; its docstring says how to draw it")
    print("\n".join(problems) or f"{len(targets)} links, {len(scripts)} scripts, {len(headers)} headers: all there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
