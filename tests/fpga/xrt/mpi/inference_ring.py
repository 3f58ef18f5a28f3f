"""Plans for inference on every kind of FPGA that this machine can compute: the millrace command, alone and under mpirun.

    inference_ring.py --mpirun mpirun --millrace bin/millrace functional       emulated-fpga, alone and on two ranks, and with other engines
    inference_ring.py --mpirun mpirun --millrace bin/millrace behind_xrt       xrt-emulated-fpga
    inference_ring.py --mpirun mpirun --millrace bin/millrace simulated        cosim and xrt-cosim, with lines and tables; builds engines first
    inference_ring.py --mpirun mpirun --millrace bin/millrace steps_alone      the steps on each of them, the products with x on a processor
    inference_ring.py --mpirun mpirun --millrace bin/millrace many_engines --engines 12 [--json FILE]       minutes: builds each of them

Every one must say of every sample what emulated-fpga says alone, to the last digit, in a calibrated run's formats.
Exit status 0 all promises kept, 1 not, 77 this machine or build lacks what the case needs.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
# A cell of few units, so that engines are small; what follows it on a device of its own.
MODEL = """version: 1
name: "small-rows"
input {{ channels: 1 height: 8 width: 8 }}
layers {{ name: "steps" to_sequence {{}} }}
layers {{ name: "lstm" {cell} }}
layers {{ name: "last" last_step {{}} }}
layers {{ name: "fc" dense {{ out_features: 10 }} }}
layers {{ name: "loss" softmax_cross_entropy {{}} }}
"""
# With gates that are straight lines, and with hard ones of both slopes; with a second matrix behind the cell.
CELLS = {"lstm": (4, "lstm { hidden: 4 }"), "lstm, projected": (4, "lstm { hidden: 8 projection: 4 }"), "gru": (3, "gru { hidden: 4 reset_after: true }"),
         "rnn_tanh": (1, "rnn_tanh { hidden: 4 }"), "rnn_relu": (1, "rnn_relu { hidden: 4 }"),
         "lstm, hard fifth": (4, "lstm { hidden: 4 gate_activation: HARD_SIGMOID gate_slope: 0.2 }"),
         "gru, hard sixth": (3, "gru { hidden: 4 reset_after: true gate_activation: HARD_SIGMOID gate_slope: 0.16666667 }")}


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def run(folder, *words, status=0):
    result = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False, timeout=900)
    expect(result.returncode == status, f"{' '.join(map(str, words))}: status {result.returncode}: {result.stderr[-2000:]}")
    return result.stdout


def prepared(tools, folder, cell="lstm"):
    """A calibrated run, and its plan on two boards."""
    (folder / "model.textproto").write_text(MODEL.format(cell=CELLS[cell][1]))
    run(folder, tools.millrace, "train", "--model", "model.textproto", "--data", "digits", "--cluster", "emulated-fpga", "--calibrate", 2,
        "--steps", 12, "--mini-batch", 32, "--optimizer", "adam", "--learning-rate", 0.02, "--seed", 3, "--out", "run")
    expect((folder / "run/formats.txt").exists(), "a calibrated run has formats")
    told = json.loads((folder / "run/arithmetic.json").read_text())
    expect(told["elements"] > 0 and told["accumulator_overflows"] == 0, "accumulators overflow in calibrated formats")
    run(folder, tools.millrace, "plan", "--model", "model.textproto", "--cluster", "zc706x2", "--inference", "--streams", 2, "--out",
        "plan.textproto")


def asked(tools, folder, kind, ranks=1, plan="plan.textproto", count=24):
    """What predict says of the samples, and its last object."""
    launcher = [tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    output = run(folder, *launcher, tools.millrace, "predict", "--checkpoint", "run", "--plan", plan, "--cluster", f"{kind}x2", "--json",
                 "--count", count)
    lines = output.splitlines()
    last = json.loads(lines[-1])
    expect(last["event"] == "prediction" and last["modelled"]["origin"].startswith("model at "), lines[-1])
    latency = last["modelled"]["latency"]
    expect(abs(sum(latency.values()) - last["modelled"]["first_result_seconds"]) < 1e-12, f"the latency's parts add up: {latency}")
    expect("seconds" in last["measured"] and "cycles_per_batch" not in last["measured"], "measured and modelled figures are apart")
    return lines[:-1], last


def functional(tools, folder):
    alone, _ = asked(tools, folder, "emulated-fpga", count=0)
    expect(len(alone) == 360, f"{len(alone)} samples")
    expect(asked(tools, folder, "emulated-fpga", ranks=2, count=0)[0] == alone, "two ranks say something else")
    text = (folder / "plan.textproto").read_text()
    (folder / "chunks.textproto").write_text(text.replace("micro_batch:", "time_chunks: 4\nmicro_batch:", 1))
    expect(asked(tools, folder, "emulated-fpga", ranks=2, plan="chunks.textproto", count=0)[0] == alone, "chunks of time say something else")
    (folder / "run/formats.txt").rename(folder / "formats.txt")
    expect(asked(tools, folder, "emulated-fpga", count=0)[0] != alone, "the run's formats make no difference")
    reals, _ = asked(tools, folder, "cpu", count=0)
    expect(reals != alone, "sixteen bits make no difference")


def behind_xrt(tools, folder):
    needs_xrt(tools)
    expected, _ = asked(tools, folder, "emulated-fpga", count=0)
    for ranks in (1, 2):
        expect(asked(tools, folder, "xrt-emulated-fpga", ranks, count=0)[0] == expected, f"xrt-emulated-fpga on {ranks} ranks differs")


def has_xrt(tools):
    findings = json.loads(run(Path.cwd(), tools.millrace, "doctor", "--json"))["findings"]
    finding = next(finding for finding in findings if finding["name"] == "XRT emulation")
    if not finding["present"]:
        print(finding["detail"])
    return finding["present"]


def needs_xrt(tools):
    if not has_xrt(tools):
        print("skipped: XRT's emulation is not there")
        sys.exit(SKIPPED)


def needs_verilator():
    if shutil.which("verilator") is None:
        print("skipped: verilator is not installed")
        sys.exit(SKIPPED)


def with_engine(text, **amounts):
    """The plan's text with other amounts of its one weight stream."""
    for name, value in amounts.items():
        text, count = re.subn(rf'(name: "weight_stream_{name}"\s+amount: )[-+.e0-9]+', rf"\g<1>{value}", text)
        expect(count == 1, f"{count} times weight_stream_{name}")
    return text


# An engine of few multipliers: 4 units by 4 gates in two groups of rows, two blocks of weights streamed.
SMALL = {"row_lanes": 8, "columns": 1, "tail_units": 1, "block_chunks": 6, "slots": 2, "words_per_cycle": 4, "streams": 3, "steps": 4, "pinned": 0}


def simulated(tools, folder):
    needs_verilator()
    folder = folder / "projected"
    folder.mkdir()
    prepared(tools, folder, "lstm, projected")
    plan = folder / "small.textproto"
    plan.write_text(with_engine((folder / "plan.textproto").read_text(), **SMALL))
    expected, _ = asked(tools, folder, "emulated-fpga", plan=plan)
    for kind, ranks in (("cosim", 1), ("cosim", 2), ("xrt-cosim", 1), ("xrt-cosim", 2)):
        if kind == "xrt-cosim":
            needs_xrt(tools)
        expect(asked(tools, folder, kind, ranks, plan)[0] == expected, f"{kind} on {ranks} ranks differs")
    tables, _ = asked(tools, folder, "emulated-fpga-tables", plan=plan)
    expect(tables != expected, "tables make no difference")
    for kind in ("cosim-tables", "xrt-cosim-tables"):
        expect(asked(tools, folder, kind, plan=plan)[0] == tables, f"{kind} differs")


def steps_alone(tools, folder):
    """A layer divided by kind of product: x W on a processor, the steps on a board, whose engine holds all weights of h and takes sums."""
    for cell in ("lstm", "gru"):
        own = folder / cell
        own.mkdir()
        prepared(tools, own, cell)
        run(own, tools.millrace, "plan", "--model", "model.textproto", "--cluster", "cpux3", "--strategy", "kind", "--inference", "--streams", 4,
            "--out", "kind.textproto")
        on_processors = of_steps(tools, own, "cpu")
        expected = of_steps(tools, own, "emulated-fpga")
        expect(len(expected) == 360 and expected != on_processors, "sixteen bits make no difference")
        others = [("emulated-fpga", 2)] + [("cosim", 1), ("cosim", 2)] * (shutil.which("verilator") is not None)
        if has_xrt(tools):
            others += [("xrt-emulated-fpga", 1)] + [("xrt-cosim", 1)] * (shutil.which("verilator") is not None)
        for kind, ranks in others:
            expect(of_steps(tools, own, kind, ranks) == expected, f"{cell}: steps on {kind}, {ranks} ranks, differ")
        print(cell, "the same on", others)


def of_steps(tools, folder, kind, ranks=1):
    launcher = [tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    output = run(folder, *launcher, tools.millrace, "predict", "--checkpoint", "run", "--plan", "kind.textproto", "--cluster", f"cpu+{kind}+cpu",
                 "--json", "--count", 0)
    return [line for line in output.splitlines() if '"sample"' in line]


def many_engines(tools, folder):
    """Cells, lanes, columns, blocks, slots, sequences and steps side by side, and chunks of time, drawn; on cosim, every third behind XRT, on
    one rank or two."""
    needs_verilator()
    draw = random.Random(tools.seed)
    runs, done = {}, []
    while len(done) < tools.engines:
        cell = draw.choice(list(CELLS))
        if cell not in runs:
            own = folder / f"cell-{len(runs)}"
            own.mkdir()
            prepared(tools, own, cell)
            runs[cell] = own, (own / "plan.textproto").read_text(), asked(tools, own, "emulated-fpga", count=0)[0]
        own, text, expected = runs[cell]
        columns = draw.choice((1, 1, 2, 4))
        engine = {"row_lanes": CELLS[cell][0] * draw.choice((1, 2, 4)), "columns": columns, "tail_units": draw.choice((1, 2, 4)), "slots": draw.choice((2, 3)),
                  "words_per_cycle": draw.choice((4, 8, 16)), "pinned": draw.choice((0, 0, 1, 2)), "streams": draw.choice((1, 2, 3, 8, 32)),
                  "steps": draw.choice((1, 2, 4, 8)), "block_chunks": draw.randint(1, 12 // columns)}
        plan = own / "drawn.textproto"
        chunks = draw.choice([chunks for chunks in (1, 1, 2, 4) if 8 // chunks % engine["steps"] == 0])
        plan.write_text(with_engine(text, **engine).replace("micro_batch:", f"time_chunks: {chunks}\nmicro_batch:", 1))
        started = time.monotonic()
        kind = "xrt-cosim" if len(done) % 3 == 2 else "cosim"
        ranks = 1 if kind == "xrt-cosim" else draw.choice((1, 2))
        launcher = [tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        result = subprocess.run([*launcher, tools.millrace, "predict", "--checkpoint", "run", "--plan", plan, "--cluster", f"{kind}x2", "--json", "--count", "0"],
                                cwd=own, capture_output=True, text=True, check=False, timeout=900)
        if result.returncode != 0 and re.search("no engine is generated|a power of two|malformed|must be|do not divide|at most", result.stderr):
            continue  # cannot be built, said by name
        expect(result.returncode == 0, f"{engine}: {result.stderr[-2000:]}")
        expect(result.stdout.splitlines()[:-1] == expected, f"{kind} with {engine} differs")
        done.append({"cell": cell, **engine, "kind": kind, "ranks": ranks, "chunks": chunks, "samples": len(expected), "equal": True, "seconds": round(time.monotonic() - started, 1)})
        print(done[-1], flush=True)
    if tools.json:
        Path(tools.json).write_text(json.dumps({"what": "predictions with drawn engines equal emulated-fpga's to the last digit (measured)",
                                                "model": "a cell of 4 units, digits row by row, 8 steps, calibrated", "engines": done}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=("functional", "behind_xrt", "simulated", "steps_alone", "many_engines"))
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--engines", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json")
    tools = parser.parse_args()
    tools.millrace = os.path.abspath(tools.millrace)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if tools.case in ("functional", "behind_xrt"):
                prepared(tools, folder)
            globals()[tools.case](tools, folder)
        except Failure as failure:
            print(f"FAILED: {failure}")
            return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
