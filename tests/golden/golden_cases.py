"""The cases of make_golden.py: names, layers, input shapes, and what else to give to its dump; optimizers and their settings."""

import torch

from golden_layers import chain, conv, layer, pool


def ctc_labels(classes, blank, counts, most):
    """So many labels for each sample, with repeats among them, filled up with -1."""
    labels = torch.full((len(counts), most), -1)
    for n, count in enumerate(counts):
        drawn = torch.randint(classes - 1, (count,))
        if count > 2:
            drawn[1] = drawn[0]
        labels[n, :count] = drawn + (drawn >= blank).long()
    return labels


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
