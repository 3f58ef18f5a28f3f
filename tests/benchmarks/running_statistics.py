#!/usr/bin/env python3
"""Does a network learn whose batch norms use running statistics? Curves against statistics of each micro-batch.

  tests/benchmarks/running_statistics.py --json tests/benchmarks/results/running_statistics.json
  tests/benchmarks/running_statistics.py --only digits --seeds 1

A ResNet of nine convolutions, resnet18-cifar scaled down (models/small_resnet.textproto), on the digits and on a part of Fashion-MNIST, three
seeds, alignment fpdeep on two devices:

  exact           statistics of each micro-batch
  running         --batch-norm running from the first update on
  after exact     the first epochs exact, then --init-from and --batch-norm running
  exact again     the same two trainings, both exact: what starting the rate's schedule anew costs by itself
  boards          as running, on two emulated boards in 16 bits, one sample per micro-batch (digits only, with --boards)

Of Fashion-MNIST the first 12,000 samples are trained on and the first 4,000 of the test set are tried; --whole takes all of them, --part others.

The figure is the test accuracy after the last epoch; the curve has one per epoch, beside the accuracy in training, which tells what does not
learn from what learns its samples by heart. All measured; nothing here gates anything.
"""
import argparse
import concurrent.futures
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/benchmarks/models/small_resnet.textproto"
FLAGS = ["--alignment", "fpdeep", "--optimizer", "momentum", "--mini-batch", "32", "--lr-schedule", "cosine", "--warmup"]
# Name, data, epochs, of which exact where training goes on with running ones, epochs of warm-up of the rate, rate, with boards.
TASKS = [("digits", "digits", 12, 3, 3, 0.02, True), ("fashion-mnist", "fashion-mnist", 3, 1, 1, 0.01, False)]
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
PART = (12000, 4000)  # to train on, to try
MOMENTUM = 0.2  # of running statistics in training: their momentum counts updates, not micro-batches


def part_of_fashion(folder, part_sizes):
    """As IDX files: a header of 4 bytes and one of 4 per dimension, the first of which counts samples."""
    part = pathlib.Path(folder) / "fashion"
    part.mkdir()
    for which, samples in zip(("train", "t10k"), part_sizes):
        for kind, dimensions, size in (("images-idx3-ubyte", 3, 28 * 28), ("labels-idx1-ubyte", 1, 1)):
            header = 4 + 4 * dimensions
            with gzip.open(FASHION / f"{which}-{kind}.gz") as file:
                data = file.read(header + samples * size)
            (part / f"{which}-{kind}").write_bytes(data[:4] + samples.to_bytes(4, "big") + data[8:])
    return f"idx:{part}"


def train(binary, model, data, epochs, warmup, rate, seed, more):
    command = [binary, "--no-progress", "--log-level", "warning", "train", "--model", str(model), *FLAGS, str(warmup), "--data", data, "--epochs",
               str(epochs), "--lr", str(rate), "--seed", str(seed), "--json", *more]
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    records = [json.loads(line) for line in done.stdout.strip().splitlines()]
    curve = [record["accuracy"] for record in records if record["event"] == "evaluation"]
    training = [round(record["accuracy"], 4) for record in records if record["event"] == "epoch"]
    return (curve if done.returncode == 0 else [*curve, 0.0]), training, time.monotonic() - started  # 0: it diverged


def variants(binary, task, seed, boards, folder, pool):
    name, data, epochs, first, warmup, rate, with_boards = task
    running = pathlib.Path(folder) / "running.textproto"
    running.write_text(MODEL.read_text().replace("batch_norm {}", f"batch_norm {{ momentum: {MOMENTUM} }}"))
    cpu = ["--cluster", "cpux2", "--micro-batch", "8"]
    choice = ["--batch-norm", "running"]
    warm = f"{folder}/warm{seed}{name}"

    def start(model, length, more):
        return pool.submit(train, binary, model, data, length, warmup, rate, seed, more)

    started = {"exact": start(MODEL, epochs, cpu), "running": start(running, epochs, [*cpu, *choice])}
    if with_boards and boards:
        started["boards"] = start(running, epochs, ["--cluster", "emulated-fpgax2", *choice])
    curve, learned, seconds = start(MODEL, first, [*cpu, "--out", warm]).result()
    rest = {"after exact": start(running, epochs - first, [*cpu, *choice, "--init-from", warm]),
            "exact again": start(MODEL, epochs - first, [*cpu, "--init-from", warm])}
    made = [(which, *run.result()) for which, run in started.items()]
    for which, run in rest.items():
        then, learned_then, more = run.result()
        made.append((which, curve + then, learned + learned_then, seconds + more))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--only", help="one task: " + ", ".join(task[0] for task in TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--whole", action="store_true", help="all of Fashion-MNIST")
    parser.add_argument("--part", type=int, nargs=2, default=PART, metavar=("TRAINED", "TRIED"), help="samples of Fashion-MNIST")
    parser.add_argument("--rate", type=float, help="another rate")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--boards", action="store_true", help="emulated boards, too")
    arguments = parser.parse_args()
    results = []
    for task in TASKS:
        if arguments.only not in (None, task[0]):
            continue
        found = {}
        if arguments.rate:
            task = (*task[:5], arguments.rate, task[6])

        def of_seed(seed, task=task):
            with tempfile.TemporaryDirectory() as folder:
                here = task
                if task[0] == "fashion-mnist" and not arguments.whole:
                    here = (task[0], part_of_fashion(folder, arguments.part), *task[2:])
                return variants(arguments.millrace, here, seed, arguments.boards, folder, pool)

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, concurrent.futures.ThreadPoolExecutor() as seeds:
            for seed, made in enumerate(seeds.map(of_seed, range(1, arguments.seeds + 1)), start=1):
                for name, curve, training, seconds in made:
                    found.setdefault(name, []).append({"seed": seed, "curve": curve, "training": training, "seconds": round(seconds, 1)})
        exact = statistics.mean(run["curve"][-1] for run in found["exact"])
        for name, runs in found.items():
            mean = statistics.mean(run["curve"][-1] for run in runs)
            print(f"{task[0]:<14} {name:<12} {' '.join('%.2f%%' % (100 * run['curve'][-1]) for run in runs):<26} mean {100 * mean:.2f}%, {100 * (mean - exact):+.2f} points "
                  f"against exact, {sum(run['seconds'] for run in runs):.0f} s")
            results.append({"task": task[0], "variant": name, "epochs": task[2], "learning_rate": task[5], "runs": runs, "mean_accuracy": mean,
                            "points_against_exact": 100 * (mean - exact), "samples": "all" if arguments.whole or task[0] == "digits" else list(arguments.part),
                            "origin": "measured"})
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0 if results else 2


if __name__ == "__main__":
    sys.exit(main())
