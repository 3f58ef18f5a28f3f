#!/usr/bin/env python3
"""Training in bf16 beside fp32 on this processor: time of a step, and what is learned.

  tests/benchmarks/cpu_precision.py [--cases vgg16-cifar:32,resnet18-cifar:32] [--only steps] [--json cpu_precision.json]

  steps     build/release/bin/cpu_training --bf16 and rnn_training --bf16: images and sequences per second of both, and their ratio, in one
            process
  curves    millrace train --cpu-precision fp32 and bf16, the same seeds: test accuracy of digits (20 epochs) and Fashion-MNIST (4), and
            the largest distance between the two means of the loss on the test set by epoch

Wants a processor with AVX-512 BF16; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 hides AMX from it. All figures are measured, nothing here gates
anything. Nothing else should run on the machine while steps are timed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TASKS = {
    "digits": ["--model", "digits-cnn", "--data", "digits", "--epochs", "20", "--mini-batch", "32", "--micro-batch", "32",
               "--learning-rate", "0.02", "--lr-schedule", "cosine"],
    "fashion-mnist": ["--model", "fashion-cnn", "--data", "fashion-mnist", "--epochs", "4", "--mini-batch", "64", "--micro-batch", "32",
                      "--learning-rate", "0.007", "--lr-schedule", "cosine"],
}


def steps(program, cases, threads, seconds):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "steps.json"
        subprocess.run([program, "--bf16", "--no-torch", "--cases", cases, "--threads", threads, "--seconds", str(seconds),
                        "--json", path], check=True)
        return json.loads(path.read_text())


def trained(folder, task, precision, seed):
    """Loss on the test set by epoch, and the accuracy at the end."""
    command = [folder / "millrace", "--no-progress", "--log-level", "error", "train", *TASKS[task], "--seed", str(seed), "--cpu-precision",
               precision, "--json"]
    lines = [json.loads(line) for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    return [line["loss"] for line in lines if line["event"] == "evaluation"], lines[-1]["accuracy"]


def curves(folder, task, seeds):
    losses, accuracies = {}, {}
    for precision in ("fp32", "bf16"):
        runs = [trained(folder, task, precision, seed) for seed in seeds]
        losses[precision] = [statistics.mean(at) for at in zip(*(run[0] for run in runs))]
        accuracies[precision] = [run[1] for run in runs]
    apart = max(abs(a - b) for a, b in zip(losses["fp32"], losses["bf16"], strict=True))
    means = {precision: statistics.mean(values) for precision, values in accuracies.items()}
    print(f"{task}: " + ", ".join(f"{precision} {100 * mean:.2f}%" for precision, mean in means.items())
          + f"; losses by epoch at most {apart:.4f} apart", flush=True)
    return {"accuracy": accuracies, "loss_by_epoch": losses, "losses_apart": apart}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--cases", default="vgg16-cifar:8,vgg16-cifar:32,vgg16-cifar:128,resnet18-cifar:32,alexnet:8")
    parser.add_argument("--stacks", default="lstm:5x256:1,lstm:5x256:16,lstm:1x1024:1", help="of recurrent layers")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", choices=["steps", "curves"])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    document = {"origin": "measured", "command": "tests/benchmarks/cpu_precision.py",
                "instruction_set": os.environ.get("ONEDNN_MAX_CPU_ISA", "all that the processor has")}
    if options.only != "curves":
        document["steps"] = (steps(options.bin / "cpu_training", options.cases, options.threads, options.seconds)
                             + steps(options.bin / "rnn_training", options.stacks, options.threads, options.seconds))
    if options.only != "steps":
        seeds = [int(seed) for seed in options.seeds.split(",")]
        document["curves"] = {task: curves(options.bin, task, seeds) for task in TASKS}
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
