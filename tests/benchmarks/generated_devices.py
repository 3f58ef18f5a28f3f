#!/usr/bin/env python3
"""Which devices of the zoo's convolutional networks become hardware: `millrace plan`, then `millrace rtl --check` for every plan.

    tests/benchmarks/generated_devices.py [--millrace build/release/bin/millrace] [--seconds 240]
        [--out tests/benchmarks/results/generated_devices.json]

Batch norms have RUNNING statistics. All figures are modelled; a plan that takes longer than so many seconds, or is refused, is listed
with its reason. Ends with 1 when a command fails in another way. Standard library alone.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CNNS = ("digits-cnn", "fashion-cnn", "lenet5", "alexnet", "alexnet-grouped", "alexnet-torch", "vgg11", "vgg16", "vgg19", "vgg11-cifar",
        "vgg16-cifar", "vgg19-cifar", "resnet18-cifar", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "googlenet")
CLUSTERS = ("vc709x15", "vc709x40", "u280x8")


def run(command, seconds):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def why(reason):
    """The layer is named elsewhere."""
    return re.sub(r"^layer \S+: ", "", reason).split("; ")[0]


def checked(millrace, model, cluster, folder, seconds):
    plan = folder / "plan.textproto"
    row = {"model": model, "cluster": cluster}
    norms = ["--batch-norm", "running"] if model.startswith(("resnet", "googlenet")) else []  # which have batch norms
    planned = run([millrace, "plan", "--model", model, "--cluster", cluster, *norms, "--out", str(plan)], seconds)
    if planned is None:
        return {**row, "planned": False, "reason": f"the planner took more than {seconds} s"}
    if planned.returncode != 0:
        if planned.returncode > 3:
            sys.exit(f"plan {model} {cluster}: status {planned.returncode}\n{planned.stderr}")
        return {**row, "planned": False, "reason": planned.stderr.strip().splitlines()[-1]}
    check = run([millrace, "rtl", "--plan", str(plan), "--check", "--json"], seconds)
    if check is None:
        return {**row, "planned": True, "reason": f"the check took more than {seconds} s"}
    found = json.loads(check.stdout)
    devices = found["devices"]
    computing = [device for device in devices if device["reason"] != "it computes nothing in this plan"]
    reasons = collections.Counter(why(device["reason"]) for device in computing if not device["generated"])
    row.update({"planned": True, "devices": len(computing), "generated": sum(device["generated"] for device in computing),
                "too_large": sum(device["generated"] and not device["fits"] for device in computing), "pace_ratio": found["pace_ratio"],
                "not_generated_because": dict(reasons.most_common())})
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/generated_devices.json"))
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in CNNS:
            for cluster in CLUSTERS:
                rows.append(checked(options.millrace, model, cluster, pathlib.Path(folder), options.seconds))
                print(json.dumps(rows[-1]), flush=True)
    commit = subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {"what": "devices generated of all, for the zoo's convolutional networks, batch norms with RUNNING statistics",
              "command": "millrace plan --model M --cluster C [--batch-norm running] --out P; millrace rtl --plan P --check --json",
              "origin": "modelled", "commit": commit, "plans": rows}
    temporary = options.out + ".part"
    pathlib.Path(temporary).write_text(json.dumps(result, indent=1) + "\n")
    os.replace(temporary, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
