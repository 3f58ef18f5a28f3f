#!/usr/bin/env python3
"""Training in the engine's 16 bits beside fp32: test accuracy over seeds, and what did not fit.

    tests/benchmarks/fixed_point.py [--millrace build/release/bin/millrace] [--models digits-cnn,lenet5] [--epochs 6]
        [--out tests/benchmarks/results/fixed_point.json]

Each model trains on the shipped digits from three seeds: in fp32 on the CPU engine, in 16 bits with the engine's own formats, and
in 16 bits with formats calibrated over ten updates. The goal is a mean accuracy of 16 bits within one point of fp32. Also trains
16 bits over a ring of two emulated devices as one and as two processes: the weights must be the same bits, calibrated alike.
Prints a table and writes JSON; ends with 1 when a goal is missed. Standard library alone; a run that is recorded in --out with the
same arguments by the same program is not repeated.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)
UPDATES = 10
WAYS = {"fp32": ["--cluster", "cpu"], "fixed16": ["--cluster", "emulated-fpga"],
        "fixed16-calibrated": ["--cluster", "emulated-fpga", "--calibrate", str(UPDATES)]}


def train(millrace, arguments, launch=()):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        command = [*launch, millrace, "train", "--json", "--data", "digits", "--evaluate-every", "0", "--out", str(out), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        last = [record for record in map(json.loads, done.stdout.splitlines()) if record["event"] == "done"][-1]
        found = {"accuracy": last["accuracy"], "loss": last["loss"], "seconds": round(last["seconds"], 1),
                 "weights_digest": last["weights_digest"]}
        if (out / "arithmetic.json").exists():
            numbers = json.loads((out / "arithmetic.json").read_text())
            found["elements"], found["saturated"] = numbers["elements"], numbers["saturated"]
            found["accumulator_overflows"] = numbers["accumulator_overflows"]
            found["saturated_in"] = [f'{one["saturated"]} {one["tensor"]} of {one["layer"]}' for one in numbers["tensors"] if one["saturated"]]
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--models", default="digits-cnn,lenet5")
    parser.add_argument("--epochs", default="6")
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/fixed_point.json"))
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    program = hashlib.sha256(pathlib.Path(options.millrace).read_bytes()).hexdigest()
    known = json.loads(out.read_text()) if out.exists() else {}
    runs = known.get("runs", []) if known.get("program_sha256") == program else []
    rings = known.get("rings", []) if known.get("program_sha256") == program else []

    def keep():
        out.write_text(json.dumps({
            "what": "16 bits fixed point beside fp32 on the digits, measured", "command": "tests/benchmarks/fixed_point.py",
            "program_sha256": program, "commit": subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "HEAD"], capture_output=True,
                                                                text=True, check=False).stdout.strip(),
            "summary": summary(), "runs": runs, "rings": rings}, indent=1) + "\n")

    def summary():
        lines = []
        for model in dict.fromkeys(run["model"] for run in runs):
            mean = {}
            for way in WAYS:
                all_seeds = [run for run in runs if run["model"] == model and run["way"] == way]
                if len(all_seeds) == len(SEEDS):
                    mean[way] = sum(run["accuracy"] for run in all_seeds) / len(SEEDS)
            lines += [{"model": model, "way": way, "mean_accuracy_percent": round(100 * mean[way], 2),
                       "points_below_fp32": round(100 * (mean["fp32"] - mean[way]), 2)} for way in mean if "fp32" in mean]
        return lines

    for model in options.models.split(","):
        for seed in SEEDS:
            for way, arguments in WAYS.items():
                asked = {"model": model, "way": way, "seed": seed, "epochs": options.epochs}
                if any(all(run[key] == asked[key] for key in asked) for run in runs):
                    continue
                found = train(options.millrace, ["--model", model, "--epochs", options.epochs, "--seed", str(seed), *arguments])
                runs.append({**asked, **found})
                print(f"{model:<12}{way:<20}seed {seed}: {100 * found['accuracy']:6.2f}%  {found['seconds']:7.1f} s"
                      f"  {found.get('saturated', 0)} of {found.get('elements', 0)} saturated", flush=True)
                keep()
    if not rings:
        arguments = ["--model", "digits-cnn", "--steps", "20", "--cluster", "emulated-fpgax2", "--alignment", "fpdeep", "--calibrate",
                     str(UPDATES)]
        for ranks in (1, 2):
            launch = () if ranks == 1 else ("mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks))
            rings.append({"ranks": ranks, "arguments": " ".join(arguments), **train(options.millrace, arguments, launch)})
        keep()
    same = len({ring["weights_digest"] for ring in rings}) == 1
    print(f"a ring of two emulated devices on 1 and 2 ranks: {'the same' if same else 'DIFFERENT'} weights")
    good = same
    for line in summary():
        print(f"{line['model']:<12}{line['way']:<20}{line['mean_accuracy_percent']:6.2f}%  {line['points_below_fp32']:+.2f} points below fp32")
        good = good and line["points_below_fp32"] <= 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
