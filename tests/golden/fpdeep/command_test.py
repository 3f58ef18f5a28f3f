"""Every figure of FPDeep's text against the plans of the shipped VC709, from the study that people run.

    python3 command_test.py MILLRACE PAGES
"""

import json
import pathlib
import shutil
import subprocess
import sys

CONTRADICTIONS = {"hours", "memory_32", "on_chip_32", "memory_5", "linear_250"}
# Of six pairs of strategies one is the other way round in each, which no tolerance hides.
OTHERWISE = {
    "rank_flops": "layer before data",
    "rank_storage": "hybrid before layer",
    "rank_footprint": "hybrid before layer",
    "rank_bandwidth": "hybrid before layer",
}
# What rows rest on that no catalogue has.
RULES = {"linear_tolerance": 0.001, "fully_connected_delay": 0.4, "link_latency": 0.5, "rate_of_hours": 0.82}


def problems_of(rows):
    found = []
    for row in rows:
        name = f'{row["quantity"]}, {row["network"]}'
        if row["id"] in OTHERWISE:
            known = f'not so: {OTHERWISE[row["id"]]}'
            if row["verdict"] != "not reproduced" or not row["note"].endswith(known) or not row["otherwise"]:
                found.append(f'{name}: {row["verdict"]}; {row["note"]}; {row["otherwise"]}; expected "{known}"')
        elif row["verdict"] not in ("holds", "reported", "paper contradicts itself"):
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
    # The memory of the paper's formulas, and what plans count beside it.
    memory = {(row["id"], row["network"]): row["model"] for row in rows}
    for network in ("alexnet", "vgg16", "vgg19"):
        if not memory["bram_plan", network] > memory["bram_balanced", network]:
            found.append(f"{network}: the plan's own memory is no more than that of FPDeep's formulas")
    return found


def problems_of_rules(study, said):
    found = []
    constants = {constant["name"]: constant["value"] for constant in study["constants"]}
    for name, value in RULES.items():
        if constants.get(name) != value:
            found.append(f"{name} is {constants.get(name)}, expected {value}")
        if not any(line.startswith(name + " ") for line in said.splitlines()):
            found.append(f"{name} is not in the table")
    if "FPDeep's formulas" not in study["memory_model"] or study["memory_model"] not in said:
        found.append(f'which memory the rows have is not said: {study["memory_model"]}')
    if study["accounting"] != "fpdeep" or "fpdeep accounting" not in said:
        found.append("the accounting is not said")
    return found


def main(millrace, pages):
    shutil.rmtree(pages, ignore_errors=True)
    command = [millrace, "--no-progress", "study", "--paper", "fpdeep", "--out", pages]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    study = json.loads((pathlib.Path(pages) / "study.json").read_text())
    rows = study["rows"]
    found = problems_of(rows) + problems_of_rules(study, said)
    if f"not reproduced: {len(OTHERWISE)}," not in said:
        found.append(f"the last line says otherwise: {said.splitlines()[-1]}")
    if len(rows) < 80:
        found.append(f"only {len(rows)} rows")
    print("\n".join(found) if found else f"{len(rows)} rows as the paper has them, or as it contradicts itself")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
