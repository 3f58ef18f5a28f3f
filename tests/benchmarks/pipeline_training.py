#!/usr/bin/env python3
"""How fast a ring of two ranks trains, beside one process of two threads and PyTorch on as many.

  tests/benchmarks/pipeline_training.py [--sizes 1,8,32] [--micro-batches 4,8] [--json pipeline.json]

VGG-16 for CIFAR on generated images, plain SGD with momentum. For each size M: mini-batches of 4 M and of 8 M.
  process   millrace train --cluster cpu --threads 2, micro-batches of M
  ring      mpirun -n 2 millrace train --cluster cpux2, one thread each, micro-batches of M, alignments flush, zero-bubble (the same sums as
            flush in a better order) and fpdeep; and cpux8, flush, eight devices on the two ranks
            With --measure rings are planned by this machine's own rates, else by the shipped ones.
  torch     PyTorch (the one of Debian's python3-torch, where it is installed) on two threads, batches of M
Images per second, the best of several runs in turn, measured; ratios are ring / process and ring / torch. The sides share
nothing but the machine, so nothing else should run on it. Nothing here gates anything.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")

TORCH = r"""
import sys, time, torch
torch.set_num_threads(2)
batch, steps = int(sys.argv[1]), int(sys.argv[2])
layers, channels = [], 3
for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
    if width == 0:
        layers.append(torch.nn.MaxPool2d(2))
        continue
    layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU(inplace=True)]
    channels = width
net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                          torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)
x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
step()
start = time.perf_counter()
for _ in range(steps):
    step()
print(batch * steps / (time.perf_counter() - start))
"""


def millrace(binary, size, micro_batches, ranks, more):
    launch = ["mpirun", "-n", str(ranks), "--bind-to", "none"] if ranks else []
    command = [*launch, binary, "--no-progress", "--log-level", "error", "train", "--model", "vgg16-cifar", "--data", "synthetic:3x32x32:10:512",
               "--mini-batch", str(micro_batches * size), "--micro-batch", str(size), "--learning-rate", "0.0001", "--dry-run", "--json", *more]
    line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT).stdout.strip().splitlines()[-1]
    return micro_batches * size / json.loads(line)["seconds_per_update"]


def torch(size, steps):
    result = subprocess.run(["/usr/bin/python3", "-c", TORCH, str(size), str(steps)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return float(result.stdout) if result.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--sizes", default="1,8,32")
    parser.add_argument("--micro-batches", default="4,8", help="of a mini-batch")
    parser.add_argument("--rings", default="flush,zero-bubble,fpdeep,eight")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--measure", action="store_true", help="plan rings by this machine's own rates")
    parser.add_argument("--machine", default="", help="what it is, for the JSON")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rings = {"flush": ("cpux2", "flush"), "zero-bubble": ("cpux2", "zero-bubble"), "fpdeep": ("cpux2", "fpdeep"), "eight": ("cpux8", "flush")}
    rings = {name: rings[name] for name in arguments.rings.split(",")}
    rows = []
    print("micro-batch x of a mini-batch: images/s of process, " + ", ".join(rings) + ", torch; ratios to process")
    for size in (int(text) for text in arguments.sizes.split(",")):
        for micro_batches in (int(text) for text in arguments.micro_batches.split(",")):
            best = {"process": 0.0, **dict.fromkeys(rings, 0.0), "torch": None}
            for _ in range(arguments.runs):
                best["process"] = max(best["process"], millrace(arguments.millrace, size, micro_batches, 0, ["--threads", "2"]))
                for name, (cluster, alignment) in rings.items():
                    more = ["--cluster", cluster, "--alignment", alignment, *(["--measure"] if arguments.measure else [])]
                    pace = millrace(arguments.millrace, size, micro_batches, 2, more)
                    best[name] = max(best[name], pace)
                peer = torch(size, max(2, 64 // size))
                best["torch"] = max(best["torch"] or 0, peer) if peer else best["torch"]
            row = {"micro_batch": size, "micro_batches": micro_batches, "images_per_second": {name: pace and round(pace, 1) for name, pace in best.items()}}
            for name in rings:
                row[f"{name}_over_process"] = round(best[name] / best["process"], 3)
                row[f"{name}_over_torch"] = round(best[name] / best["torch"], 3) if best["torch"] else None
            rows.append(row)
            print(f"{size:>3} x {micro_batches}: " + " ".join(f"{pace or 0:.1f}" for pace in best.values()) + "; "
                  + " ".join(f"{name} {row[name + '_over_process']:.2f}" for name in rings), flush=True)
    if arguments.json:
        commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
        document = {"command": " ".join(["tests/benchmarks/pipeline_training.py", *sys.argv[1:]]), "commit": commit, "origin": "measured",
                    "machine": arguments.machine, "load_at_the_end": os.getloadavg()[0], "rows": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
