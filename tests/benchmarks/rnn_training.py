"""The PyTorch side of the benchmark rnn_training: full training steps of a stack of recurrent layers.

    python3 rnn_training.py --cell lstm --layers 5 --hidden 256 --batch 4 --steps 100 --threads 1 --seconds 3

Prints {"sequences_per_second": .., "version": .., "blas": ..}: the fastest step of momentum SGD on random sequences,
after two of warm-up, by processor time on one thread and by elapsed time on more.
"""
import argparse
import json
import os
import time

import torch
from torch import nn

CLASSES = 10


class Network(nn.Module):
    def __init__(self, cell, layers, hidden):
        super().__init__()
        if cell == "lstm":
            self.cells = nn.LSTM(hidden, hidden, layers)
        elif cell == "gru":
            self.cells = nn.GRU(hidden, hidden, layers)
        else:
            self.cells = nn.RNN(hidden, hidden, layers, nonlinearity=cell[4:])
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, sequences):
        return self.head(self.cells(sequences)[0][-1])


def blas():
    """The file that BLAS calls end up in, as it is mapped."""
    with open("/proc/self/maps") as maps:
        files = {os.path.realpath(line.split()[-1]) for line in maps if "blas" in line and ".so" in line}
    return ", ".join(sorted(os.path.basename(file) for file in files)) or "no separate BLAS"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cell", required=True)
    for name in ("layers", "hidden", "batch", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    network = Network(options.cell, options.layers, options.hidden).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    sequences = torch.rand(options.steps, options.batch, options.hidden) - 0.5
    labels = torch.arange(options.batch) % CLASSES

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(network(sequences), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    now = time.process_time if options.threads == 1 else time.perf_counter
    for _ in range(2):
        step()
    times = []
    while len(times) < 3 or sum(times) < options.seconds:
        begin = now()
        step()
        times.append(now() - begin)
    print(json.dumps({"sequences_per_second": options.batch / min(times), "version": torch.__version__, "blas": blas()}))


if __name__ == "__main__":
    main()
