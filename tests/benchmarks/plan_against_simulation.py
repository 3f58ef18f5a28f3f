#!/usr/bin/env python3
"""What plans promise, beside what simulations of them show: images per second over whole mini-batches, updates included.

    tests/benchmarks/plan_against_simulation.py --out tests/benchmarks/results/plan_against_simulation.json [--millrace build/release/bin/millrace]
    tests/benchmarks/plan_against_simulation.py --small --millrace build/release/bin/millrace           # a minute's worth, as a test

Plans with full accounting: every CNN of the zoo on rings of 5, 15, 40 and 85 boards with mini-batches of 16, 32 and 128; the alignments
that drain; rings of boards and GPUs in both orders; deep stacks of recurrent layers on boards. Each plan is simulated with default FIFOs for six mini-batches, of which the first
two fill the pipeline and are not counted (the deep stacks for three, of which one fills it). The plan's own figure stands on a run of
shorter mini-batches (node/simulate/mini_batch_pace.h), and on exactly the mini-batch where that has 16 micro-batches or fewer; that of deep
stacks on the passage of two samples. Exit status 1 where a feasible case is off by more than its
tolerance, holds more on any device than the plan's Act-RAM, or does not run at all. Standard library alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MINI_BATCHES = 6
MINI_BATCHES_OF_DEEP = 3
CNNS = ["lenet5", "digits-cnn", "fashion-cnn", "alexnet", "alexnet-grouped", "alexnet-torch", "vgg11", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
        "googlenet", "vgg11-cifar", "vgg16-cifar", "vgg19-cifar", "resnet18-cifar"]
ALIGNMENTS = ["flush", "1f1b", "zero-bubble"]
MIXED = ["u280x1+h200x1", "u280x2+h200x1", "u280x8+h200x2", "h200x1+u280x2", "h200x2+u280x4", "u280x2+h200x1+u280x2", "h200x1+u280x4+h200x1",
         "vc709x4+h200x1", "h200x1+vc709x8", "u280x4+cpux1"]
MIXED_MODELS = ["alexnet", "resnet18", "googlenet"]
DEEP = [("residual-rnn-24", "u250x30"), ("residual-rnn-48", "u250x60"), ("residual-rnn-108", "u250x130")]
MOST = {"boards": 0.01, "drained": 0.02, "mixed": 0.02, "deep": 0.01}


KEYS = ("kind", "model", "cluster", "mini_batch", "alignment")


def write(path, rows):
    Path(path).write_text(json.dumps({"origin": "simulated, beside the plan's full accounting", "rows": rows}, indent=1) + "\n")


def run(command, seconds):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None


def measure(flags, case):
    kind, model, cluster, mini_batch, alignment = case
    row = {"kind": kind, "model": model, "cluster": cluster, "mini_batch": mini_batch, "alignment": alignment}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "plan.textproto")
        norms = ["--batch-norm", "running"] if model.startswith(("resnet", "googlenet", "residual")) else []  # boards train no others
        done = run([flags.millrace, "plan", "--model", model, *norms, "--cluster", cluster, "--mini-batch", str(mini_batch), "--alignment", alignment,
                    "--accounting", "full", "--json", "--out", path], flags.seconds)
        if done is None or done.returncode not in (0, 3):
            return {**row, "verdict": "not planned", "text": "time limit" if done is None else done.stderr.strip()}
        plan = json.loads(done.stdout)
        if not plan["feasible"]:
            return {**row, "verdict": "infeasible", "text": plan["reason"]}
        row |= {"micro_batch": plan["micro_batch"], "planned": plan["images_per_second"]}
        images = mini_batch * (MINI_BATCHES_OF_DEEP if kind == "deep" else MINI_BATCHES)
        done = run([flags.millrace, "simulate", "--plan", path, "--images", str(images), "--json"], flags.seconds)
        if done is None or done.returncode != 0:
            return {**row, "verdict": "not simulated", "text": "time limit" if done is None else done.stderr.strip()}
        seen = json.loads(done.stdout)
    row["simulated"] = seen["mini_batch_images_per_second"]
    row["difference"] = row["simulated"] / row["planned"] - 1
    held = [(d["act_ram_peak_bits"], d["act_ram_plan_bits"]) for d in seen["devices"] if d["act_ram_plan_bits"] > 0]
    row["act_ram_of_plan"] = max((peak / plan for peak, plan in held), default=0)
    row["verdict"] = "pace" if abs(row["difference"]) > MOST[kind] else "memory" if row["act_ram_of_plan"] > 1 else "holds"
    return row


def all_cases():
    for model in CNNS:
        for boards in (5, 15, 40, 85):
            for mini_batch in (16, 32, 128):
                yield ("boards", model, f"vc709x{boards}", mini_batch, "fpdeep")
    for model in CNNS:
        for boards in (5, 15, 40):
            for alignment in ALIGNMENTS:
                yield ("drained", model, f"vc709x{boards}", 32, alignment)
    for model in MIXED_MODELS:
        for cluster in MIXED:
            yield ("mixed", model, cluster, 128, "fpdeep")
    for model, cluster in DEEP:
        yield ("deep", model, cluster, 8, "fpdeep")


SMALL = [("boards", "alexnet", "vc709x15", 16, "fpdeep"), ("boards", "alexnet", "vc709x15", 64, "fpdeep"), ("boards", "resnet18", "vc709x15", 32, "fpdeep"),
         ("drained", "alexnet", "vc709x15", 32, "flush"), ("drained", "alexnet", "vc709x15", 32, "zero-bubble"),
         ("mixed", "alexnet", "u280x2+h200x1", 128, "fpdeep"), ("mixed", "alexnet", "h200x1+u280x2", 128, "fpdeep"),
         ("deep", "residual-rnn-24", "u250x30", 8, "fpdeep")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--out")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--kind", choices=list(MOST))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="of one command at most [100; with --small as long as it takes]")
    parser.add_argument("--resume", action="store_true", help="keep the rows that --out has already, and run the other cases")
    flags = parser.parse_args()
    if flags.seconds is None and not flags.small:  # a test is no faster than its machine
        flags.seconds = 100
    cases = [case for case in (SMALL if flags.small else all_cases()) if flags.kind in (None, case[0])]
    rows = json.loads(Path(flags.out).read_text())["rows"] if flags.resume else []
    known = {tuple(row[key] for key in KEYS) for row in rows}
    cases = [case for case in cases if case not in known]
    with ThreadPoolExecutor(flags.jobs) as pool:
        for row in pool.map(lambda case: measure(flags, case), cases):
            rows.append(row)
            if flags.out:
                write(flags.out, rows)
            what = f"{100 * row['difference']:+.2f}%, Act-RAM {row['act_ram_of_plan']:.2f}" if "difference" in row else row["text"][:200]
            print(f"{row['verdict']:<13} {row['model']:<16} {row['cluster']:<22} {row['mini_batch']:>4} {row['alignment']:<12} {what}", flush=True)
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in sorted({row["verdict"] for row in rows})}
    print(count)
    return 0 if set(count) <= {"holds", "infeasible"} else 1


if __name__ == "__main__":
    sys.exit(main())
