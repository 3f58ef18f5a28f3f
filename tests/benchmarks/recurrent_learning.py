#!/usr/bin/env python3
"""Whether recurrent networks learn what the literature says they learn, each within minutes on one core.

  tests/benchmarks/recurrent_learning.py                            all tasks
  tests/benchmarks/recurrent_learning.py --only adding --json results.json
  build/release/bin/draw_learning results.json curves.html          the curves

  adding   the adding problem over 200 steps. Baseline: always saying how sums are distributed, loss 2.8064, accuracy 9.5%. Solved
           when the loss is below 1 and the accuracy above 0.5 on sums never seen. Beside it, as the literature measures, the
           squared error between the centres of the predicted and the true bin: 1/6 without learning, solved below 0.01.
  text     three LSTM layers of 128 on the shipped King James slice, stateful, 100 steps. Below 2.1 bits per character on the
           last tenth, which it never saw.
  speech   a small Deep Speech 2 on 50 prompts (not held out: can it learn them?). Below 10% of characters wrong.
  depth    24 plain ReLU layers with and without a shortcut every 4, and both again with batch norm in front of every layer. The
           plain stack must fail (more than 90% of rows wrong) and the one with shortcuts succeed (less than 5% wrong).

Runs `millrace train` and `millrace eval` as a user would. Everything but seconds is the same in every repetition on one machine.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(__file__).resolve().parent / "models"


def stack(layers, shortcut_every, normalised, hidden=48):
    """The text of a model: vanilla ReLU layers, every so many of them bridged by a shortcut; 0: none."""
    lines = ['version: 1', f'name: "stack-{layers}"', "input_kind: FEATURES", "input { channels: 12 height: 67 }",
             f'layers {{ name: "fc_in" dense {{ out_features: {hidden} }} }}']
    last = shortcut = "fc_in"
    for i in range(1, layers + 1):
        if normalised:
            lines.append(f'layers {{ name: "rnn{i}_norm" inputs: "{last}" batch_norm {{}} }}')
            last = f"rnn{i}_norm"
        lines.append(f'layers {{ name: "rnn{i}" inputs: "{last}" initializer: TORCH_UNIFORM rnn_relu {{ hidden: {hidden} }} }}')
        last = f"rnn{i}"
        if shortcut_every and i % shortcut_every == 0:
            lines.append(f'layers {{ name: "rnn{i}_add" inputs: "{last}" inputs: "{shortcut}" add {{}} }}')
            last = shortcut = f"rnn{i}_add"
    return "\n".join(lines + ['layers { name: "fc" dense { out_features: 6 } }', 'layers { name: "loss" ctc_loss {} }']) + "\n"


class Runner:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.runs = binary, folder, 0

    def lines(self, *arguments):
        result = subprocess.run([self.binary, "--no-progress", *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True, check=True)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def learn(self, name, model, flags, split="test"):
        """Trains, then asks the checkpoint; what a result holds."""
        self.runs += 1
        out = pathlib.Path(self.folder) / str(self.runs)
        if model.startswith("version:"):
            path = out.with_suffix(".textproto")
            path.write_text(model)
            model, shown = str(path), name
        else:
            shown = str(pathlib.Path(model).relative_to(ROOT)) if model.startswith("/") else model
        self.last = str(out)
        started = time.monotonic()
        records = self.lines("train", "--model", model, *flags, "--out", str(out))
        found = self.lines("eval", "--checkpoint", str(out), "--split", split)[-1]
        found.pop("event"), found.pop("seconds")
        return {"name": name, "command": f"millrace train --model {shown} {' '.join(flags)}", "split": split, "found": found,
                "weights_digest": records[-1]["weights_digest"], "updates": records[-1]["step"],
                "seconds": round(time.monotonic() - started, 1),
                "curve": [[r["epoch"], r["loss"]] for r in records if r["event"] == "step"],
                "tests": [[r["epoch"], r["loss"], r["accuracy"]] for r in records if r["event"] == "evaluation"]}


def adding(runner):
    run = runner.learn("GRU of 64", str(MODELS / "adding.textproto"),
                       "--data adding:200:20000 --optimizer adam --learning-rate 0.003 --lr-schedule cosine --clip-norm 1 --mini-batch 50 "
                       "--epochs 12 --seed 1".split())
    shares = [(2 * bin + 1) / 200 for bin in range(10)]  # of the bins up to the triangle's top
    baseline = {"loss": round(-2 * sum(share * math.log(share) for share in shares), 4), "accuracy": shares[-1],
                "origin": "computed: the entropy and the mode of the triangle of sums"}
    said = runner.lines("predict", "--checkpoint", runner.last, "--count", "0")
    centre = lambda bin: sum(float(end) for end in bin.split(" to ")) / 2
    run["found"]["squared_error_of_bins"] = statistics.mean((centre(line["predicted"]) - centre(line["label"])) ** 2 for line in said)
    return {"task": "adding", "baseline": baseline, "criterion": "loss below 1, accuracy above 0.5, squared error of bins below 0.01", "runs": [run],
            "passed": run["found"]["loss"] < 1 and run["found"]["accuracy"] > 0.5 and run["found"]["squared_error_of_bins"] < 0.01}


def text(runner):
    run = runner.learn("char-rnn-stateful", "char-rnn-stateful",
                       "--data text --optimizer adam --learning-rate 0.003 --lr-schedule cosine --clip-norm 5 --mini-batch 32 --epochs 12".split())
    return {"task": "text", "baseline": {"bits_per_character": round(math.log2(97), 3), "origin": "computed: all 97 characters alike"},
            "criterion": "bits per character below 2.1 on text never seen", "runs": [run],
            "passed": run["found"]["bits_per_character"] < 2.1}


def speech(runner):
    run = runner.learn("small-deepspeech", str(MODELS / "small-deepspeech.textproto"),
                       "--data speech:56:3 --optimizer adam --learning-rate 0.002 --clip-norm 5 --mini-batch 10 --epochs 40 "
                       "--evaluate-every 0".split(), split="train")
    return {"task": "speech", "criterion": "character error rate below 0.1 on the prompts it learnt (51 of them)", "runs": [run],
            "passed": run["found"]["character_error_rate"] < 0.1}


def depth(runner):
    flags = "--data ctc:5:8:2000 --optimizer nesterov --learning-rate 0.01 --clip-norm 5 --mini-batch 20 --epochs 6".split()
    runs = {}
    for normalised in (False, True):
        for every in (0, 4):
            name = f"24 layers, {f'a shortcut every {every}' if every else 'no shortcuts'}{', batch norm' if normalised else ''}"
            runs[normalised, every] = runner.learn(name, stack(24, every, normalised), flags)
    error = {key: run["found"]["character_error_rate"] for key, run in runs.items()}
    accuracy = {key: run["found"]["accuracy"] for key, run in runs.items()}
    return {"task": "depth", "criterion": "without batch norm: accuracy below 0.1 without shortcuts, above 0.95 with one every 4",
            "runs": list(runs.values()), "passed": accuracy[False, 0] < 0.1 and accuracy[False, 4] > 0.95,
            "character_error_rates": [round(rate, 4) for rate in error.values()]}


def document(results):
    text = json.dumps({"origin": "measured; losses and rates repeat bit for bit; seconds are the wall clock's, on a machine that may have been busy", "tasks": results}, indent=1)
    # Points of a curve side by side.
    return re.sub(r"\[\s+([-\d.eE]+,)\s+([-\d.eE]+)(?:(,)\s+([-\d.eE]+))?\s+\](,?)\s+(?=[\[\]])",
                  lambda point: "[" + " ".join(filter(None, [point[1], point[2] + (point[3] or ""), point[4]])) + "]" + point[5] + " ",
                  text) + "\n"


TASKS = {"adding": adding, "text": text, "speech": speech, "depth": depth}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--only", choices=TASKS, help="one task")
    parser.add_argument("--json", help="file for the results; those of other tasks in it stay")
    arguments = parser.parse_args()
    path = pathlib.Path(arguments.json) if arguments.json else None
    results = json.loads(path.read_text())["tasks"] if path and path.exists() else []
    passed = True
    for name in [arguments.only] if arguments.only else TASKS:
        with tempfile.TemporaryDirectory() as folder:
            result = TASKS[name](Runner(arguments.millrace, folder))
        results = [other for other in results if other["task"] != name] + [result]
        passed = passed and result["passed"]
        print(f"{name}: {'passed' if result['passed'] else 'FAILED'} ({result['criterion']})")
        for run in result["runs"]:
            shown = ", ".join(f"{key} {value:.4g}" for key, value in run["found"].items() if key not in ("step", "samples"))
            print(f"  {run['name']:<44} {shown}; {run['seconds']} s (measured)")
        if path:
            path.write_text(document(results))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
