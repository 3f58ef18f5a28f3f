#!/usr/bin/env python3
"""What plans promise of rings of processors, beside what training reaches: is the choice between them right?

  tests/benchmarks/plan_against_training.py [--micro-batches 1,4,8,32] [--json plan_against_training.json]

VGG-16 for CIFAR on the two cores of this machine, one thread each, mini-batches of 128, planned with this machine's own rates (`millrace
doctor --measure`, at micro-batches of 1, 8 and 32). For every way to use them, one ring of two devices by flush, zero-bubble and fpdeep and two rings of
one device side by side, each at several micro-batches: what `millrace plan` promises (modelled), and what `mpirun -n 2 millrace train
--dry-run` of that plan reaches (measured, the best of the runs). And what `plan` chooses by itself for each alignment, with its place among them.
The ranks share nothing but the machine, so nothing else should run on it: beside other work the measured column is too low. Gates nothing.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
MINI_BATCH = 128


def output(command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT).stdout


def planned(binary, rates, alignment, plan, more):
    """Images per second as promised, and rings side by side, micro-batch."""
    command = [binary, "--log-level", "error", "plan", "--model", "vgg16-cifar", "--cluster", "cpux2", "--catalogue", rates, "--mini-batch", str(MINI_BATCH), "--alignment", alignment,
               "--out", str(plan), "--json", *more]
    report = json.loads(output(command))
    return report["images_per_second"], report.get("replicas", 1), report["micro_batch"]


def trained(binary, plan, runs):
    command = ["mpirun", "-n", "2", "--bind-to", "none", binary, "--no-progress", "--log-level", "error", "train", "--plan", str(plan), "--data",
               "synthetic:3x32x32:10:512", "--learning-rate", "0.0001", "--dry-run", "--json"]
    return max(MINI_BATCH / json.loads(output(command).strip().splitlines()[-1])["seconds_per_update"] for _ in range(runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--alignments", default="flush,zero-bubble,fpdeep")
    parser.add_argument("--micro-batches", default="1,4,8,32")
    parser.add_argument("--measured-at", default="1,8,32", help="micro-batches that doctor measures")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--machine", default="", help="what it is, for the JSON")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows, choices = [], []
    with tempfile.TemporaryDirectory() as scratch:
        rates, plan = str(pathlib.Path(scratch) / "rates.textproto"), pathlib.Path(scratch) / "plan.textproto"
        output([arguments.millrace, "doctor", "--measure", "--model", "vgg16-cifar", "--micro-batch", arguments.measured_at, "--catalogue-out", rates])
        sizes = [int(size) for size in arguments.micro_batches.split(",")]
        ways = [(alignment, 1, size) for alignment in arguments.alignments.split(",") for size in sizes]
        ways += [("flush", 2, size) for size in sizes]
        print("alignment, rings side by side, micro-batch: images/s promised, measured, promised / measured")
        for alignment, replicas, size in ways:
            more = ["--replicas", str(replicas), "--micro-batch", str(size)]
            promised, _, _ = planned(arguments.millrace, rates, alignment, plan, more)
            measured = trained(arguments.millrace, plan, arguments.runs)
            rows.append({"alignment": alignment, "rings": replicas, "micro_batch": size, "promised": round(promised, 1), "measured": round(measured, 1),
                         "ratio": round(promised / measured, 3)})
            print(f"{alignment:>12} {replicas} {size:>3}: {promised:6.1f} {measured:6.1f} {promised / measured:.2f}", flush=True)
        for alignment in arguments.alignments.split(","):
            promised, replicas, size = planned(arguments.millrace, rates, alignment, plan, [])
            measured = trained(arguments.millrace, plan, arguments.runs)
            of_others = [row["measured"] for row in rows if row["alignment"] == alignment or row["rings"] > 1]
            choices.append({"alignment": alignment, "rings": replicas, "micro_batch": size, "promised": round(promised, 1), "measured": round(measured, 1),
                            "of_the_best_measured": round(measured / max([measured, *of_others]), 3)})
            print(f"chosen for {alignment}: {replicas} ring(s), micro-batch {size}: {promised:.1f} promised, {measured:.1f} measured, "
                  f"{choices[-1]['of_the_best_measured']:.2f} of the best", flush=True)
    if arguments.json:
        commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
        document = {"command": "tests/benchmarks/plan_against_training.py", "commit": commit, "origin": "promised: modelled; measured: measured",
                    "machine": arguments.machine, "load_at_the_end": os.getloadavg()[0], "mini_batch": MINI_BATCH, "rows": rows, "choices": choices}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
