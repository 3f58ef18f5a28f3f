"""The PyTorch side of the benchmark cpu_training: full training steps of a network that cpu_training described.

    python3 cpu_training.py --network net.json --batch 32 --threads 2 --seconds 4

Prints {"images_per_second": .., "version": ..}: the fastest step of momentum SGD on random images, after two of
warm-up, by processor time on one thread and by elapsed time on more.
"""
import argparse
import json
import time

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, description):
        super().__init__()
        self.layers = description["layers"]
        self.parts = nn.ModuleDict()
        for layer in self.layers:
            part = self.part_of(layer)
            if part is not None:
                self.parts[self.key(layer["name"])] = part

    @staticmethod
    def key(name):
        return name.replace(".", "_")

    @staticmethod
    def part_of(layer):
        op = layer["op"]
        if op == "conv2d":
            return nn.Conv2d(layer["in"], layer["out"], layer["kernel"], layer["stride"], layer["pad"], layer["dilation"], layer["groups"],
                             layer["bias"])
        if op == "dense":
            return nn.Sequential(nn.Flatten(), nn.Linear(layer["in"], layer["out"], layer["bias"]))
        if op == "max_pool":
            return nn.MaxPool2d(layer["kernel"], layer["stride"], layer["pad"], ceil_mode=layer["ceil"])
        if op == "average_pool":
            return nn.AvgPool2d(layer["kernel"], layer["stride"], layer["pad"], layer["ceil"], layer["count_pad"])
        if op.startswith("global_"):
            return nn.AdaptiveMaxPool2d(1) if "max" in op else nn.AdaptiveAvgPool2d(1)
        if op == "relu":
            return nn.ReLU(inplace=True)
        if op == "batch_norm":
            return nn.BatchNorm2d(layer["in"], layer["epsilon"], layer["momentum"])
        if op == "local_response_norm":
            return nn.LocalResponseNorm(layer["size"], layer["alpha"], layer["beta"], layer["k"])
        if op == "dropout":
            return nn.Dropout(layer["probability"])
        if op == "flatten":
            return nn.Flatten()
        if op in ("add", "concat", "softmax_cross_entropy"):
            return None
        raise SystemExit(f"{layer['name']}: operation {op} has no counterpart here")

    def forward(self, image):
        values = {"input": image}
        for layer in self.layers:
            inputs = [values[name] for name in layer["inputs"]]
            if layer["op"] == "add":
                value = inputs[0]
                for other in inputs[1:]:
                    value = value + other
            elif layer["op"] == "concat":
                value = torch.cat(inputs, 1)
            elif layer["op"] == "softmax_cross_entropy":
                return inputs[0].flatten(1)
            else:
                value = self.parts[self.key(layer["name"])](inputs[0])
            values[layer["name"]] = value
        return value.flatten(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    with open(options.network) as file:
        description = json.load(file)
    network = Network(description).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    images = torch.rand(options.batch, *description["input"]) - 0.5
    labels = torch.arange(options.batch) % description["classes"]

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(network(images), labels)
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
    print(json.dumps({"images_per_second": options.batch / min(times), "version": torch.__version__}))


if __name__ == "__main__":
    main()
