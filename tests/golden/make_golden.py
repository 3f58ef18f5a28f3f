#!/usr/bin/python3
"""Writes the golden dumps in tests/golden/data: what PyTorch computes, tensor by tensor, in fp64.

    tests/golden/make_golden.py            # rewrites every file; the same PyTorch writes the same bytes

Made with Debian's python3-torch 1.13. One .safetensors file per case. Its metadata holds the model document ("model"),
and "training" ("1" or "0"); its tensors are named after the layers:

    input, labels           what the network reads
    LAYER                   the layer's output; of the loss layer the probabilities
    LAYER.weight, ...       parameters and running statistics before the step
    LAYER.weight.gradient   gradients; LAYER.running_mean.after for statistics
    input.error             the error of the network's input
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
import torch.nn.functional as F

DATA = pathlib.Path(__file__).parent / "data"
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


# ---- models: a list of layers, from which both the document and PyTorch's computation are made -------------------

def layer(name, operation, inputs=None, **fields):
    return {"name": name, "operation": operation, "inputs": inputs, "fields": fields}


def chain(*layers):
    """Every layer without named inputs reads the one before it."""
    previous = "input"
    for entry in layers:
        if entry["inputs"] is None:
            entry["inputs"] = [previous]
        previous = entry["name"]
    return list(layers)


def conv(name, out_channels, kernel, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1, bias=True, inputs=None):
    return layer(name, "conv2d", inputs, out_channels=out_channels, kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0],
                 stride_w=stride[1], pad_h=pad[0], pad_w=pad[1], dilation_h=dilation[0], dilation_w=dilation[1], groups=groups, bias=bias)


def pool(name, kind, kernel, stride, pad=(0, 0), ceil_mode=False, count_include_pad=False):
    fields = {} if kind == "max_pool" else {"count_include_pad": count_include_pad}
    return layer(name, kind, kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0], stride_w=stride[1], pad_h=pad[0],
                 pad_w=pad[1], ceil_mode=ceil_mode, **fields)


# ---- PyTorch's side ----------------------------------------------------------------------------------------------

def exact(*shape, mean=0.0, deviation=1.0):
    """Random values that fp32 holds exactly, so that they can be stored in four bytes."""
    return (mean + deviation * torch.randn(*shape)).float().double()


def make_parameters(entry, channels, parameters):
    """Adds the parameters of one layer; returns nothing for layers without."""
    name, fields = entry["name"], entry["fields"]
    if entry["operation"] == "conv2d":
        per_group = channels // fields["groups"]
        scale = (per_group * fields["kernel_h"] * fields["kernel_w"]) ** -0.5
        parameters[name + ".weight"] = exact(fields["out_channels"], per_group, fields["kernel_h"], fields["kernel_w"], deviation=scale)
        if fields["bias"]:
            parameters[name + ".bias"] = exact(fields["out_channels"], deviation=0.1)
    elif entry["operation"] == "dense":
        parameters[name + ".weight"] = exact(fields["out_features"], channels, deviation=channels ** -0.5)
        if fields["bias"]:
            parameters[name + ".bias"] = exact(fields["out_features"], deviation=0.1)
    elif entry["operation"] == "batch_norm":
        parameters[name + ".weight"] = exact(channels, mean=1.0, deviation=0.2)
        parameters[name + ".bias"] = exact(channels, deviation=0.2)
        parameters[name + ".running_mean"] = exact(channels, deviation=0.3)
        parameters[name + ".running_var"] = (exact(channels).abs() + 0.5).float().double()


def compute(entry, xs, parameters, training):
    name, op, f, x = entry["name"], entry["operation"], entry["fields"], xs[0]
    weight, bias = parameters.get(name + ".weight"), parameters.get(name + ".bias")
    if op == "conv2d":
        return F.conv2d(x, weight, bias, (f["stride_h"], f["stride_w"]), (f["pad_h"], f["pad_w"]), (f["dilation_h"], f["dilation_w"]),
                        f["groups"])
    if op == "dense":  # at every row of {F, T, 1}
        return F.linear(x.permute(0, 2, 3, 1), weight, bias).permute(0, 3, 1, 2)
    window = ((f.get("kernel_h"), f.get("kernel_w")), (f.get("stride_h"), f.get("stride_w")), (f.get("pad_h"), f.get("pad_w")))
    if op == "max_pool":
        return F.max_pool2d(x, *window, ceil_mode=f["ceil_mode"])
    if op == "average_pool":
        return F.avg_pool2d(x, *window, ceil_mode=f["ceil_mode"], count_include_pad=f["count_include_pad"])
    if op == "global_max_pool":
        return F.adaptive_max_pool2d(x, 1)
    if op == "global_average_pool":
        return F.adaptive_avg_pool2d(x, 1)
    if op == "relu":
        return F.relu(x)
    if op == "leaky_relu":
        return F.leaky_relu(x, f["slope"])
    if op == "sigmoid":
        return torch.sigmoid(x)
    if op == "tanh":
        return torch.tanh(x)
    if op == "batch_norm":
        mean, variance = parameters[name + ".running_mean"], parameters[name + ".running_var"]
        if not training:
            return F.batch_norm(x, mean, variance, weight, bias, False, f["momentum"], f["epsilon"])
        after_mean, after_variance = mean.clone(), variance.clone()
        y = F.batch_norm(x, after_mean, after_variance, weight, bias, True, f["momentum"], f["epsilon"])
        parameters[name + ".running_mean.after"], parameters[name + ".running_var.after"] = after_mean, after_variance
        return y
    if op == "local_response_norm":
        return F.local_response_norm(x, f["size"], f["alpha"], f["beta"], f["k"])
    if op == "add":
        return torch.stack(xs).sum(0)
    if op == "concat":
        return torch.cat(xs, 1)
    if op == "flatten":
        return x.reshape(x.shape[0], -1, 1, 1)
    if op == "to_sequence":  # {C, T, W} -> {C*W, T, 1}
        return x.permute(0, 1, 3, 2).reshape(x.shape[0], -1, x.shape[2], 1)
    if op == "last_step":
        return x[:, :, -1:, :]
    raise ValueError(op)


def walk(layers, x, parameters, labels, training, make=False):
    """Outputs by layer, and the mean loss (None without a loss layer)."""
    outputs, loss = {"input": x}, None
    for entry in layers:
        xs = [outputs[name] for name in entry["inputs"]]
        if make:
            make_parameters(entry, xs[0].shape[1], parameters)
        if entry["operation"] == "softmax_cross_entropy":
            outputs[entry["name"]] = F.softmax(xs[0], 1)
            loss = F.cross_entropy(xs[0][..., 0], labels, reduction="sum") / x.shape[0]
        else:
            outputs[entry["name"]] = compute(entry, xs, parameters, training)
    return outputs, loss


def trained(parameters):
    return {name: value for name, value in parameters.items() if "running_" not in name}


def dump(name, layers, input_shape, batch, seed, training=True, classes=None):
    torch.manual_seed(seed)
    x = exact(batch, *input_shape).requires_grad_()
    parameters = {}
    labels = None
    if classes is not None:  # one label per position
        labels = torch.randint(classes, (batch, input_shape[1] if len(layers) == 1 else 1))
    with torch.no_grad():
        walk(layers, x, parameters, labels, training, make=True)
    before = {key: value.clone() for key, value in parameters.items() if not key.endswith(".after")}
    for value in trained(parameters).values():
        value.requires_grad_()
    outputs, loss = walk(layers, x, parameters, labels, training)

    tensors = {"input": x.float()}
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


# ---- files -------------------------------------------------------------------------------------------------------

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


# ---- the cases ---------------------------------------------------------------------------------------------------

def operations():
    yield "conv2d", chain(conv("layer", 4, (3, 3), pad=(1, 1))), (3, 5, 5)
    yield "conv2d_strided", chain(conv("layer", 3, (5, 3), stride=(2, 3), pad=(2, 1))), (2, 7, 8)
    yield "conv2d_dilated", chain(conv("layer", 3, (3, 2), pad=(2, 1), dilation=(2, 3), bias=False)), (2, 6, 7)
    yield "conv2d_grouped", chain(conv("layer", 6, (3, 3), stride=(2, 2), pad=(1, 1), groups=3)), (6, 5, 6)
    yield "conv2d_depthwise", chain(conv("layer", 5, (3, 3), groups=5)), (5, 4, 5)
    yield "conv2d_pointwise", chain(conv("layer", 6, (1, 1), stride=(2, 2), bias=False)), (4, 5, 5)
    yield "dense", chain(layer("layer", "dense", out_features=7, bias=True)), (11, 1, 1)
    yield "dense_per_step", chain(layer("layer", "dense", out_features=5, bias=True)), (6, 4, 1)
    yield "max_pool", chain(pool("layer", "max_pool", (3, 3), (2, 2), pad=(1, 1))), (3, 6, 7)
    yield "max_pool_ceil", chain(pool("layer", "max_pool", (3, 2), (2, 2), ceil_mode=True)), (2, 6, 5)
    yield "average_pool", chain(pool("layer", "average_pool", (3, 3), (2, 2), pad=(1, 1))), (3, 6, 7)
    yield "average_pool_padded", chain(pool("layer", "average_pool", (3, 3), (2, 2), pad=(1, 1), count_include_pad=True)), (3, 6, 7)
    yield "average_pool_ceil", chain(pool("layer", "average_pool", (2, 3), (2, 2), ceil_mode=True)), (2, 5, 6)
    yield "global_average_pool", chain(layer("layer", "global_average_pool")), (4, 3, 5)
    yield "global_max_pool", chain(layer("layer", "global_max_pool")), (4, 3, 5)
    yield "relu", chain(layer("layer", "relu")), (3, 4, 4)
    yield "leaky_relu", chain(layer("layer", "leaky_relu", slope=0.125)), (3, 4, 4)
    yield "sigmoid", chain(layer("layer", "sigmoid")), (3, 4, 4)
    yield "tanh", chain(layer("layer", "tanh")), (3, 4, 4)
    yield "batch_norm", chain(layer("layer", "batch_norm", epsilon=1e-5, momentum=0.125)), (4, 3, 3)
    yield "local_response_norm", chain(layer("layer", "local_response_norm", size=5, alpha=0.5, beta=0.75, k=2.0)), (7, 3, 2)
    yield "add", chain(layer("first", "relu"), layer("second", "tanh", ["input"]),
                       layer("layer", "add", ["first", "second", "input"])), (3, 4, 4)
    yield "concat", chain(conv("first", 2, (1, 1)), layer("layer", "concat", ["input", "first", "input"])), (3, 4, 4)
    yield "flatten", chain(layer("layer", "flatten")), (3, 4, 2)
    yield "to_sequence", chain(layer("layer", "to_sequence")), (3, 4, 2)
    yield "last_step", chain(layer("layer", "last_step")), (3, 4, 1)


def residual_block(name, source, channels, stride, projected):
    """Two 3x3 convolutions beside a shortcut, as ResNet-18 has them."""
    shortcut = source
    layers = [conv(name + "_conv1", channels, (3, 3), stride=(stride, stride), pad=(1, 1), bias=False, inputs=[source]),
              layer(name + "_bn1", "batch_norm", epsilon=1e-5, momentum=0.125), layer(name + "_relu1", "relu"),
              conv(name + "_conv2", channels, (3, 3), pad=(1, 1), bias=False),
              layer(name + "_bn2", "batch_norm", epsilon=1e-5, momentum=0.125)]
    if projected:
        shortcut = name + "_bn3"
        layers += [conv(name + "_conv3", channels, (1, 1), stride=(stride, stride), bias=False, inputs=[source]),
                   layer(shortcut, "batch_norm", epsilon=1e-5, momentum=0.125)]
    return layers + [layer(name + "_add", "add", [name + "_bn2", shortcut]), layer(name + "_relu2", "relu")]


def networks():
    yield "lenet_small", chain(
        conv("conv1", 4, (5, 5), pad=(2, 2)), layer("tanh1", "tanh"), pool("pool1", "average_pool", (2, 2), (2, 2)),
        conv("conv2", 6, (3, 3)), layer("tanh2", "tanh"), pool("pool2", "max_pool", (2, 2), (2, 2)), layer("flatten", "flatten"),
        layer("fc1", "dense", out_features=16, bias=True), layer("tanh3", "tanh"), layer("fc2", "dense", out_features=10, bias=True),
        layer("loss", "softmax_cross_entropy")), (1, 12, 12)
    vgg = []
    for stage, (channels, convolutions) in enumerate([(6, 1), (8, 2), (10, 2)], 1):
        for i in range(1, convolutions + 1):
            vgg += [conv(f"conv{stage}_{i}", channels, (3, 3), pad=(1, 1)), layer(f"relu{stage}_{i}", "relu")]
        vgg.append(pool(f"pool{stage}", "max_pool", (2, 2), (2, 2)))
    yield "vgg_small", chain(*vgg, layer("flatten", "flatten"), layer("fc1", "dense", out_features=24, bias=True),
                             layer("relu_fc1", "relu"), layer("fc2", "dense", out_features=10, bias=True), layer("loss", "softmax_cross_entropy")), (3, 12, 12)
    yield "resnet_small", chain(
        conv("conv1", 6, (3, 3), pad=(1, 1), bias=False), layer("bn1", "batch_norm", epsilon=1e-5, momentum=0.125), layer("relu1", "relu"),
        *residual_block("block1", "relu1", 6, 1, False), *residual_block("block2", "block1_relu2", 8, 2, True),
        layer("pool", "global_average_pool"), layer("flatten", "flatten"), layer("fc", "dense", out_features=10, bias=True),
        layer("loss", "softmax_cross_entropy")), (3, 8, 8)


def optimizers():
    yield "sgd", dict(kind="sgd", learning_rate=0.1), lambda p: torch.optim.SGD(p, 0.1)
    yield "sgd_decay", dict(kind="sgd", learning_rate=0.1, weight_decay=0.05), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.05)
    yield "momentum", dict(kind="momentum", learning_rate=0.05, momentum=0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)
    yield ("momentum_decay", dict(kind="momentum", learning_rate=0.05, momentum=0.9, weight_decay=0.05),
           lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.05))
    yield ("nesterov", dict(kind="nesterov", learning_rate=0.05, momentum=0.9),
           lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True))
    yield "adam", dict(kind="adam", learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-8), lambda p: torch.optim.Adam(p, 0.01)
    yield ("adam_decay", dict(kind="adam", learning_rate=0.01, beta1=0.8, beta2=0.95, epsilon=1e-6, weight_decay=0.05),
           lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.95), 1e-6, 0.05))


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
    for name, settings, make_optimizer in optimizers():
        dump_optimizer("optimizer_" + name, settings, make_optimizer)
    total = sum(file.stat().st_size for file in DATA.glob("*.safetensors"))
    print(f"{len(list(DATA.glob('*.safetensors')))} files, {total} bytes")


if __name__ == "__main__":
    main()
