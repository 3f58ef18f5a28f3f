#!/usr/bin/env python3
"""Random sweeps: a plan is never slower with one device more, the same board with one capacity raised, or faster links.

    tests/benchmarks/more_is_never_slower.py --out tests/benchmarks/results/more_is_never_slower.json [--millrace build/release/bin/millrace]
    tests/benchmarks/more_is_never_slower.py --only 17 --millrace build/release/bin/millrace        # one sweep, with its commands
    tests/benchmarks/more_is_never_slower.py --count 6 --seed 5 --millrace build/release/bin/millrace
    tests/benchmarks/more_is_never_slower.py --mixed --count 60 --millrace build/release/bin/millrace   # boards beside processors
    tests/benchmarks/more_is_never_slower.py --small --millrace build/release/bin/millrace          # short ones that were slower once

Sweep i is drawn from the seed and i alone: what grows (devices, a capacity, links), a model of the zoo, kinds of devices, an alignment, an
accounting, a mini-batch. It has three steps; each is planned as the command does by default, and must not be slower than the one before, nor
infeasible where that was feasible. Full accounting leaves boards without work for 0.1% at least and takes what a mini-batch takes from a
simulation, so it may be 0.2% slower; FPDeep's accounting is held to a millionth. A plan that takes longer than the limit says so and counts as
neither. Exit status 1 where a step is slower. Standard library alone.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ["mlp", "lenet5", "digits-cnn", "fashion-cnn", "alexnet", "alexnet-grouped", "vgg11", "vgg16", "vgg11-cifar", "resnet18-cifar", "resnet18",
          "googlenet"]
RECURRENT = ["char-rnn", "text-classifier"]  # on processors
BOARDS = ["vc709", "zc706", "u280"]
PROCESSORS = ["h200", "cpu"]
ALIGNMENTS = ["fpdeep", "stash", "flush", "1f1b", "zero-bubble"]
CAPACITIES = {"dsp": 1.25, "bram36": 1.25, "dram_bytes_per_second": 2, "lut": 1.25}
SMALL = [(4242, 44, False), (4242, 38, False), (9001, 6, False), (18, 193, False), (20261129, 9, False),
         (2, 8, True), (2, 15, True), (2, 25, True), (2, 55, True)]  # seed and sweep, and whether of boards beside processors
MIXED_MODELS = ["mlp", "lenet5", "digits-cnn", "fashion-cnn", "alexnet", "vgg11-cifar", "resnet18-cifar"]
MOST_SLOWER = {"full": 2e-3, "fpdeep": 1e-6}


def drawn(seed, index):
    chance = random.Random(f"{seed}/{index}")
    sweep = {"index": index, "grows": ("devices", "capacity", "links")[index % 3], "alignment": chance.choice(ALIGNMENTS),
             "accounting": chance.choice(["full", "full", "fpdeep"]), "mini_batch": chance.choice([32, 64, 128])}
    boards = sweep["grows"] == "capacity" or chance.random() < 0.6
    kinds = [chance.choice(BOARDS if boards else PROCESSORS)]
    if sweep["grows"] != "capacity" and chance.random() < 0.3:
        kinds.append(chance.choice(BOARDS + PROCESSORS))
    only_processors = not set(kinds) & set(BOARDS)
    sweep["model"] = chance.choice(MODELS + RECURRENT if only_processors else MODELS)
    counts = [chance.randint(1, 12 if kind in BOARDS else 6) for kind in kinds]
    grown = chance.randrange(len(kinds))
    gbps = chance.choice([2, 5, 10, 25])
    sweep["steps"] = []
    if sweep["grows"] == "capacity":
        sweep["capacity"] = chance.choice(list(CAPACITIES))
    for step in range(3):
        ring = [[kind, count] for kind, count in zip(kinds, counts)]
        if sweep["grows"] == "devices":
            ring[grown][1] += step
        options = ["--link-gbps", str(gbps * 2 ** step)] if sweep["grows"] == "links" else []
        names = [f"{kind}x{count}" for kind, count in ring]
        if sweep["grows"] == "capacity":
            factor = CAPACITIES[sweep["capacity"]] ** step
            names = [f"{kinds[0]}-more{step}x{counts[0]}"]
            sweep.setdefault("factors", []).append(factor)
        sweep["steps"].append({"cluster": "+".join(names), "options": options})
    return sweep, kinds[0]


# Rings of one or two kinds of boards beside one or two of processors, in any order.
def drawn_mixed(seed, index):
    chance = random.Random(f"mix{seed}/{index}")
    sweep = {"index": index, "grows": "devices" if index % 4 else "links", "alignment": chance.choice(ALIGNMENTS), "accounting": "full",
             "mini_batch": chance.choice([32, 64, 128])}
    kinds = [chance.choice(BOARDS), chance.choice(PROCESSORS)]
    if chance.random() < 0.25:
        kinds.append(chance.choice(BOARDS + PROCESSORS))
    chance.shuffle(kinds)
    sweep["model"] = chance.choice(MIXED_MODELS)
    counts = [chance.randint(1, 9 if kind in BOARDS else 6) for kind in kinds]
    grown = chance.randrange(len(kinds))
    gbps = chance.choice([2, 5, 10, 25])
    sweep["steps"] = []
    for step in range(3):
        more = [step if sweep["grows"] == "devices" and kind == grown else 0 for kind in range(len(kinds))]
        names = [f"{kind}x{count + extra}" for kind, count, extra in zip(kinds, counts, more)]
        sweep["steps"].append({"cluster": "+".join(names), "options": ["--link-gbps", str(gbps * 2 ** step)] if sweep["grows"] == "links" else []})
    return sweep, kinds[0]


def raised(board, step, capacity, factor):
    text = (ROOT / "fpga" / "catalogue" / f"{board}.textproto").read_text()
    text = re.sub(r'short_names: "[^"]*"', f'short_names: "{board}-more{step}"', text, count=1)
    text = re.sub(r'\n *short_names: "(?![^"]*-more)[^"]*"', "", text)
    pattern = re.compile(rf'(name: "{capacity}"\s+value: )([0-9.e+]+)')
    assert pattern.search(text), (board, capacity)
    return pattern.sub(lambda found: f"{found[1]}{float(found[2]) * factor:.0f}", text, count=1)


def plan(flags, sweep, step, extra):
    command = [flags.millrace, "plan", "--model", sweep["model"], "--cluster", step["cluster"], "--mini-batch", str(sweep["mini_batch"]), "--alignment",
               sweep["alignment"], "--accounting", sweep["accounting"], "--json", *step["options"], *extra]
    if sweep["model"].startswith(("resnet", "googlenet")):
        command += ["--batch-norm", "running"]
    if flags.only is not None:
        print(" ".join(command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=flags.seconds, check=False)
    except subprocess.TimeoutExpired:
        return {**step, "feasible": None, "text": "longer than the limit"}
    if done.returncode not in (0, 3):
        return {**step, "feasible": None, "text": done.stderr.strip()[:300]}
    answer = json.loads(done.stdout)
    if not answer["feasible"]:
        return {**step, "feasible": False, "images_per_second": 0, "text": answer["reason"][:300]}
    return {**step, "feasible": True, "images_per_second": answer["images_per_second"], "micro_batch": answer["micro_batch"]}


def run(flags, seed, index, mixed):
    sweep, board = (drawn_mixed if mixed else drawn)(seed, index)
    factors = sweep.pop("factors", None)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for number, step in enumerate(sweep["steps"]):
            extra = []
            if factors:
                path = Path(folder) / f"{number}.textproto"
                path.write_text(raised(board, number, sweep["capacity"], factors[number]))
                extra = ["--catalogue", str(path)]
            rows.append(plan(flags, sweep, step, extra))
    sweep["steps"] = rows
    worst = 0.0
    for before, after in zip(rows, rows[1:]):
        if before["feasible"] is None or after["feasible"] is None or not before["feasible"]:
            continue
        worst = min(worst, after["images_per_second"] / before["images_per_second"] - 1)
    sweep["worst"] = worst
    undecided = any(row["feasible"] is None for row in rows)
    sweep["verdict"] = "slower" if worst < -MOST_SLOWER[sweep["accounting"]] else "not decided" if undecided else "holds"
    return sweep


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int)
    parser.add_argument("--mixed", action="store_true", help="rings of boards beside processors")
    parser.add_argument("--small", action="store_true", help="short sweeps that were slower once")
    parser.add_argument("--seconds", type=float, default=60, help="the longest that one plan may take")
    flags = parser.parse_args()
    if not Path(flags.millrace).is_file():
        parser.error(f"no program {flags.millrace}: build it with deploy/check.sh or deploy/quickstart.sh, or name it with --millrace")
    rows = []
    indices = range(flags.count) if flags.only is None else [flags.only]
    for seed, index, mixed in SMALL if flags.small else [(flags.seed, index, flags.mixed) for index in indices]:
        rows.append(run(flags, seed, index, mixed))
        row = rows[-1]
        rates = ", ".join("-" if s["feasible"] is None else "infeasible" if not s["feasible"] else f'{s["images_per_second"]:.5g}' for s in row["steps"])
        print(f'{row["verdict"]:<12} {index:>3} {row["grows"]:<8} {row["model"]:<16} {row["steps"][-1]["cluster"]:<24} {row["alignment"]:<12} '
              f'{row["accounting"]:<7} {rates} ({100 * row["worst"]:+.2f}%)', flush=True)
        if flags.out:
            Path(flags.out).write_text(json.dumps({"origin": "modelled; mini-batches simulated", "seed": flags.seed, "sweeps": rows}, indent=1) + "\n")
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in sorted({row["verdict"] for row in rows})}
    print(count)
    return 1 if "slower" in count else 0


if __name__ == "__main__":
    sys.exit(main())
