"""Rings in which boards make the steps of recurrent layers: trained through XRT's emulation and on simulated RTL, by the millrace command under
mpirun, held against the functional model; and a rank killed among the steps, after which others go on.

    steps_ring.py --mpirun mpirun --millrace bin/millrace trained      8 updates on each kind of board, on 1 and 2 ranks: one digest
    steps_ring.py --mpirun mpirun --millrace bin/millrace projected    8 of a layer that projects its outputs, on 2 ranks
    steps_ring.py --mpirun mpirun --millrace bin/millrace killed --count 10 [--results steps_on_real_paths.json]
                                       the same of 20 updates; and a rank of two killed at a drawn moment of each of
                                       the two kinds, resumed: the same digest

Engines are simulated where Verilator is, and boards emulated where XRT is; what is missing is said. Exit status 0: all promises kept, 1: not, 77:
neither is there.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
STEPS = 20
FEW_STEPS = 8
MODEL = """name: "small"
input_kind: TOKENS
input { channels: 1 height: 100 width: 1 }
layers { name: "embedding" embedding { vocabulary: 97 dimension: 4 } initializer: TORCH_UNIFORM }
layers { name: "lstm" lstm { hidden: 7 truncation: 16 } initializer: TORCH_UNIFORM }
layers { name: "gru" gru { hidden: 6 reset_after: true } initializer: TORCH_UNIFORM }
layers { name: "fc" dense { out_features: 97 } }
layers { name: "loss" softmax_cross_entropy {} }
"""
JOB = ["--model", "small.textproto", "--data", "text", "--strategy", "kind", "--divide", "boards",
       "--mini-batch", "4", "--micro-batch", "2", "--time-chunks", "4", "--evaluate-every", "0", "--json", "--log-level", "error"]


def kinds_here(tools):
    """Of the two, those that can be tried, and why the others cannot."""
    report = json.loads(subprocess.run([tools.millrace, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    xrt = next(finding for finding in report["findings"] if finding["name"] == "XRT emulation")
    found, missing = [], []
    if shutil.which("verilator"):
        found.append("cosim")
    else:
        missing.append("cosim: verilator is not installed")
    if xrt["present"]:
        found.append("xrt-emulated-fpga")
    else:
        missing.append(f"xrt-emulated-fpga: {xrt['detail']}")
    return found, missing


def start(tools, ranks, arguments, folder):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), tools.millrace, "train", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done_of(process, updates=STEPS):
    out, err = process.communicate(timeout=900)
    if process.returncode != 0:
        raise RuntimeError(f"status {process.returncode}: {err[-2000:]}")
    done = json.loads(out.strip().splitlines()[-1])
    if done["step"] != updates:
        raise RuntimeError(f"{done['step']} updates of {updates}")
    return done["weights_digest"]


def on(kind, updates=STEPS):
    return [*JOB, "--steps", str(updates), "--cluster", f"cpu+{kind}+cpu+{kind}+cpu"]


def trained(tools, folder, kinds, updates):
    expected = done_of(start(tools, 1, [*on("emulated-fpga", updates), "--out", "emulated"], folder), updates)
    rows = []
    for kind in kinds:
        for ranks in (1, 2):
            digest = done_of(start(tools, ranks, [*on(kind, updates), "--out", f"{kind}-{ranks}"], folder), updates)
            rows.append({"kind": kind, "ranks": ranks, "updates": updates, "digest": digest, "same": digest == expected})
            print(json.dumps(rows[-1]), flush=True)
    return expected, rows


def trained_projected(tools, folder, kinds):
    updates = FEW_STEPS
    (folder / "small.textproto").write_text(MODEL.replace("lstm { hidden: 7 ", "lstm { hidden: 7 projection: 3 "), encoding="utf-8")

    def digest_on(kind, ranks):
        return done_of(start(tools, ranks, [*on(kind, updates), "--out", f"projected-{kind}-{ranks}"], folder), updates)

    expected = digest_on("emulated-fpga", 1)
    rows = [{"kind": kind, "ranks": 2, "same": digest_on(kind, 2) == expected} for kind in kinds]
    for row in rows:
        print(json.dumps(row), flush=True)
    return 0 if all(row["same"] for row in rows) else 1


def ranks_of(process, millrace):
    """The processes that train, of this launcher alone."""
    listed = subprocess.run(["ps", "--ppid", str(process.pid), "-o", "pid=,args="], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if Path(millrace).name in line]


def killed_one(tools, folder, number, kind, expected):
    chance = random.Random(number)
    out = f"killed_{kind}_{number}"
    process = start(tools, 2, [*on(kind), "--checkpoint-every", "1", "--out", out], folder)
    checkpoints = folder / out / "checkpoints"
    wanted = chance.randrange(1, STEPS - 4)  # updates before the kill
    while process.poll() is None and not (checkpoints.is_dir() and any(int("".join(filter(str.isdigit, entry.name)) or 0) >= wanted
                                                                          for entry in checkpoints.iterdir())):
        time.sleep(0.002)
    time.sleep(chance.random() * 0.05)
    victims = ranks_of(process, tools.millrace)
    struck = process.poll() is None and bool(victims)
    if struck:
        os.kill(chance.choice(victims), signal.SIGKILL)
    process.communicate(timeout=300)
    ranks = chance.choice((1, 2))
    resumed = start(tools, ranks, ["--resume", out, "--json", "--log-level", "error"], folder)
    digest = done_of(resumed)
    return {"number": number, "kind": kind, "struck": struck, "status": process.returncode, "behind_update": wanted, "resumed_on": ranks,
            "same": digest == expected}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["trained", "projected", "killed"])
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--count", type=int, default=10, help="ranks killed of each kind")
    parser.add_argument("--results")
    tools = parser.parse_args()
    tools.millrace = str(Path(tools.millrace).resolve())
    kinds, missing = kinds_here(tools)
    for reason in missing:
        print(f"skipped: {reason}")
    if not kinds:
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.textproto").write_text(MODEL, encoding="utf-8")
        if tools.case == "projected":
            return trained_projected(tools, folder, kinds)
        expected, rows = trained(tools, folder, kinds, STEPS if tools.case == "killed" else FEW_STEPS)
        killed = []
        for kind in kinds if tools.case == "killed" else []:
            number = 0
            while sum(row["struck"] for row in killed if row["kind"] == kind) < tools.count and number < 3 * tools.count:
                killed.append(killed_one(tools, folder, number, kind, expected))
                print(json.dumps(killed[-1]), flush=True)
                number += 1
    if tools.results:
        report = {"what": "steps of two recurrent layers on boards, x W and gradients on a CPU: simulated RTL, and the functional model behind XRT's "
                          "emulation, beside the functional model", "origin": "measured", "digest": expected, "trained": rows, "killed": killed}
        Path(tools.results).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    struck = sum(row["struck"] for row in killed)
    same = sum(row["same"] for row in killed if row["struck"])
    if killed:
        print(f"{struck} killed, {same} of them resumed to the same digest")
    enough = tools.case != "killed" or struck >= tools.count * len(kinds)
    return 0 if all(row["same"] for row in rows + killed) and enough else 1


if __name__ == "__main__":
    sys.exit(main())
