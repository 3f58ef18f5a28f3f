#!/usr/bin/env python3
"""Training on rings: accuracy against one device, equal bits on any number of ranks, and FPDeep's Figure 16.

  tests/benchmarks/ring_training.py --json ring.json                 everything, three seeds
  tests/benchmarks/ring_training.py --only digits --seeds 1
  tests/benchmarks/ring_training.py --only figure16 --picture figure16.svg    one command from training to drawing

  digits, fashion-mnist   8 devices in the alignments fpdeep, flush and stash, and one device, same mini-batch; goal: the
                          accuracy named, and within one point of one device (means over the seeds)
  ranks                   weights after 30 updates of 8 devices on 1, 2, 4 and 8 ranks: one digest for each alignment
  text                    bits per character of a character network over 4 devices; goal: within 1% of one device in an alignment
                          that drains; the unaligned pipeline is told beside it (two seeds at most)
  figure16                centralised data-parallel training (replicas of one device each, gradients added up) against the
                          unaligned pipeline of as many devices, same mini-batch: loss by epoch

Runs `millrace train` as a user would, on one process except where ranks are the matter (weights do not depend on it), and
reads its JSON lines. Accuracies are of the held-out set; all figures are measured. Nothing here gates anything.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

DIGITS = ["--model", "digits-cnn", "--data", "digits", "--epochs", "20", "--mini-batch", "32", "--micro-batch", "4", "--learning-rate", "0.02",
          "--lr-schedule", "cosine", "--evaluate-every", "0"]
FASHION = ["--model", "fashion-cnn", "--data", "fashion-mnist", "--epochs", "8", "--mini-batch", "64", "--micro-batch", "8",
           "--learning-rate", "0.007", "--lr-schedule", "cosine", "--evaluate-every", "0"]
TASKS = {"digits": (0.97, DIGITS), "fashion-mnist": (0.90, FASHION)}


def train(binary, flags, ranks=0):
    launch = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"] if ranks else []
    result = subprocess.run([*launch, binary, "--no-progress", "--log-level", "warning", "train", *flags, "--json"], stdout=subprocess.PIPE,
                            text=True, check=True, env=ENVIRONMENT)
    return [json.loads(line) for line in result.stdout.strip().splitlines()]


def convergence(binary, name, seeds, jobs):
    goal, flags = TASKS[name]
    rows = []
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    for where, more in [("one device", ["--cluster", "cpu"])] + [(f"8 devices, {a}", ["--cluster", "cpux8", "--alignment", a])
                                                                for a in ("fpdeep", "flush", "stash")]:
        rows.append({"where": where, "runs": [pool.submit(train, binary, flags + more + ["--seed", str(seed)]) for seed in range(1, seeds + 1)]})
    for row in rows:
        accuracies = [run.result()[-1]["accuracy"] for run in row.pop("runs")]
        where = row["where"]
        row.update({"accuracies": accuracies, "mean": statistics.mean(accuracies)})
        print(f"  {name:<14} {where:<20} {' '.join(f'{100 * a:.2f}%' for a in accuracies)}  mean {100 * row['mean']:.2f}%", flush=True)
    alone = rows[0]["mean"]
    holds = all(row["mean"] >= goal and abs(row["mean"] - alone) <= 0.01 for row in rows[1:])
    return {"task": name, "command": "millrace train " + " ".join(flags), "goal": goal, "rows": rows, "holds": holds}


def ranks(binary, _seeds):
    digests = {}
    for alignment in ("fpdeep", "flush", "1f1b", "stash", "zero-bubble"):
        flags = DIGITS + ["--cluster", "cpux8", "--alignment", alignment, "--steps", "30"]
        digests[alignment] = {str(n): train(binary, flags, n)[-1]["weights_digest"] for n in (1, 2, 4, 8)}
        print(f"  ranks          {alignment:<20} {digests[alignment]}", flush=True)
    drained = {tuple(digests[a].values()) for a in ("flush", "1f1b", "zero-bubble")}
    holds = all(len(set(one.values())) == 1 for one in digests.values()) and len(drained) == 1
    return {"task": "ranks", "digests": digests, "holds": holds}


def text(binary, seeds):
    flags = ["--model", "char-rnn", "--data", "text", "--epochs", "20", "--mini-batch", "32", "--micro-batch", "2", "--learning-rate", "0.003",
             "--lr-schedule", "cosine", "--optimizer", "adam", "--evaluate-every", "0"]
    rows = []
    for where, more in [("one device", ["--cluster", "cpu"]), ("4 devices, flush", ["--cluster", "cpux4", "--alignment", "flush"]),
                        ("4 devices, fpdeep", ["--cluster", "cpux4", "--alignment", "fpdeep"])]:
        bits = []
        for seed in range(1, min(seeds, 2) + 1):
            lines = train(binary, flags + more + ["--seed", str(seed)])
            bits.append([line["bits_per_character"] for line in lines if "bits_per_character" in line][-1])
        rows.append({"where": where, "runs": bits, "bits_per_character": statistics.mean(bits)})
        print(f"  text           {where:<28} {' '.join(f'{one:.4f}' for one in bits)} bits per character", flush=True)
    # The alignments that drain; late weights are told beside them.
    holds = abs(rows[1]["bits_per_character"] / rows[0]["bits_per_character"] - 1) <= 0.01
    return {"task": "text", "command": "millrace train " + " ".join(flags), "rows": rows, "holds": holds}


def figure16(binary, _seeds):
    devices, mini_batch = 4, 64
    common = ["--model", "digits-cnn", "--data", "digits", "--epochs", "15", "--learning-rate", "0.02", "--evaluate-every", "1"]
    parallel = train(binary, common + ["--cluster", "cpu", "--replicas", str(devices), "--mini-batch", str(mini_batch),
                                       "--micro-batch", "4"], devices)
    pipeline = train(binary, common + ["--cluster", f"cpux{devices}", "--alignment", "fpdeep", "--mini-batch", str(mini_batch),
                                       "--micro-batch", "4"], devices)
    runs = []
    for name, lines in ((f"data-parallel, {devices} replicas", parallel), (f"unaligned pipeline, {devices} devices", pipeline)):
        tests = [line for line in lines if line["event"] == "evaluation"]
        runs.append({"name": name, "curve": [[line["epoch"], line["loss"]] for line in tests],
                     "accuracy": [[line["epoch"], line["accuracy"]] for line in tests]})
        print(f"  figure16       {name:<32} test accuracy {100 * tests[-1]['accuracy']:.2f}% after {tests[-1]['epoch']:.0f} epochs", flush=True)
    gap = abs(runs[0]["accuracy"][-1][1] - runs[1]["accuracy"][-1][1])
    title = f"The unaligned pipeline beside data-parallel training: {devices} devices, mini-batches of {mini_batch}, digits, loss on the test set"
    return {"task": "figure16", "title": title, "runs": runs, "holds": gap <= 0.01, "passed": gap <= 0.01,
            "criterion": "the unaligned pipeline ends within one point of data-parallel training, same mini-batch"}


def main():
    parts = {"digits": lambda b, s: convergence(b, "digits", s, arguments.jobs), "fashion-mnist": lambda b, s: convergence(b, "fashion-mnist", s, arguments.jobs),
             "ranks": ranks, "text": text, "figure16": figure16}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--only", choices=list(parts), action="append", help="one part; may be given again")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (digits and fashion-mnist)")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--picture", help="file for Figure 16 (.svg)")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    results = {"command": "tests/benchmarks/ring_training.py", "commit": commit, "origin": "measured", "tasks": []}
    for name, part in parts.items():
        if arguments.only and name not in arguments.only:
            continue
        results["tasks"].append(part(arguments.millrace, arguments.seeds))
        print(f"{name}: {'holds' if results['tasks'][-1]['holds'] else 'FALLS SHORT'}", flush=True)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if arguments.picture:
        draw = pathlib.Path(arguments.millrace).with_name("draw_learning")
        source = pathlib.Path(arguments.picture).with_suffix(".json")
        source.write_text(json.dumps({"tasks": [t for t in results["tasks"] if t["task"] == "figure16"]}))
        subprocess.run([draw, source, arguments.picture, "--task", "figure16"], check=True)
        source.unlink()
    return 0 if all(task["holds"] for task in results["tasks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
