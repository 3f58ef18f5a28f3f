"""Kills a rank of a training divided by kind of product, its steps on emulated boards and time in chunks, and lets it resume: the same weights
to the bit as without.

    kill_steps.py --millrace bin/millrace --count 10 [--boards 3] [--projected] [--results killed_steps.json]

A kill's moment is drawn from its number, between the first checkpoint and the end. Exit status 0: every resumption gave the digest; 1: not.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 60
# A board to each layer; or three that share the steps of each, cells divided unevenly.
CLUSTERS = {1: "cpu+emulated-fpga+cpu+emulated-fpga+cpu", 3: "cpu+emulated-fpgax3+cpu+emulated-fpgax3+cpu"}
JOB = ["--model", "small.textproto", "--data", "text", "--strategy", "kind", "--divide", "boards", "--mini-batch", "4", "--micro-batch", "2",
       "--time-chunks", "4"]
# The norm takes its statistics of each micro-batch, so the processor behind the gru's boards makes it.
MODEL = """name: "small"
input_kind: TOKENS
input { channels: 1 height: 100 width: 1 }
layers { name: "embedding" embedding { vocabulary: 97 dimension: 6 } initializer: TORCH_UNIFORM }
layers { name: "lstm" lstm { hidden: 9 truncation: 16 } initializer: TORCH_UNIFORM }
layers { name: "gru" gru { hidden: 7 reset_after: true } initializer: TORCH_UNIFORM }
layers { name: "norm" batch_norm {} }
layers { name: "fc" dense { out_features: 97 } }
layers { name: "loss" softmax_cross_entropy {} }
"""


def start(millrace, ranks, arguments, folder):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", millrace, "train", *arguments, "--steps", str(STEPS), "--evaluate-every", "0", "--json",
               "--log-level", "error"]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def digest_of(process):
    out, err = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"status {process.returncode}: {err[-500:]}")
    return json.loads(out.strip().splitlines()[-1])["weights_digest"]


def ranks_of(process, millrace):
    """The processes that train, of this launcher alone."""
    listed = subprocess.run(["ps", "--ppid", str(process.pid), "-o", "pid=,args="], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if Path(millrace).name in line]


def kill_one(millrace, folder, number, whole, job):
    chance = random.Random(number)
    out = f"killed_{number}"
    ranks = chance.choice((2, 3, 5))
    process = start(millrace, ranks, [*job, "--checkpoint-every", "1", "--out", out], folder)
    checkpoints = Path(folder) / out / "checkpoints"
    while process.poll() is None and not (checkpoints.is_dir() and any(checkpoints.iterdir())):
        time.sleep(0.005)
    time.sleep(chance.random() * 0.8)
    victims = ranks_of(process, millrace)
    struck = process.poll() is None and bool(victims)
    if struck:
        os.kill(chance.choice(victims), signal.SIGKILL)
    process.communicate(timeout=120)
    kept = len(list(checkpoints.iterdir()))
    digest = digest_of(start(millrace, chance.choice((1, 2, 3)), ["--resume", out], folder))
    return {"number": number, "ranks": ranks, "struck": struck, "status": process.returncode, "checkpoints": kept, "same": digest == whole}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--boards", type=int, choices=CLUSTERS, default=1, help="that make the steps of a layer")
    parser.add_argument("--projected", action="store_true", help="the lstm's outputs are, which boards that share its steps divide with its cells")
    parser.add_argument("--results")
    arguments = parser.parse_args()
    millrace = str(Path(arguments.millrace).resolve())
    job = [*JOB, "--cluster", CLUSTERS[arguments.boards]]
    with tempfile.TemporaryDirectory() as folder:
        model = MODEL.replace("hidden: 9 ", "hidden: 15 projection: 5 ") if arguments.projected else MODEL
        (Path(folder) / "small.textproto").write_text(model, encoding="utf-8")
        whole = digest_of(start(millrace, 1, [*job, "--out", "whole"], folder))
        if "after: true" not in (Path(folder) / "whole" / "plan.textproto").read_text(encoding="utf-8"):
            raise RuntimeError("what follows the gru's steps is not on a device of its own in this plan")
        rows = []
        number = 0
        while sum(row["struck"] for row in rows) < arguments.count and number < 3 * arguments.count:
            rows.append(kill_one(millrace, folder, number, whole, job))
            print(json.dumps(rows[-1]), flush=True)
            number += 1
    struck = [row for row in rows if row["struck"]]
    same = sum(row["same"] for row in rows)
    report = {"what": "a rank killed while boards made steps in chunks of time, then resumed on other ranks", "origin": "measured", "updates": STEPS,
              "boards_to_a_layer": arguments.boards, "projected": arguments.projected, "killed": len(struck), "resumed_to_the_same_digest": same, "of": len(rows), "runs": rows}
    if arguments.results:
        Path(arguments.results).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{len(struck)} killed, {same} of {len(rows)} resumed to the same digest")
    return 0 if same == len(rows) and len(struck) >= min(arguments.count, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
