"""Every figure of FPDeep's text against the plans of the shipped VC709, from the study that people run.

    python3 command_test.py MILLRACE PAGES
"""

import json
import pathlib
import shutil
import subprocess
import sys

CONTRADICTIONS = {"hours", "memory_32", "on_chip_32", "memory_5", "linear_250"}


def problems_of(rows):
    found = []
    for row in rows:
        name = f'{row["quantity"]}, {row["network"]}'
        if row["verdict"] not in ("holds", "reported", "paper contradicts itself"):
            found.append(f'{name}: {row["verdict"]}: {row["model"]}, accepted {row["tolerance"]}; {row["note"]}')
        least, most = row["tolerance"] or (None, None)
        outside = (least is not None and row["model"] < least) or (most is not None and row["model"] > most)
        if row["verdict"] == "holds" and outside:
            found.append(f'{name}: {row["model"]} is called within {row["tolerance"]}')
        if not row["constants"]:
            found.append(f"{name}: where its constants come from is missing")
        if row["id"] == "on_chip_32" and not ("Mb of on-chip memory" in row["note"] and "device " in row["note"]):
            found.append(f'{name}: the bits missing are not named: {row["note"]}')
    contradicting = {row["id"] for row in rows if row["verdict"] == "paper contradicts itself"}
    if contradicting != CONTRADICTIONS:
        found.append(f"the paper contradicts itself in {sorted(contradicting)}, expected {sorted(CONTRADICTIONS)}")
    return found


def main(millrace, pages):
    shutil.rmtree(pages, ignore_errors=True)
    command = [millrace, "--no-progress", "study", "--paper", "fpdeep", "--out", pages]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = json.loads((pathlib.Path(pages) / "study.json").read_text())["rows"]
    found = problems_of(rows)
    if "not reproduced: 0," not in said:
        found.append(f"the last line says otherwise: {said.splitlines()[-1]}")
    if len(rows) < 80:
        found.append(f"only {len(rows)} rows")
    print("\n".join(found) if found else f"{len(rows)} rows as the paper has them, or as it contradicts itself")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
