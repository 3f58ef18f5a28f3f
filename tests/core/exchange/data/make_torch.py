#!/usr/bin/env python3
"""Recurrent networks as torch.onnx writes them, with what PyTorch computes (Debian's python3-torch, 1.13):

    /usr/bin/python3 make_torch.py FOLDER

Their states to begin with are zeros of a shape that the file computes from the input's, and the last layer's last state is picked out of
all layers'. Each NAME.onnx has x and y in NAME.npz.
"""

import sys
from pathlib import Path

import numpy
import torch


class Network(torch.nn.Module):
    def __init__(self, kind, what, **options):
        super().__init__()
        self.cell, self.what = getattr(torch.nn, kind)(2, 3, **options), what
        self.head = torch.nn.Linear(6 if options.get("bidirectional") and what != "state" else 3, 4)

    def forward(self, x):
        outputs, states = self.cell(x)
        if self.what == "state":
            return self.head((states[0] if isinstance(states, tuple) else states)[-1])
        if self.what == "last":
            return self.head(outputs[:, -1] if self.cell.batch_first else outputs[-1])
        return self.head(outputs)


NETWORKS = {
    "torch_lstm_state": ("LSTM", "state", {"num_layers": 2, "batch_first": True}, False),
    "torch_lstm_last_open": ("LSTM", "last", {"batch_first": True}, True),
    "torch_gru_both_open": ("GRU", "last", {"num_layers": 2, "bidirectional": True, "batch_first": True}, True),
    "torch_gru_state_open": ("GRU", "state", {}, True),
    "torch_rnn_steps": ("RNN", "steps", {"bidirectional": True}, False),
}


def main():
    torch.manual_seed(2)
    for name, (kind, what, options, opened) in NETWORKS.items():
        network = Network(kind, what, **options).eval()
        with torch.no_grad():
            network.head.weight *= 3
        first = options.get("batch_first", False)
        x = torch.randn(*((2, 5) if first else (5, 2)), 2)
        path = Path(sys.argv[1]) / name
        axes = {"x": {0: "samples", 1: "steps"} if first else {0: "steps", 1: "samples"}} if opened else None
        torch.onnx.export(network, x, path.with_suffix(".onnx"), opset_version=13, input_names=["x"], output_names=["y"], dynamic_axes=axes)
        with torch.no_grad():
            numpy.savez(path.with_suffix(".npz"), x=x.numpy(), y=network(x).numpy())


if __name__ == "__main__":
    main()
