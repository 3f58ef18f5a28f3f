#!/usr/bin/env python3
"""How far training gets and how long it takes: the figures behind the guide's accuracy claims.

  tests/benchmarks/convergence.py                      digits and Fashion-MNIST, three seeds each, one thread
  tests/benchmarks/convergence.py --only digits --json results.json

Runs `millrace train` as a user would and reads its last JSON line. Accuracies are those of the held-out test set after
the last epoch; times are measured by the wall clock, evaluation and start-up included. The goal columns are the
project's; nothing here gates anything.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, goal (test accuracy, seconds), arguments
TASKS = [
    ("digits", 0.97, 20, ["--model", "digits-cnn", "--data", "digits", "--epochs", "20", "--mini-batch", "32", "--learning-rate", "0.05",
                          "--lr-schedule", "cosine"]),
    ("fashion-mnist", 0.90, 300, ["--model", "fashion-cnn", "--data", "fashion-mnist", "--epochs", "8", "--mini-batch", "64",
                                  "--learning-rate", "0.015", "--lr-schedule", "cosine"]),
]


def run(binary, arguments, seed):
    started = time.monotonic()
    result = subprocess.run([binary, "--no-progress", "train", *arguments, "--seed", str(seed), "--json"], stdout=subprocess.PIPE, text=True,
                            check=True)
    last = json.loads(result.stdout.strip().splitlines()[-1])
    return last["accuracy"], time.monotonic() - started, last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--only", help="one task: " + ", ".join(task[0] for task in TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    results = []
    print(f"{'task':<14} {'accuracy by seed':<28} {'mean':>7} {'goal':>7} {'seconds (measured)':>20} {'goal':>6}")
    for name, accuracy_goal, seconds_goal, flags in TASKS:
        if arguments.only not in (None, name):
            continue
        runs = [run(arguments.millrace, flags, seed) for seed in range(1, arguments.seeds + 1)]
        accuracies = [accuracy for accuracy, _, _ in runs]
        seconds = [elapsed for _, elapsed, _ in runs]
        print(f"{name:<14} {' '.join(f'{100 * a:.2f}%' for a in accuracies):<28} {100 * statistics.mean(accuracies):>6.2f}% "
              f"{100 * accuracy_goal:>6.1f}% {statistics.mean(seconds):>18.1f} s {seconds_goal:>4} s")
        results.append({"task": name, "command": "millrace train " + " ".join(flags), "accuracies": accuracies,
                        "mean_accuracy": statistics.mean(accuracies), "seconds": seconds,
                        "weights_digests": [last["weights_digest"] for _, _, last in runs], "origin": "measured"})
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n")
    return 0 if results else 2


if __name__ == "__main__":
    sys.exit(main())
