#!/usr/bin/env python3
"""How long planning takes, and how that grows with devices and with layers.

    tests/benchmarks/planning.py [--millrace build/release/bin/millrace] [--out tests/benchmarks/results/planning_full.json]

Each case is a whole `millrace plan --json` process, with full accounting as it is by default: start, planning, simulating mini-batches,
completing the plan and printing it. `processor` is its processor time, the least of several runs, which other work on the machine hardly
moves; `seconds` is that run's time by the clock, and `solve` the planner's own share of it, as the JSON says. Two curves: ResNet-152 over 10 to 1,000 devices of
three kinds behind links of two speeds, and networks of 10 to 155 layer groups over 100 boards. The goals are those that
the planner promises; they are printed beside the figures and gate nothing.
Prints a table and writes JSON with the machine and the commands. Standard library alone.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import tempfile
import time

RUNS = 5
LONG = 2  # seconds: of what takes longer, one run is enough
GOALS = {"vgg16 on 15 boards": 0.1, "vgg16 on 100 boards": 0.5, "resnet152 on 1000 mixed devices": 10.0, "vgg16 on 8000 boards": 60.0}


def mixed_cluster(count, folder):
    """Three kinds of boards in turn, every third link slower than the others."""
    kinds = ["vc709", "u280", "u250"]
    lines = ["version: 1", f'name: "mixed{count}"']
    lines += [f'devices {{ device: "{kinds[i % 3]}" }}' for i in range(count)]
    lines += ["default_link { gbps: 100 latency_us: 0.5 }"]
    lines += [f"links {{ at: {i} gbps: 40 }}" for i in range(0, count - 1, 3)]
    path = pathlib.Path(folder) / f"mixed{count}.textproto"
    path.write_text("\n".join(lines) + "\n")
    return path


def measure(millrace, name, arguments):
    runs = []
    for _ in range(RUNS):
        start = time.perf_counter()
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as failed:
            child = subprocess.Popen([millrace, "plan", *arguments, "--json"], stdout=said, stderr=failed)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - start
            for file in (said, failed):
                file.seek(0)
            if child.returncode not in (0, 3):
                raise SystemExit(f"{name}: {failed.read().decode()}")
            result = json.loads(said.read())
        runs.append((usage.ru_utime + usage.ru_stime, seconds, result["solve_seconds"], result["feasible"]))
        if runs[0][0] > LONG:
            break
    processor, seconds, solve, feasible = min(runs)
    figure = {"case": name, "processor_seconds": round(processor, 4), "seconds": round(seconds, 4), "solve_seconds": round(solve, 4),
              "feasible": feasible}
    if name in GOALS:
        figure["goal_seconds"] = GOALS[name]
    goal = f"  goal {GOALS[name]:g} s" if name in GOALS else ""
    print(f"{name:<42}{processor:9.3f} s  by the clock {seconds:8.3f} s{goal}{'' if feasible else '  (infeasible)'}", flush=True)
    return figure


def slope(points):
    """Exponent of the power that fits best: seconds ~ count^exponent."""
    x = [math.log(count) for count, _ in points]
    y = [math.log(seconds) for _, seconds in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--out", default="tests/benchmarks/results/planning_full.json")
    arguments = parser.parse_args()
    figures = [
        measure(arguments.millrace, "vgg16 on 15 boards", ["--model", "vgg16", "--cluster", "vc709x15"]),
        measure(arguments.millrace, "vgg16 on 100 boards", ["--model", "vgg16", "--cluster", "vc709x100"]),
        measure(arguments.millrace, "vgg16 on 8000 boards", ["--model", "vgg16", "--cluster", "vc709x8000"]),
        measure(arguments.millrace, "googlenet on 2 boards", ["--model", "googlenet", "--cluster", "u280x2", "--batch-norm", "running"]),
    ]
    by_devices, by_layers = [], []
    with tempfile.TemporaryDirectory() as folder:
        for count in (10, 30, 100, 300, 1000):
            cluster = str(mixed_cluster(count, folder))
            figure = measure(arguments.millrace, f"resnet152 on {count} mixed devices",
                             ["--model", "resnet152", "--cluster", cluster, "--mini-batch", "2048", "--batch-norm", "running"])
            figures.append(figure)
            if figure["feasible"]:
                by_devices.append((count, figure["processor_seconds"]))
    for model in ("alexnet", "vgg16", "resnet18", "resnet34", "resnet50", "googlenet", "resnet101", "resnet152"):
        shown = json.loads(subprocess.run([arguments.millrace, "models", model, "--json"], capture_output=True, text=True, check=True).stdout)
        layers = sum(layer["op"] in ("conv2d", "dense") for layer in shown["layers"])
        norms = ["--batch-norm", "running"] if any(layer["op"] == "batch_norm" for layer in shown["layers"]) else []
        figure = measure(arguments.millrace, f"{model} ({layers} layer groups) on 100 boards", ["--model", model, "--cluster", "u280x100", *norms])
        figure["layers"] = layers
        figures.append(figure)
        by_layers.append((layers, figure["processor_seconds"]))
    growth = {"exponent_in_devices": round(slope(by_devices), 2), "exponent_in_layers": round(slope(by_layers), 2)}
    print(f"planning grows as devices^{growth['exponent_in_devices']} and as layers^{growth['exponent_in_layers']} (fitted)")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "what": "processor seconds of `millrace plan --json`, full accounting, the least of several runs, and seconds by the clock (measured)",
        "command": "tests/benchmarks/planning.py",
        "commit": commit,
        "processor": platform.processor() or platform.machine(),
        "runs": RUNS,
        "figures": figures,
        "growth": growth,
    }
    pathlib.Path(arguments.out).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
