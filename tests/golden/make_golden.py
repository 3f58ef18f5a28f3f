#!/usr/bin/python3
"""Writes the golden dumps in tests/golden/data: what PyTorch computes, tensor by tensor, in fp64.

    tests/golden/make_golden.py            # rewrites every file; the same PyTorch writes the same bytes

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


GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


def directions(fields):
    return ("", "_reverse") if fields["bidirectional"] else ("",)


def make_parameters(entry, channels, parameters):
    """Adds the parameters of one layer; returns nothing for layers without."""
    name, fields = entry["name"], entry["fields"]
    if entry["operation"] in GATES:
        hidden, rows = fields["hidden"], GATES[entry["operation"]] * fields["hidden"]
        fed_back = fields["projection"] or hidden
        for suffix in directions(fields):
            parameters[f"{name}.weight_ih{suffix}"] = exact(rows, channels, deviation=channels ** -0.5)
            parameters[f"{name}.weight_hh{suffix}"] = exact(rows, fed_back, deviation=fed_back ** -0.5)
            parameters[f"{name}.bias_ih{suffix}"] = exact(rows, deviation=0.3)
            parameters[f"{name}.bias_hh{suffix}"] = exact(rows, deviation=0.3)
            if fields["projection"]:
                parameters[f"{name}.weight_hr{suffix}"] = exact(fed_back, hidden, deviation=hidden ** -0.5)
    if entry["operation"] == "embedding":
        parameters[name + ".weight"] = exact(fields["vocabulary"], fields["dimension"])
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


def shorter(entry, steps, rows):
    """Valid rows behind a layer, from those before it; None: all."""
    fields = entry["fields"]
    if steps is None or rows == 1:
        return None
    if "stride_h" in fields:
        reach = fields.get("dilation_h", 1) * (fields["kernel_h"] - 1) + 1
        return torch.clamp((steps + 2 * fields["pad_h"] - reach) // fields["stride_h"] + 1, min=1)
    return steps


def mask_of(x, steps):
    """1 in front of a sample's end, for [sample][channel][step][column]."""
    return (torch.arange(x.shape[2])[None, :] < steps[:, None])[:, None, :, None].to(x.dtype)


def cell_step(entry, x, h, c, p):
    """One step of one direction where PyTorch has no layer for it."""
    given, own = F.linear(x, p["weight_ih"], p["bias_ih"]), None
    if entry["operation"] == "lstm":
        i, f, g, o = (given + F.linear(h, p["weight_hh"], p["bias_hh"])).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    hidden = h.shape[1]
    own = F.linear(h, p["weight_hh"][:2 * hidden], p["bias_hh"][:2 * hidden])  # gru with its reset before the product
    r, z = torch.sigmoid(given[:, :2 * hidden] + own).chunk(2, 1)
    n = torch.tanh(given[:, 2 * hidden:] + F.linear(r * h, p["weight_hh"][2 * hidden:], p["bias_hh"][2 * hidden:]))
    return (1 - z) * n + z * h, c


def by_steps(entry, x, parameters, steps):
    """[step][sample][feature], one step after the other; errors end at every multiple of the truncation."""
    name, fields, outputs = entry["name"], entry["fields"], []
    for suffix in directions(fields):
        p = {key: parameters[f"{name}.{key}{suffix}"] for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        h = c = x.new_zeros(x.shape[1], fields["hidden"])
        rows = [None] * x.shape[0]
        for t in reversed(range(x.shape[0])) if suffix else range(x.shape[0]):
            if fields["truncation"] and (t + 1 if suffix else t) % fields["truncation"] == 0:
                h, c = h.detach(), c.detach()
            new_h, new_c = cell_step(entry, x[t], h, c, p)
            valid = torch.ones(x.shape[1], 1, dtype=torch.bool) if steps is None else (t < steps)[:, None]
            h, c = torch.where(valid, new_h, h), torch.where(valid, new_c, c)
            rows[t] = torch.where(valid, new_h, torch.zeros_like(new_h))
        outputs.append(torch.stack(rows))
    return torch.cat(outputs, 2)


def recurrent(entry, x, parameters, steps):
    name, fields, op = entry["name"], entry["fields"], entry["operation"]
    sequence = x[..., 0].permute(2, 0, 1)  # [step][sample][feature]
    if fields["truncation"] or (op == "gru" and not fields["reset_after"]):
        y = by_steps(entry, sequence, parameters, steps)
    else:
        options = dict(bidirectional=fields["bidirectional"])
        if op == "lstm":
            module = torch.nn.LSTM(x.shape[1], fields["hidden"], proj_size=fields["projection"], **options)
        elif op == "gru":
            module = torch.nn.GRU(x.shape[1], fields["hidden"], **options)
        else:
            module = torch.nn.RNN(x.shape[1], fields["hidden"], nonlinearity=op[4:], **options)
        own = {}
        for suffix in directions(fields):
            for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"):
                if f"{name}.{key}{suffix}" in parameters:
                    own[f"{key}_l0{suffix}"] = parameters[f"{name}.{key}{suffix}"]
        module._flat_weights = [own[key] for key in module._flat_weights_names]  # what forward multiplies with
        if steps is None:
            y, _ = module(sequence)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(sequence, steps, enforce_sorted=False)
            packed, _ = module(packed)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=sequence.shape[0])
    return y.permute(1, 2, 0)[..., None]


def masked_batch_norm(x, steps, fields, weight, bias, mean, variance, after):
    mask = mask_of(x, steps)
    count = mask.sum() * x.shape[3]
    each = (1, -1, 1, 1)
    own_mean = (x * mask).sum((0, 2, 3)) / count
    distance = (x - own_mean.view(each)) * mask
    own_variance = distance.square().sum((0, 2, 3)) / count
    share = fields["momentum"]
    after["mean"] = (1 - share) * mean + share * own_mean.detach()
    after["var"] = (1 - share) * variance + share * own_variance.detach() * count / (count - 1)
    return (distance / torch.sqrt(own_variance + fields["epsilon"]).view(each) * weight.view(each) + bias.view(each)) * mask


def compute(entry, xs, parameters, training, steps=None):
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
    if op in GATES:
        return recurrent(entry, x, parameters, steps)
    if op == "embedding":
        y = F.embedding(x[:, 0, :, 0].long(), weight).permute(0, 2, 1)[..., None]
        return y if steps is None else y * mask_of(y, steps)
    if op == "batch_norm" and steps is not None:
        after = {}
        y = masked_batch_norm(x, steps, f, weight, bias, parameters[name + ".running_mean"], parameters[name + ".running_var"], after)
        parameters[name + ".running_mean.after"], parameters[name + ".running_var.after"] = after["mean"], after["var"]
        return y
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
        return x[:, :, -1:, :] if steps is None else torch.stack([x[n, :, int(steps[n]) - 1:int(steps[n]), :] for n in range(x.shape[0])])
    raise ValueError(op)


def walk(layers, x, parameters, labels, training, make=False, lengths=None):
    """Outputs by layer, and the mean loss (None without a loss layer)."""
    outputs, steps, loss = {"input": x}, {"input": lengths}, None
    for entry in layers:
        xs = [outputs[name] for name in entry["inputs"]]
        valid = steps[entry["inputs"][0]]
        if make:
            make_parameters(entry, xs[0].shape[1], parameters)
        if entry["operation"] == "ctc_loss":
            scores = xs[0][..., 0]
            counts = (labels >= 0).sum(1)
            outputs[entry["name"]] = F.softmax(xs[0], 1)
            ends = torch.full((x.shape[0],), scores.shape[2]) if valid is None else valid
            loss = F.ctc_loss(F.log_softmax(scores.permute(2, 0, 1), 2), labels.clamp(min=0), ends, counts,
                              entry["fields"]["blank"], "sum") / x.shape[0]
            continue
        if entry["operation"] == "softmax_cross_entropy":
            outputs[entry["name"]] = F.softmax(xs[0], 1)
            loss = F.cross_entropy(xs[0][..., 0], labels, reduction="sum", ignore_index=-1) / x.shape[0]
        else:
            outputs[entry["name"]] = compute(entry, xs, parameters, training, valid)
            steps[entry["name"]] = shorter(entry, valid, outputs[entry["name"]].shape[2])
    return outputs, loss


def trained(parameters):
    return {name: value for name, value in parameters.items() if "running_" not in name}


def ctc_labels(classes, blank, counts, most):
    """So many labels for each sample, with repeats among them, filled up with -1."""
    labels = torch.full((len(counts), most), -1)
    for n, count in enumerate(counts):
        drawn = torch.randint(classes - 1, (count,))
        if count > 2:
            drawn[1] = drawn[0]
        labels[n, :count] = drawn + (drawn >= blank).long()
    return labels


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
    # Flags together: each alone says nothing of what they mean to each other.
    for kernel, stride, pad, size in (((2, 2), (2, 2), (0, 0), (5, 5)), ((3, 3), (2, 2), (1, 1), (6, 8)), ((3, 2), (3, 2), (1, 0), (6, 7))):
        both = pool("layer", "average_pool", kernel, stride, pad=pad, ceil_mode=True, count_include_pad=True)
        yield f"average_pool_ceil_padded_{kernel[0]}x{kernel[1]}_pad{pad[0]}", chain(both), (2, *size)
    yield "max_pool_ceil_padded", chain(pool("layer", "max_pool", (3, 3), (2, 2), pad=(1, 1), ceil_mode=True)), (2, 6, 8)


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


def cell(name, operation, hidden, projection=0, bidirectional=False, reset_after=False, truncation=0, inputs=None):
    return layer(name, operation, inputs, hidden=hidden, projection=projection, bidirectional=bidirectional, reset_after=reset_after,
                 stateful=False, truncation=truncation)


def recurrent_cases():
    """Name, layers, input shape, and what else to give to dump."""
    short = dict(lengths=[6, 2, 5])
    for name, options in [("lstm", {}), ("gru", dict(reset_after=True)), ("gru", {}), ("rnn_relu", {}), ("rnn_tanh", {})]:
        word = name + ("_reset_after" if options else "")
        yield word, chain(cell("layer", name, 5, **options)), (4, 6, 1), {}
        yield word + "_bidirectional_short", chain(cell("layer", name, 4, bidirectional=True, **options)), (3, 6, 1), short
    yield "lstm_projection", chain(cell("layer", "lstm", 5, projection=3)), (4, 6, 1), {}
    yield "lstm_projection_bidirectional_short", chain(cell("layer", "lstm", 5, projection=3, bidirectional=True)), (4, 6, 1), short
    yield "lstm_truncation", chain(cell("layer", "lstm", 4, truncation=2)), (3, 7, 1), {}
    yield "lstm_truncation_bidirectional", chain(cell("layer", "lstm", 4, bidirectional=True, truncation=3)), (3, 7, 1), {}
    yield "gru_truncation", chain(cell("layer", "gru", 4, truncation=3)), (3, 7, 1), {}
    embedding = layer("layer", "embedding", vocabulary=7, dimension=4)
    yield "embedding", chain(embedding), (1, 6, 1), dict(tokens=7)
    yield "embedding_short", chain(embedding), (1, 6, 1), dict(tokens=7, **short)
    yield "last_step_short", chain(layer("layer", "last_step")), (4, 6, 1), short
    norm = layer("layer", "batch_norm", epsilon=1e-5, momentum=0.125)
    yield "batch_norm_sequence", chain(norm), (4, 6, 1), {}
    yield "batch_norm_short", chain(norm), (4, 6, 1), short
    yield "batch_norm_image_short", chain(norm), (2, 6, 3), short
    yield "ctc_loss", chain(layer("layer", "ctc_loss", blank=0)), (6, 9, 1), dict(make_labels=lambda: ctc_labels(6, 0, [4, 1, 3], 5))
    yield ("ctc_loss_short", chain(layer("layer", "ctc_loss", blank=2)), (5, 9, 1),
           dict(make_labels=lambda: ctc_labels(5, 2, [3, 4, 2], 4), lengths=[9, 6, 4]))


def recurrent_networks():
    def next_characters():
        labels = torch.randint(12, (3, 8))
        labels[1, 5:] = -1
        return labels
    yield "char_rnn_small", chain(
        layer("embedding", "embedding", vocabulary=12, dimension=6), cell("lstm1", "lstm", 8), layer("fc1", "dense", out_features=7, bias=True),
        layer("relu1", "relu"), cell("lstm2", "lstm", 8), layer("fc2", "dense", out_features=12, bias=True),
        layer("loss", "softmax_cross_entropy")), (1, 8, 1), dict(tokens=12, lengths=[8, 5, 8], make_labels=next_characters)
    yield "speech_small", chain(
        conv("conv1", 3, (3, 3), stride=(2, 2), pad=(1, 1), bias=False), layer("norm1", "batch_norm", epsilon=1e-5, momentum=0.125),
        layer("relu1", "relu"), conv("conv2", 2, (3, 3), pad=(1, 1)), layer("relu2", "relu"), layer("steps", "to_sequence"),
        cell("rnn1", "lstm", 5, bidirectional=True), layer("norm2", "batch_norm", epsilon=1e-5, momentum=0.125),
        cell("rnn2", "gru", 4, bidirectional=True, reset_after=True), layer("fc", "dense", out_features=6, bias=True),
        layer("loss", "ctc_loss", blank=0)), (1, 16, 7), dict(lengths=[16, 9, 12], make_labels=lambda: ctc_labels(6, 0, [3, 2, 1], 4))
    layers = [layer("fc_in", "dense", ["input"], out_features=6, bias=True), layer("relu_in", "relu", ["fc_in"])]
    shortcut = "relu_in"
    for block in (1, 2):
        before = shortcut
        for i in (1, 2):
            layers += [layer(f"norm{block}_{i}", "batch_norm", [before], epsilon=1e-5, momentum=0.125),
                       cell(f"rnn{block}_{i}", "rnn_relu", 6, inputs=[f"norm{block}_{i}"])]
            before = f"rnn{block}_{i}"
        layers.append(layer(f"add{block}", "add", [before, shortcut]))
        shortcut = f"add{block}"
    layers += [layer("last", "last_step", [shortcut]), layer("fc", "dense", ["last"], out_features=5, bias=True),
               layer("loss", "softmax_cross_entropy", ["fc"])]
    yield "residual_rnn_small", layers, (4, 7, 1), dict(lengths=[7, 3, 6], classes=5)


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
