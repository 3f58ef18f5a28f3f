#!/usr/bin/env python3
"""Deep recurrent stacks on rings: the networks of Persistent RNNs planned and simulated, and a small one trained on eight devices.

  tests/benchmarks/deep_stacks.py --millrace build/release/bin/millrace --results tests/benchmarks/results/deep_stacks.json

  planned   residual-rnn-24, -48 and -108 on GPUs, on boards, and on pairs of a GPU and a board that the ring visits once for each layer, and
            what a simulation makes of each plan; batch norms with running statistics. Both modelled. (All places of 108 layers take 16 GiB
            and a little of a GPU, which is more than a P100 has.)
  trained   24 ReLU layers of 48, a shortcut every four, on one device and on eight (eight ranks of MPI, layers divided where the planner
            cuts): the losses of every step and test beside each other.

With --only the other part of --results stays as it is.
Exit status 1: a plan is infeasible, a simulation is more than 2% away from it, or a loss of the eight is more than 2% away from the one's.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from recurrent_learning import stack

RINGS = {24: ("v100x8", "u250x30", "p100+vu9p~24"), 48: ("v100x16", "u250x60", "p100+vu9p~48"), 108: ("v100x36", "u250x130", "a100+vu9p~108")}
TRAINING = ("--data ctc:5:8:2000 --optimizer nesterov --learning-rate 0.01 --clip-norm 5 --mini-batch 20 --micro-batch 5 --alignment flush "
            "--epochs 6 --seed 1").split()
DEVICES = 8


def command(flags, *arguments):
    return json.loads(subprocess.run([flags.millrace, "--log-level", "off", *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)


def planned(flags, folder, layers, cluster):
    kind = ["--strategy", "kind", "--bits", "32", "--alignment", "flush"] if "~" in cluster else []
    plan_file = str(pathlib.Path(folder) / f"{layers}.textproto")
    arguments = ["plan", "--model", f"residual-rnn-{layers}", "--cluster", cluster, "--batch-norm", "running", "--mini-batch", "8", "--micro-batch", "1", *kind]
    started = time.monotonic()
    plan = command(flags, *arguments, "--out", plan_file)
    seconds = time.monotonic() - started
    run = command(flags, "simulate", "--plan", plan_file)
    rings = plan.get("replicas") or 1  # side by side: the plan's rate is that of all, a simulation's of one
    whole = run.get("mini_batch_images_per_second")  # of a plan that counts updates
    rate = rings * (whole if whole else run["images_per_second"])
    row = {"command": "millrace " + " ".join(arguments), "rings": rings, "places": len(plan["devices"]), "planned_utterances_per_second": plan["images_per_second"],
           "simulated_utterances_per_second": rate, "simulated_over_planned": rate / plan["images_per_second"],
           "idle": plan.get("idle_fraction"), "planning_seconds": round(seconds, 2)}
    if plan.get("seats"):
        row["cards"] = [{"device": seat["device"], "places": len(seat["places"]), "idle": seat["idle_fraction"]} for seat in plan["seats"]]
    return row


def trained(flags, folder, model, devices):
    out = pathlib.Path(folder) / f"on_{devices}"
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    launch = ["mpirun", "-n", str(devices), "--oversubscribe"] if devices > 1 else []
    arguments = ["train", "--model", model, "--cluster", f"cpux{devices}", *TRAINING]
    done = subprocess.run([*launch, flags.millrace, "--no-progress", *arguments, "--out", str(out), "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, env=environment, check=True)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"command": "millrace " + " ".join(arguments).replace(model, "stack-24"), "ranks": devices,
            "curve": [[r["epoch"], r["loss"]] for r in records if r["event"] == "step"],
            "tests": [[r["epoch"], r["loss"], r["accuracy"]] for r in records if r["event"] == "evaluation"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--only", choices=("planned", "trained"))
    parser.add_argument("--results", type=pathlib.Path)
    flags = parser.parse_args()
    flags.millrace = str(pathlib.Path(flags.millrace).resolve())
    report = json.loads(flags.results.read_text(encoding="utf-8")) if flags.only and flags.results and flags.results.exists() else {}
    report |= {"what": "deep recurrent stacks on rings", "origin": "planned and simulated: modelled; trained: measured, and the same in every repetition"}
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        if flags.only != "trained":
            report["planned"] = []
            for layers, clusters in RINGS.items():
                for cluster in clusters:
                    row = planned(flags, folder, layers, cluster)
                    print(json.dumps(row), flush=True)
                    report["planned"].append(row)
                    fine = fine and abs(row["simulated_over_planned"] - 1) < 0.02
        if flags.only != "planned":
            model = pathlib.Path(folder) / "stack.textproto"
            model.write_text(stack(24, 4, normalised=True), encoding="utf-8")
            one, many = (trained(flags, folder, str(model), devices) for devices in (1, DEVICES))
            apart = max(abs(b[1] / a[1] - 1) for part in ("curve", "tests") for a, b in zip(one[part], many[part]))
            report["trained"] = {"layers": 24, "devices": DEVICES, "on_one": one, "on_eight": many, "largest_difference_of_a_loss": apart,
                                 "last_test": {"one": one["tests"][-1], "eight": many["tests"][-1]}}
            print(f"losses at most {apart:.2%} apart; last tests {one['tests'][-1]} and {many['tests'][-1]}")
            fine = fine and apart < 0.02 and len(one["curve"]) == len(many["curve"]) > 0
    if flags.results:
        flags.results.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
