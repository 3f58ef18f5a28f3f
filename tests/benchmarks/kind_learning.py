#!/usr/bin/env python3
"""Whether layers divided by kind of product learn on emulated boards what a CPU learns: bits per character of the shipped text.

  tests/benchmarks/kind_learning.py --millrace build/release/bin/millrace --results tests/benchmarks/results/kind_learning.json
  tests/benchmarks/kind_learning.py --char-rnn --millrace build/release/bin/millrace --results tests/benchmarks/results/kind_char_rnn.json

One recurrent layer of 32 cells, LSTM and GRU (reset after the product), over 50 characters, 20 epochs: on one CPU; and with x W on a CPU
and the steps on an emulated board, in fp32 and in 16 bits, with the formats that boards begin with and with formats calibrated over ten
updates. All measured, and the same in every repetition. With --char-rnn the network of that name instead, three LSTM layers of 128 over 100
characters, the steps of one of them on a board.

Exit status 1: the last test's bits per character in fp32 are more than 0.5% away from the CPU's, or in 16 bits more than 5%. About eight
minutes of processor time, with --char-rnn forty.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MODEL = """name: "text-{cell}"
input {{ channels: 1 height: 50 width: 1 }}
input_kind: TOKENS
layers {{ name: "embedding" embedding {{ vocabulary: 128 dimension: 32 }} }}
layers {{ name: "rnn" {layer} }}
layers {{ name: "fc" dense {{ out_features: 128 }} }}
layers {{ name: "loss" softmax_cross_entropy {{}} }}
"""
CELLS = {"lstm": "lstm { hidden: 32 }", "gru": "gru { hidden: 32 reset_after: true }"}
TRAINING = "--data text --alignment flush --optimizer adam --learning-rate 0.003 --clip-norm 5 --mini-batch 32 --seed 1".split()
TRAINING_OF_CHAR_RNN = ("--data text --alignment flush --optimizer adam --learning-rate 0.003 --lr-schedule cosine --mini-batch 32 "
                        "--micro-batch 2 --seed 1").split()
# Cluster, what else to say, most that the last test may be away from the CPU's.
RINGS = {"cpu": (["--cluster", "cpux1"], 0),
         "fp32": (["--cluster", "cpu+emulated-fpga-fp32+cpu", "--strategy", "kind", "--divide", "boards"], 0.005),
         "16 bits": (["--cluster", "cpu+emulated-fpga+cpu", "--strategy", "kind", "--divide", "boards"], 0.05),
         "16 bits, calibrated": (["--cluster", "cpu+emulated-fpga+cpu", "--strategy", "kind", "--divide", "boards", "--calibrate", "10"], 0.05)}


def trained(flags, folder, cell, ring):
    if cell == "char-rnn":
        model, training = pathlib.Path(cell), TRAINING_OF_CHAR_RNN
    else:
        model, training = folder / f"{cell}.textproto", TRAINING
        model.write_text(MODEL.format(cell=cell, layer=CELLS[cell]), encoding="utf-8")
    out = folder / f"{cell}-{ring.replace(' ', '-')}"
    arguments = ["train", "--model", str(model), *RINGS[ring][0], *training, "--epochs", str(flags.epochs)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    started = time.monotonic()
    done = subprocess.run([flags.millrace, "--no-progress", *arguments, "--out", str(out), "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, env=environment, check=True)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    row = {"command": "millrace " + " ".join(arguments).replace(str(model), model.name), "seconds": round(time.monotonic() - started, 1),
           "curve": [[round(r["epoch"], 3), r["loss"]] for r in records if r["event"] == "epoch"],
           "bits_per_character": [r["bits_per_character"] for r in records if r["event"] == "evaluation"],
           "weights_digest": records[-1]["weights_digest"]}
    for path in sorted(out.rglob("arithmetic.json")):
        row["arithmetic"] = json.loads(path.read_text(encoding="utf-8"))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--char-rnn", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    flags = parser.parse_args()
    flags.millrace = str(pathlib.Path(flags.millrace).resolve())
    report = {"what": "layers divided by kind of product, the steps on emulated boards, beside one CPU", "origin": "measured; seconds on a shared machine",
              "models": {} if flags.char_rnn else {cell: MODEL.format(cell=cell, layer=layer) for cell, layer in CELLS.items()}, "rows": {}}
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for cell in ["char-rnn"] if flags.char_rnn else CELLS:
            rows = report["rows"][cell] = {}
            for ring, (_, most) in RINGS.items():
                if flags.char_rnn and ring == "16 bits":
                    continue  # as long again
                row = rows[ring] = trained(flags, pathlib.Path(folder), cell, ring)
                row["away_from_cpu"] = row["bits_per_character"][-1] / rows["cpu"]["bits_per_character"][-1] - 1
                row["accepted"] = most
                row["holds"] = abs(row["away_from_cpu"]) <= most
                fine = fine and row["holds"]
                print(f"{cell} {ring}: {row['bits_per_character'][-1]:.4f} bits per character, {row['away_from_cpu']:+.3%}, {row['seconds']} s", flush=True)
                if flags.results:
                    flags.results.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
