#!/usr/bin/python3
"""Writes the golden dumps in tests/golden/data: what PyTorch computes, tensor by tensor, in fp64.

    tests/golden/make_golden.py            # rewrites every file; the same PyTorch and processor write the same bytes

Made with Debian's python3-torch 1.13. One .safetensors file per case. Its metadata holds the model document ("model"),
and "training" ("1" or "0"); its tensors are named after the layers:

    input, labels           what the network reads; labels of the CTC loss are filled up with -1
    lengths                 where samples are shorter than the tensor: valid rows of the input
    LAYER                   the layer's output; of the loss layer the probabilities
    LAYER.weight, ...       parameters and running statistics before the step
    LAYER.weight.gradient   gradients; LAYER.running_mean.after for statistics
    input.error             the error of the network's input, unless that is tokens
    output_error            where there is no loss layer: the error given to the last layer
    loss                    mean over the batch

Optimizer cases hold "inputs" and "labels" of 20 steps, "losses", and "LAYER.weight.steps" with the parameters before
the first step and after each; their metadata names the optimizer's settings.
Dropout has no case: its random numbers are ours (core/device/dropout_mask.h), not PyTorch's.
"""

import json
import pathlib
import struct

import torch

from golden_cases import networks, operations, optimizers, recurrent_cases, recurrent_networks
from golden_layers import chain, conv, exact, layer, pool, trained, walk

DATA = pathlib.Path(__file__).parent / "data"


def dump(name, layers, input_shape, batch, seed, training=True, classes=None, tokens=None, lengths=None, make_labels=None):
    torch.manual_seed(seed)
    x = torch.randint(tokens, (batch, *input_shape)).double() if tokens else exact(batch, *input_shape).requires_grad_()
    lengths = None if lengths is None else torch.tensor(lengths)
    parameters = {}
    labels = None
    if classes is not None:  # one label per position
        labels = torch.randint(classes, (batch, input_shape[1] if len(layers) == 1 else 1))
    if make_labels is not None:
        labels = make_labels()
    with torch.no_grad():
        walk(layers, x, parameters, labels, training, make=True, lengths=lengths)
    before = {key: value.clone() for key, value in parameters.items() if not key.endswith(".after")}
    for value in trained(parameters).values():
        value.requires_grad_()
    outputs, loss = walk(layers, x, parameters, labels, training, lengths=lengths)

    tensors = {"input": x.float()}
    if lengths is not None:
        tensors["lengths"] = lengths.int()
    tensors.update({key: value.float() for key, value in before.items()})
    tensors.update({key: value for key, value in outputs.items() if key != "input"})
    if loss is not None:
        loss.backward()
        tensors["loss"] = loss
        tensors["labels"] = labels.int()
    else:
        last = outputs[layers[-1]["name"]]
        output_error = exact(*last.shape)
        last.backward(output_error)
        tensors["output_error"] = output_error.float()
    if not tokens:
        tensors["input.error"] = x.grad
    for key, value in parameters.items():
        if key.endswith(".after"):
            tensors[key] = value
        elif value.grad is not None:
            tensors[key + ".gradient"] = value.grad
    write(name, tensors, {"model": text_of(name, input_shape, layers), "training": "1" if training else "0"})


def dump_optimizer(name, settings, make_optimizer, seed=77, steps=20, batch=4):
    torch.manual_seed(seed)
    layers = chain(conv("conv1", 3, (3, 3), pad=(1, 1)), layer("tanh1", "tanh"), pool("pool1", "max_pool", (2, 2), (2, 2)),
                   layer("flatten", "flatten"), layer("fc", "dense", out_features=4, bias=True), layer("loss", "softmax_cross_entropy"))
    shape = (1, 6, 6)
    inputs, labels = exact(steps, batch, *shape), torch.randint(4, (steps, batch, 1))
    parameters = {}
    with torch.no_grad():
        walk(layers, inputs[0], parameters, labels[0], True, make=True)
    for value in parameters.values():
        value.requires_grad_()
    optimizer = make_optimizer(parameters.values())
    history = {key: [value.detach().clone()] for key, value in parameters.items()}
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        _, loss = walk(layers, inputs[step], parameters, labels[step], True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        for key, value in parameters.items():
            history[key].append(value.detach().clone())
    tensors = {"inputs": inputs.float(), "labels": labels.int(), "losses": torch.stack(losses)}
    tensors.update({key + ".steps": torch.stack(values) for key, values in history.items()})
    metadata = {"model": text_of(name, shape, layers), "training": "1"}
    metadata.update({key: str(value) for key, value in settings.items()})
    write(name, tensors, metadata)


def text_of(name, input_shape, layers):
    """The model document; every field is written, so that no default is taken for granted."""
    def value(x):
        return str(x).lower() if isinstance(x, bool) else repr(x)
    channels, height, width = input_shape
    lines = ["version: 1", f'name: "{name}"', f"input {{ channels: {channels} height: {height} width: {width} }}"]
    for entry in layers:
        inputs = "".join(f' inputs: "{source}"' for source in entry["inputs"])
        fields = "".join(f" {key}: {value(x)}" for key, x in entry["fields"].items())
        lines.append(f'layers {{ name: "{entry["name"]}"{inputs} {entry["operation"]} {{{fields} }} }}')
    return "\n".join(lines) + "\n"


def write(name, tensors, metadata):
    """The safetensors format: header length, JSON header, data; widest elements first, so that all are aligned."""
    words = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32"}
    header, data = {"__metadata__": metadata}, b""
    for key, value in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        content = value.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": words[value.dtype], "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (DATA / (name + ".safetensors")).write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    DATA.mkdir(exist_ok=True)
    for old in DATA.glob("*.safetensors"):
        old.unlink()
    for seed, (name, layers, shape) in enumerate(operations()):
        dump("op_" + name, layers, shape, batch=2, seed=seed)
    dump("op_batch_norm_evaluation", chain(layer("layer", "batch_norm", epsilon=1e-5, momentum=0.125)), (4, 3, 3), 2, 100, training=False)
    loss = chain(layer("layer", "softmax_cross_entropy"))
    dump("op_softmax_cross_entropy", loss, (7, 1, 1), 3, 101, classes=7)
    dump("op_softmax_cross_entropy_per_step", loss, (5, 4, 1), 2, 102, classes=5)
    for seed, (name, layers, shape) in enumerate(networks(), 200):
        dump("network_" + name, layers, shape, batch=3, seed=seed, classes=10)
    for seed, (name, layers, shape, options) in enumerate(recurrent_cases(), 300):
        dump("op_" + name, layers, shape, batch=3, seed=seed, **options)
    for seed, (name, layers, shape, options) in enumerate(recurrent_networks(), 400):
        dump("network_" + name, layers, shape, batch=3, seed=seed, **options)
    for name, settings, make_optimizer in optimizers():
        dump_optimizer("optimizer_" + name, settings, make_optimizer)
    total = sum(file.stat().st_size for file in DATA.glob("*.safetensors"))
    print(f"{len(list(DATA.glob('*.safetensors')))} files, {total} bytes")


if __name__ == "__main__":
    main()
