#!/usr/bin/env python3
"""What PyTorch computes and what Millrace makes of its files (Debian's python3-torch, python3-torchvision, python3-numpy):

    /usr/bin/python3 tests/benchmarks/torch_exchange.py --millrace build/release/bin/millrace [--only resnet18,lstm] [--out FILE.json]

Networks with random weights: eight of torchvision, once as a state dict in safetensors and once through torch.onnx, and recurrent ones through
torch.onnx. Each is imported, asked about the same random samples, and the logarithms of all classes' probabilities (the scores, but for what all of a
sample have in common) are compared with PyTorch's in double precision: at most 1e-5 apart where scores are spread by about 1, or twice what
PyTorch's own single precision is.
Prints a line for each; ends with 1 when one is further away.
"""

import argparse
import copy
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
    """what: "steps" scores every step, "last" the last output, "state" the last layer's last state (h_n)."""

    def __init__(self, kind, both=False, samples_first=True, what="last", layers=1, ids=False):
        super().__init__()
        self.table = torch.nn.Embedding(11, 5) if ids else torch.nn.Identity()
        self.cell = getattr(torch.nn, kind)(5, 7, layers, bidirectional=both, batch_first=samples_first)
        self.head = torch.nn.Linear(14 if both else 7, 6)
        self.samples_first, self.what = samples_first, what

    def forward(self, x):
        outputs, states = self.cell(self.table(x))
        if self.what == "state":
            return self.head((states[0] if isinstance(states, tuple) else states)[-1])
        if self.what == "last":
            outputs = outputs[:, -1] if self.samples_first else outputs[-1]
        return self.head(outputs)


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
        x = torch.randn(SAMPLES, 3, 224, 224)
        with torch.no_grad():  # scores of about 1 apart: none is certain, so that every class says something
            model.eval()
            last = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
            spread = (model(x) - last.bias).std()
            last.weight /= spread
        yield name, model, x, None
    for kind in ("LSTM", "GRU", "RNN"):
        for options in ({}, {"both": True}, {"samples_first": False}, {"what": "state"}, {"what": "state", "layers": 2, "ids": True},
                        {"both": True, "layers": 2, "ids": True}, {"both": True, "samples_first": False, "layers": 3}, {"what": "steps"}):
            for open_extents in (False, True):
                words = [key if value is True else f"{value}_layers" if key == "layers" else "steps_first" if value is False else str(value) for key, value in options.items()]
                name = "_".join([kind.lower(), *words, *(["open"] if open_extents else [])])
                if only and name not in only and kind.lower() not in only:
                    continue
                x = torch.randint(0, 11, (SAMPLES, 5)) if options.get("ids") else torch.randn(SAMPLES, 5, 5)
                first = options.get("samples_first", True)
                x = x if first else x.transpose(0, 1).contiguous()
                model = Recurrent(kind, **options).eval()
                with torch.no_grad():
                    model.head.weight *= 10
                yield name, model, x, {"x": {0 if first else 1: "samples", 1 if first else 0: "steps"}} if open_extents else None


def asked(millrace, folder, x):
    """[sample][class] of the imported network."""
    numpy.save(folder / "x.npy", x)
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
    for name, model, x, axes in networks([one for one in options.only.split(",") if one]):
        with torch.no_grad():
            single = torch.log_softmax(model(x).double(), -1).numpy()
            exact = copy.deepcopy(model).double()
            expected = torch.log_softmax(exact(x.double() if x.is_floating_point() else x), -1).numpy()
        of_torch = float(numpy.abs(single - expected).max())
        samples = x.numpy() if getattr(model, "samples_first", True) else x.numpy().swapaxes(0, 1).copy()
        ways = (["safetensors"] if name in VISION else []) + ["torch.onnx"]
        for way in ways:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                if way == "safetensors":
                    save_safetensors(folder / "w.safetensors", model.state_dict())
                    command = ["--model", VISION[name], "--weights", folder / "w.safetensors"]
                else:
                    torch.onnx.export(model, x, folder / "net.onnx", opset_version=13, input_names=["x"], dynamic_axes=axes)
                    command = ["--onnx", folder / "net.onnx"]
                subprocess.run([options.millrace, "import", *command, "--out", folder / "net"], check=True, capture_output=True)
                if expected.ndim == 3:  # a row of scores for each step: single samples are asked only
                    results.append({"network": name, "way": way, "difference": None, "note": "scores every step: imported, not asked"})
                    print(f"{name:<36} {way:<12} imported")
                    continue
                found = numpy.log(asked(options.millrace, folder, samples))
            difference = float(numpy.abs(found - expected).max())
            failed = failed or not difference <= max(TOLERANCE, 2 * of_torch)
            results.append({"network": name, "way": way, "difference": difference, "of_torch": of_torch})
            print(f"{name:<36} {way:<12} {difference:.2e}   PyTorch's fp32 {of_torch:.2e}", flush=True)
        del model, exact
    if options.out:
        Path(options.out).write_text(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__, "tolerance": TOLERANCE, "rows": results}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
