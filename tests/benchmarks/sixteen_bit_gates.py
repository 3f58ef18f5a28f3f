"""What sixteen bits and straight lines for gates cost a recurrent network, and what a few more epochs give back.

    sixteen_bit_gates.py --millrace build/release/bin/millrace [--seeds 1 2 3] [--tasks pixels rows passages] [--json results/sixteen_bit_gates.json]

An LSTM of 32 units learns the shipped digits in fp32 on the CPU, row by row (8 steps) and pixel by pixel (64 steps). Its weights are then
asked on boards computed by their functional model: with exact tables for sigmoid and tanh, and with PLAN's straight lines; and they are
trained on, a few epochs, on such a board with straight lines and in fp32: percent of 360 test digits; fp32 and tables also of all 1,797
digits, those trained on among them, where a difference of one digit is 0.06 points. --tasks passages: the same of
text-classifier, which tells in which of four stories of the shipped text twenty words stand: percent of 536 test passages. --text:
char-rnn learns the shipped text from its first update on, on such a board and in fp32: bits per character. All figures are measured.
The standard library alone. Some minutes.
"""

import argparse
import gzip
import json
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "core/data/kjv"))
from make_passages import write_array, write_passages  # noqa: E402

# Steps of features; epochs in fp32, and of tuning; rates of both.
TASKS = {"rows": {"steps": 8, "epochs": 20, "more": 4, "rates": (0.005, 0.002)},
         "pixels": {"steps": 64, "epochs": 40, "more": 4, "rates": (0.005, 0.002)},
         "passages": {"steps": 20, "epochs": 6, "more": 1, "rates": (0.001, 0.0005)}}
MODEL = """name: "digits-{task}"
input {{ channels: {features} height: {steps} width: 1 }}
input_kind: FEATURES
layers {{ name: "lstm" lstm {{ hidden: 32 }} }}
layers {{ name: "last" last_step {{}} }}
layers {{ name: "fc" dense {{ out_features: 10 }} }}
layers {{ name: "loss" softmax_cross_entropy {{}} }}
"""


def idx(name):
    """Dimensions and bytes of one of the shipped files."""
    data = gzip.decompress((ROOT / "core/data/digits" / name).read_bytes())
    return struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]]), data[4 + 4 * data[3] :]


def write_task(folder, task):
    """Makes the data; what to call the model and the data."""
    steps = TASKS[task]["steps"]
    arrays = folder / task
    arrays.mkdir()
    every = folder / f"{task}-every"
    if task == "passages":
        return "text-classifier", f"arrays:{arrays},layout=ids,ids={write_passages(arrays)}"
    every.mkdir()
    every_value, every_label = [], []
    for part, prefix in (("train", "train"), ("test", "t10k")):
        (samples, height, width), pixels = idx(f"{prefix}-images-idx3-ubyte.gz")
        _, labels = idx(f"{prefix}-labels-idx1-ubyte.gz")
        brightest = max(pixels)
        values = [2 * value / brightest - 1 for value in pixels]
        every_value += values
        every_label += labels
        for where, x, y in ((arrays, values, list(labels)), (every, every_value, every_label)):
            write_array(where / f"x_{part}.npy", "f", (len(y), steps, height * width // steps), x)
            write_array(where / f"y_{part}.npy", "i", (len(y),), y)
    (folder / f"{task}.textproto").write_text(MODEL.format(task=task, steps=steps, features=64 // steps))
    return f"{task}.textproto", f"arrays:{arrays},layout=steps"


def millrace(tools, folder, *words):
    result = subprocess.run([tools.millrace, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False, timeout=1800)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: status {result.returncode}: {result.stderr[-2000:]}")
    return result.stdout


def accuracy(tools, folder, run, cluster, *more):
    return 100 * json.loads(millrace(tools, folder, "eval", "--checkpoint", run, "--cluster", cluster, "--json", *more))["accuracy"]


def one_seed(tools, folder, task, model, data, seed):
    about = TASKS[task]
    common = ["--model", model, "--data", data, "--mini-batch", 32, "--optimizer", "adam", "--seed", seed]
    base = f"{task}-{seed}"
    millrace(tools, folder, "train", *common, "--epochs", about["epochs"], "--learning-rate", about["rates"][0], "--evaluate-every", 0, "--out", base)
    found = {"seed": seed, "fp32": accuracy(tools, folder, base, "cpu")}
    if tools.tables:
        found["tables"] = accuracy(tools, folder, base, "emulated-fpga-tables")
    if tools.tables and task != "passages":  # the arithmetic alone differs: on all digits there are, where one is 0.06%
        every = ("--data", f"arrays:{folder / (task + '-every')},layout=steps")
        found |= {"fp32_all": accuracy(tools, folder, base, "cpu", *every), "tables_all": accuracy(tools, folder, base, "emulated-fpga-tables", *every)}
    found["straight_lines"] = accuracy(tools, folder, base, "emulated-fpga")
    for name, cluster in (("straight_lines_tuned", "emulated-fpga"), ("fp32_tuned", "cpu")):
        tuned = f"{base}-{name}"
        millrace(tools, folder, "train", *common, "--init-from", base, "--epochs", about["more"], "--learning-rate", about["rates"][1], "--cluster", cluster,
                 "--evaluate-every", 0, "--out", tuned)
        found[name] = accuracy(tools, folder, tuned, cluster)
    print(task, {name: round(value, 2) for name, value in found.items()}, flush=True)
    return found


def text_seed(tools, folder, seed):
    found = {"seed": seed}
    for name, cluster in (("fp32", "cpu"), ("straight_lines", "emulated-fpga")):
        run = f"text-{seed}-{name}"
        millrace(tools, folder, "train", "--model", "char-rnn", "--data", "text", "--mini-batch", 16, "--optimizer", "adam", "--learning-rate", 0.003,
                 "--seed", seed, "--steps", tools.text, "--cluster", cluster, "--evaluate-every", 0, "--out", run)
        told = json.loads(millrace(tools, folder, "eval", "--checkpoint", run, "--cluster", cluster, "--json"))
        found[name] = told["bits_per_character"]
    print("char-rnn", {name: round(value, 3) for name, value in found.items()}, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tasks", nargs="+", default=["rows", "pixels"], choices=list(TASKS))
    parser.add_argument("--no-tables", dest="tables", action="store_false")
    parser.add_argument("--text", type=int, default=0, metavar="UPDATES", help="char-rnn instead, so many updates")
    parser.add_argument("--json")
    tools = parser.parse_args()
    tools.millrace = str(Path(tools.millrace).resolve())
    report = {"what": "percent of 360 test digits (rows, pixels) or 536 test passages, measured",
              "network": "LSTM of 32 units, last step, dense of 10; passages: text-classifier", "tasks": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if tools.text:
            report = {"what": "bits per character of the test text, measured", "network": "char-rnn", "updates": tools.text, "mini_batch": 16,
                      "seeds": [text_seed(tools, folder, seed) for seed in tools.seeds]}
        for task in [] if tools.text else tools.tasks:
            model, data = write_task(folder, task)
            seeds = [one_seed(tools, folder, task, model, data, seed) for seed in tools.seeds]
            means = {key: round(statistics.mean(seed[key] for seed in seeds), 2) for key in seeds[0] if key != "seed"}
            report["tasks"].append({"task": task, **TASKS[task], "seeds": seeds, "mean": means})
            print(task, "mean", means, flush=True)
    if tools.json:
        Path(tools.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
