#!/usr/bin/env python3
"""Networks of the zoo, exported after an update and read by ONNX's own checker and shape inference (Debian's python3-onnx):

    /usr/bin/python3 tests/benchmarks/onnx_checker.py --millrace build/release/bin/millrace [--only lenet5] [--out FILE.json]

Prints a line for each; ends with 1 when one is refused.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

# The zoo's name -> data of its form, and as little of it as there is.
NETWORKS = {"mlp": "digits", "digits-cnn": "digits", "fashion-cnn": "synthetic:1x28x28:10:8", "lenet5": "synthetic:1x32x32:10:8",
            "alexnet": "synthetic:3x227x227:1000:2", "alexnet-grouped": "synthetic:3x227x227:1000:2", "alexnet-torch": "synthetic:3x224x224:1000:2",
            "vgg11-cifar": "synthetic:3x32x32:10:8", "resnet18-cifar": "synthetic:3x32x32:10:8", "resnet18": "synthetic:3x224x224:1000:2",
            "resnet50": "synthetic:3x224x224:1000:2", "googlenet": "synthetic:3x224x224:1000:2", "char-rnn": "text"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    only, rows = [one for one in options.only.split(",") if one], []
    for name, data in NETWORKS.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as place:
            run, file = Path(place) / "run", Path(place) / "net.onnx"
            subprocess.run([options.millrace, "train", "--model", name, "--data", data, "--steps", "1", "--mini-batch", "2", "--out", run], check=True, capture_output=True)
            subprocess.run([options.millrace, "export", "--checkpoint", run, "--onnx", file], check=True, capture_output=True)
            row = {"network": name}
            try:
                onnx.checker.check_model(str(file), full_check=True)
                model = onnx.shape_inference.infer_shapes(onnx.load(file), strict_mode=True, data_prop=True)
                row["nodes"] = len(model.graph.node)
                row["output"] = [one.dim_value or one.dim_param for one in model.graph.output[0].type.tensor_type.shape.dim]
            except Exception as reason:  # pylint: disable=broad-except
                row["refused"] = str(reason)[-300:]
        rows.append(row)
        print(f"{name:<18} {row.get('refused') or str(row['nodes']) + ' nodes, scores ' + str(row['output'])}", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"origin": "measured", "onnx": onnx.__version__, "rows": rows}, indent=1) + "\n")
    return 1 if any("refused" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
