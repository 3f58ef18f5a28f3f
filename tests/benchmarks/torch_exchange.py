#!/usr/bin/env python3
"""What PyTorch computes and what Millrace makes of its files (Debian's python3-torch, python3-torchvision, python3-numpy):

    /usr/bin/python3 tests/benchmarks/torch_exchange.py --millrace build/release/bin/millrace [--only resnet18,lstm] [--out FILE.json]

Networks with random weights: eight of torchvision, once as a state dict in safetensors and once through torch.onnx, and recurrent ones through
torch.onnx. Each is imported, asked about the same random samples, and the probabilities of all classes are compared: at most 1e-5 apart.
Prints a line for each; ends with 1 when one is further away.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torchvision

TOLERANCE = 1e-5
SAMPLES = 2
# torchvision's name -> the zoo's
VISION = {"alexnet": "alexnet-torch", "vgg11": "vgg11", "vgg16": "vgg16", "resnet18": "resnet18", "resnet34": "resnet34", "resnet50": "resnet50",
          "resnet101": "resnet101", "googlenet": "googlenet"}


def save_safetensors(path, tensors):
    header, place = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


class Recurrent(torch.nn.Module):
    def __init__(self, kind, both, samples_first, last):
        super().__init__()
        self.cell = getattr(torch.nn, kind)(5, 7, bidirectional=both, batch_first=samples_first)
        self.head = torch.nn.Linear(14 if both else 7, 6)
        self.samples_first, self.last = samples_first, last

    def forward(self, x):
        states, _ = self.cell(x)
        if self.last:
            states = states[:, -1] if self.samples_first else states[-1]
        return self.head(states)


def networks(only):
    for name in VISION:
        if only and name not in only:
            continue
        options = {"init_weights": True} if name == "googlenet" else {}
        if name == "googlenet":
            options["aux_logits"] = False
        model = getattr(torchvision.models, name)(weights=None, **options)
        for module in model.modules():  # statistics that are not those of the beginning
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
                torch.nn.init.uniform_(module.running_var, 0.8, 1.2)
        yield name, model.eval(), torch.randn(SAMPLES, 3, 224, 224)
    for kind in ("LSTM", "GRU", "RNN"):
        for both in (False, True):
            name = f"{kind.lower()}{'_both' if both else ''}"
            if not only or name in only:
                yield name, Recurrent(kind, both, samples_first=True, last=not both).eval(), torch.randn(SAMPLES, 5, 5)


def asked(millrace, folder, x):
    """[sample][class] of the imported network."""
    numpy.save(folder / "x.npy", x.numpy())
    lines = subprocess.run([millrace, "predict", "--checkpoint", folder / "net", "--files", folder / "x.npy", "--top", "1000", "--micro-batch", str(len(x)), "--json"],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    rows = []
    for line in lines:
        row = {one["class"]: one["probability"] for one in json.loads(line)["predictions"]}
        rows.append([row[c] for c in range(len(row))])
    return numpy.array(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    results, failed = [], False
    for name, model, x in networks([one for one in options.only.split(",") if one]):
        with torch.no_grad():
            scores = model(x)
        if scores.dim() == 3:  # a row of scores for each step: the network is asked about single samples only
            results.append({"network": name, "way": "torch.onnx", "difference": None, "note": "scores every step: imported, not asked"})
        expected = torch.softmax(scores.double(), -1).numpy()
        ways = (["safetensors"] if name in VISION else []) + ["torch.onnx"]
        for way in ways:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                if way == "safetensors":
                    save_safetensors(folder / "w.safetensors", model.state_dict())
                    command = ["--model", VISION[name], "--weights", folder / "w.safetensors"]
                else:
                    torch.onnx.export(model, x, folder / "net.onnx", opset_version=13)
                    command = ["--onnx", folder / "net.onnx"]
                subprocess.run([options.millrace, "import", *command, "--out", folder / "net"], check=True, capture_output=True)
                if expected.ndim == 3:
                    print(f"{name:<12} {way:<12} imported")
                    continue
                difference = float(numpy.abs(asked(options.millrace, folder, x) - expected).max())
            failed = failed or difference > TOLERANCE
            results.append({"network": name, "way": way, "difference": difference})
            print(f"{name:<12} {way:<12} {difference:.2e}", flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__, "tolerance": TOLERANCE, "rows": results}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
