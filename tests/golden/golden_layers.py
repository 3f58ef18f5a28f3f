"""Small networks as lists of layers, from which both the model document and PyTorch's computation are made, in fp64.

    layers = chain(conv("conv", 4, (3, 3)), layer("relu", "relu"))
    outputs, loss = walk(layers, exact(2, 3, 5, 5), parameters := {}, None, True, make=True)

Tensors are [sample][channel][row][column], as Millrace's are; parameters are keyed LAYER.weight and so on.
"""

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


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
