#!/usr/bin/env python3
"""Every zoo model on 40 clusters: what the planner finds with FPDeep's accounting, beside what an earlier one found.

    tests/benchmarks/planning_zoo.py --out now.csv [--millrace build/release/bin/millrace] [--seconds 40]
    tests/benchmarks/planning_zoo.py --join before.csv now.csv --out tests/benchmarks/results/planning_zoo.csv

The first form plans; a case that takes longer than the limit says so. The second joins two such tables by case, and ends with exit
status 1 where a case became infeasible or slower by more than a millionth. Standard library alone.

results/planning_zoo.csv compares the planner that rules out by one probe what cannot be faster with the one that first searched cuts and homes
together; cases that the earlier table did not have say so. Rings of boards are as fast or faster, all of them. What became slower are rings
with processors, whose cost model has measured rates of convolutions, and what a message costs, since then.
"""

import argparse
import csv
import json
import subprocess
import sys

CLUSTERS = [f"vc709x{n}" for n in (1, 2, 3, 5, 6, 7, 8, 10, 12, 15, 17, 25, 40, 85, 100)]
CLUSTERS += [f"zc706x{n}" for n in (2, 5, 10, 16, 17, 20, 40)]
CLUSTERS += [f"u280x{n}" for n in (1, 2, 4, 8, 16)]
CLUSTERS += [f"h200x{n}" for n in (1, 2, 4, 8)]
CLUSTERS += ["cpux2", "cpux4", "vc709x8+zc706", "vc709x10+zc706", "vc709x25+zc706"]
CLUSTERS += ["u280x2+h200x1", "u280x8+h200x2", "vc709x10+cpu", "u280x8+vc709x4"]


def models_of(millrace):
    lines = subprocess.run([millrace, "models"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines[2:] if line and not line.startswith("`")]


def planned(millrace, model, cluster, seconds):
    command = [millrace, "plan", "--model", model, "--cluster", cluster, "--accounting", "fpdeep", "--json"]
    if model.startswith(("resnet", "googlenet", "deepspeech2")):  # boards take no other batch norms
        command += ["--batch-norm", "running"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return ["", "", "", "longer than the limit"]
    answer = json.loads(result.stdout)
    return [int(answer["feasible"]), f'{answer["images_per_second"]:.6g}', f'{answer["optimality_gap"]:.3g}', answer["reason"]]


def plan_all(flags):
    with open(flags.out, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "cluster", "feasible", "images_per_second", "gap", "reason"])
        for model in models_of(flags.millrace):
            for cluster in CLUSTERS:
                table.writerow([model, cluster, *planned(flags.millrace, model, cluster, flags.seconds)])
                file.flush()


def join(flags):
    before, now = ({(row["model"], row["cluster"]): row for row in csv.DictReader(open(path, newline=""))} for path in flags.join)
    worse = []
    with open(flags.out, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "cluster", "before", "now", "gap now"])
        for case, row in now.items():
            was = before.get(case, {"feasible": "not planned"})
            known = was["feasible"] in ("0", "1") and row["feasible"] in ("0", "1")
            words = {"0": "infeasible", "": "not decided in time"}
            rates = [r["images_per_second"] if r["feasible"] == "1" else words.get(r["feasible"], r["feasible"]) for r in (was, row)]
            table.writerow([*case, *rates, row["gap"] if row["feasible"] == "1" else ""])
            if known and float(row["images_per_second"]) < float(was["images_per_second"]) * (1 - 1e-6):
                worse.append((case, rates))
    for case, rates in worse:
        print(f"worse: {case[0]} on {case[1]}: {rates[0]}, now {rates[1]}")
    return 1 if worse else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--join", nargs=2, metavar=("BEFORE", "NOW"))
    flags = parser.parse_args()
    if flags.join:
        return join(flags)
    plan_all(flags)
    return 0


if __name__ == "__main__":
    sys.exit(main())
