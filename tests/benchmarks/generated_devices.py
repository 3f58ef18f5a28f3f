#!/usr/bin/env python3
"""Which devices of the zoo's convolutional networks become hardware: `millrace plan`, then `millrace rtl --check` for every plan.

    tests/benchmarks/generated_devices.py [--millrace build/release/bin/millrace] [--seconds 240] [--accounting full|fpdeep]
        [--models alexnet,vgg16] [--clusters vc709x15] [--out tests/benchmarks/results/generated_devices.json]

Batch norms have RUNNING statistics. All figures are modelled: `as_planned` counts the generated devices whose multipliers are the planned
ones in every phase, `planned_ms` and `built_ms` are of the slowest device, per image; `waiting_outside` counts
devices where something waits for errors in the board's own memory. A plan that takes longer than so many seconds, or is
refused, is listed with its reason. Ends with 1 when a command fails in another way. Standard library alone.
generated_pace.json is of `--accounting fpdeep`.
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


def checked(millrace, model, cluster, folder, seconds, accounting):
    plan = folder / "plan.textproto"
    row = {"model": model, "cluster": cluster}
    norms = ["--batch-norm", "running"] if model.startswith(("resnet", "googlenet")) else []  # which have batch norms
    words = [millrace, "plan", "--model", model, "--cluster", cluster, *norms, "--accounting", accounting, "--out", str(plan)]
    planned = run(words, seconds)
    if planned is None:
        return {**row, "planned": False, "reason": f"the planner took more than {seconds} s"}
    if planned.returncode != 0:
        if planned.returncode > 3:
            sys.exit(f"plan {model} {cluster}: status {planned.returncode}\n{planned.stderr}")
        return {**row, "planned": False, "reason": planned.stderr.strip().splitlines()[-1]}
    check = run([millrace, "rtl", "--plan", str(plan), "--check", "--json"], seconds)
    if check is None:
        return {**row, "planned": True, "reason": f"the check took more than {seconds} s"}
    if not check.stdout:
        return {**row, "planned": True, "reason": check.stderr.strip().splitlines()[-1]}
    found = json.loads(check.stdout)
    devices = found["devices"]
    computing = [device for device in devices if device["reason"] != "it computes nothing in this plan"]
    reasons = collections.Counter(why(device["reason"]) for device in computing if not device["generated"])
    row.update({"planned": True, "devices": len(computing), "generated": sum(device["generated"] for device in computing),
                "as_planned": sum(device["generated"] and device["planned_multipliers"] == device["built_multipliers"]
                                  for device in computing),
                "too_large": sum(device["generated"] and not device["fits"] for device in computing), "pace_ratio": found["pace_ratio"],
                "waiting_pace_ratio": found["waiting_pace_ratio"],
                "waiting_outside": sum(bool(device["waits_off_chip"]["memories"]) for device in computing),
                "planned_ms": round(1e3 * max((device["planned_seconds"] for device in computing), default=0), 6),
                "built_ms": round(1e3 * max((device["built_seconds"] for device in computing), default=0), 6),
                "streaming": sum(device["weights_off_chip"]["streamed"] != "" for device in computing),
                "not_generated_because": dict(reasons.most_common())})
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--accounting", choices=("full", "fpdeep"), default="full")
    parser.add_argument("--models", default=",".join(CNNS))
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/generated_devices.json"))
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            for cluster in options.clusters.split(","):
                rows.append(checked(options.millrace, model, cluster, pathlib.Path(folder), options.seconds, options.accounting))
                print(json.dumps(rows[-1]), flush=True)
    commit = subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {"what": "devices generated of all, for the zoo's convolutional networks, batch norms with RUNNING statistics",
              "command": f"millrace plan --model M --cluster C [--batch-norm running] --accounting {options.accounting} --out P; "
                         "millrace rtl --plan P --check --json",
              "origin": "modelled", "accounting": options.accounting, "commit": commit, "plans": rows}
    temporary = options.out + ".part"
    pathlib.Path(temporary).write_text(json.dumps(result, indent=1) + "\n")
    os.replace(temporary, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
