"""Makes the files of Keras beside it and what their networks compute (python3-h5py, python3-numpy):

    /usr/bin/python3 make_keras.py

Sixteen networks in four layouts each: NAME.2.h5 (Keras 2, model and weights), NAME.json with NAME.weights.h5 (Keras 2, apart), NAME.3.h5 (what Keras 3
writes as .h5) and NAME.keras (Keras 3's zip). NAME.npz holds x, y in front of a final softmax, and where Keras 3 computes something else, y_keras_3. Layouts follow files that Keras itself wrote; the
arithmetic is Keras's definition of each layer in plain loops and double precision, and knows nothing of who reads the files. Weights are random, biases
not zero, sequences have five steps and more, and no two extents are equal, so that a wrong order shows.
"""

import io
import json
import re
import zipfile
from pathlib import Path

import h5py
import numpy

HERE = Path(__file__).parent
DRAW = numpy.random.default_rng(7)


def random(*shape, scale=0.5):
    return DRAW.normal(0, scale, shape).astype(numpy.float32)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


SLOPES = {2: 0.2, 3: 1 / 6}  # of hard_sigmoid, by version


def gate_of(activation, version):
    if activation == "sigmoid":
        return sigmoid
    return lambda x: numpy.minimum(numpy.maximum(SLOPES[version] * x + 0.5, 0), 1)


VERSION = 2  # whose arithmetic is computed


ACTIVATIONS = {"linear": lambda x: x, "relu": lambda x: numpy.maximum(x, 0), "tanh": numpy.tanh, "sigmoid": sigmoid,
               "softmax": lambda x: x}  # y is what stands in front of it


# --- Layers: configuration, weights by name, and what they compute.
class Layer:
    def __init__(self, kind, name, weights=(), call=None, cell="", **config):
        self.kind, self.name, self.weights, self.call, self.cell = kind, name, list(weights), call, cell
        self.config = {"name": name, "trainable": True, "dtype": "float32", **config}


def dense(name, inputs, units, activation="linear", bias=True):
    kernel, offset = random(inputs, units), random(units)
    call = lambda x: ACTIVATIONS[activation](x @ kernel.astype(float) + (offset.astype(float) if bias else 0))
    weights = [("kernel", kernel)] + ([("bias", offset)] if bias else [])
    return Layer("Dense", name, weights, call, units=units, activation=activation, use_bias=bias)


def pads(extent, size, stride, padding):
    if padding == "valid":
        return 0, (extent - size) // stride + 1
    outputs = -(-extent // stride)
    return max((outputs - 1) * stride + size - extent, 0) // 2, outputs


def conv(name, inputs, filters, size, strides=(1, 1), padding="valid", activation="linear", bias=True, dimensions=2):
    size, strides = tuple(size), tuple(strides)
    kernel, offset = random(*size, inputs, filters), random(filters)

    def call(x):
        x = x if dimensions == 2 else x[:, :, None]
        k = kernel.astype(float) if dimensions == 2 else kernel.astype(float)[:, None]
        s = strides if dimensions == 2 else (strides[0], 1)
        top, rows = pads(x.shape[1], k.shape[0], s[0], padding)
        left, columns = pads(x.shape[2], k.shape[1], s[1], padding)
        y = numpy.zeros((x.shape[0], rows, columns, filters))
        for r in range(rows):
            for c in range(columns):
                for i in range(k.shape[0]):
                    for j in range(k.shape[1]):
                        at = (r * s[0] + i - top, c * s[1] + j - left)
                        if 0 <= at[0] < x.shape[1] and 0 <= at[1] < x.shape[2]:
                            y[:, r, c] += x[:, at[0], at[1]] @ k[i, j]
        y = ACTIVATIONS[activation](y + (offset.astype(float) if bias else 0))
        return y if dimensions == 2 else y[:, :, 0]

    weights = [("kernel", kernel)] + ([("bias", offset)] if bias else [])
    return Layer(f"Conv{dimensions}D", name, weights, call, filters=filters, kernel_size=list(size), strides=list(strides), padding=padding,
                 data_format="channels_last", dilation_rate=[1] * dimensions, groups=1, activation=activation, use_bias=bias)


def pool(name, kind, size, strides=None, dimensions=2):
    size, strides = tuple(size), tuple(strides or size)

    def call(x):
        x = x if dimensions == 2 else x[:, :, None]
        k, s = (size, strides) if dimensions == 2 else ((size[0], 1), (strides[0], 1))
        rows, columns = (x.shape[1] - k[0]) // s[0] + 1, (x.shape[2] - k[1]) // s[1] + 1
        reduce = numpy.max if kind == "Max" else numpy.mean
        y = numpy.stack([numpy.stack([reduce(x[:, r * s[0]: r * s[0] + k[0], c * s[1]: c * s[1] + k[1]], axis=(1, 2)) for c in range(columns)], 1)
                         for r in range(rows)], 1)
        return y if dimensions == 2 else y[:, :, 0]

    return Layer(f"{kind}Pooling{dimensions}D", name, call=call, pool_size=list(size), strides=list(strides), padding="valid",
                 data_format="channels_last")


def global_pool(name, kind, dimensions):
    reduce = numpy.max if kind == "Max" else numpy.mean
    return Layer(f"Global{kind}Pooling{dimensions}D", name, call=lambda x: reduce(x, axis=tuple(range(1, 1 + dimensions))),
                 data_format="channels_last", keepdims=False)


def norm(name, channels, axis, scale=True, center=True, epsilon=1e-3):
    gamma, beta, mean = 1 + random(channels), random(channels), random(channels)
    variance = (0.5 + DRAW.random(channels)).astype(numpy.float32)

    def call(x):
        y = (x - mean.astype(float)) / numpy.sqrt(variance.astype(float) + epsilon)
        return (gamma.astype(float) if scale else 1) * y + (beta.astype(float) if center else 0)

    weights = ([("gamma", gamma)] if scale else []) + ([("beta", beta)] if center else [])
    weights += [("moving_mean", mean), ("moving_variance", variance)]
    return Layer("BatchNormalization", name, weights, call, axis=axis, momentum=0.99, epsilon=epsilon, center=center, scale=scale)


def recurrent_steps(kind, x, kernel, recurrent, bias, reset_after, activation, gate):
    """[samples, steps, units]; gates LSTM i f c o, GRU z r h."""
    units = recurrent.shape[0]
    kernel, recurrent, bias = kernel.astype(float), recurrent.astype(float), bias.astype(float)
    h, c, states = numpy.zeros((len(x), units)), numpy.zeros((len(x), units)), []
    part = lambda a, g: a[..., g * units: (g + 1) * units]
    for t in range(x.shape[1]):
        step = x[:, t]
        if kind == "LSTM":
            z = step @ kernel + h @ recurrent + bias
            i, f, g, o = gate(part(z, 0)), gate(part(z, 1)), numpy.tanh(part(z, 2)), gate(part(z, 3))
            c = f * c + i * g
            h = o * numpy.tanh(c)
        elif kind == "GRU":
            inner = step @ kernel + (bias[0] if reset_after else bias)
            if reset_after:
                outer = h @ recurrent + bias[1]
                z, r = gate(part(inner, 0) + part(outer, 0)), gate(part(inner, 1) + part(outer, 1))
                n = numpy.tanh(part(inner, 2) + r * part(outer, 2))
            else:
                z, r = (gate(part(inner, g) + h @ part(recurrent, g)) for g in (0, 1))
                n = numpy.tanh(part(inner, 2) + (r * h) @ part(recurrent, 2))
            h = z * h + (1 - z) * n
        else:
            h = ACTIVATIONS[activation](step @ kernel + h @ recurrent + bias)
        states.append(h)
    return numpy.stack(states, axis=1)


GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
CELLS = {"LSTM": "lstm_cell", "GRU": "gru_cell", "SimpleRNN": "simple_rnn_cell"}


def recurrent(name, kind, inputs, units, sequences=False, reset_after=False, activation="tanh", gate="sigmoid", scale=0.5):
    rows = GATES[kind] * units
    kernel, matrix = random(inputs, rows, scale=scale), random(units, rows, scale=scale)
    bias = random(2, rows) if reset_after else random(rows)

    def call(x):
        states = recurrent_steps(kind, x, kernel, matrix, bias, reset_after, activation, gate_of(gate, VERSION))
        return states if sequences else states[:, -1]

    config = {"return_sequences": sequences, "return_state": False, "go_backwards": False, "stateful": False, "unroll": False, "units": units,
              "activation": activation, "use_bias": True, "dropout": 0.0, "recurrent_dropout": 0.0}
    if kind != "SimpleRNN":
        config["recurrent_activation"] = gate
    if kind == "LSTM":
        config["unit_forget_bias"] = True
    if kind == "GRU":
        config["reset_after"] = reset_after
    return Layer(kind, name, [("kernel", kernel), ("recurrent_kernel", matrix), ("bias", bias)], call, CELLS[kind], **config)


def bidirectional(name, make):
    forward, backward = make(f"forward_{name}"), make(f"backward_{name}")
    call = lambda x: numpy.concatenate([forward.call(x), backward.call(x[:, ::-1])[:, ::-1]], axis=-1)
    layer = Layer("Bidirectional", name, call=call, merge_mode="concat", layer={"class_name": forward.kind, "config": forward.config})
    layer.directions = (forward, backward)
    return layer


def time_distributed(name, inner):
    return Layer("TimeDistributed", name, inner.weights, inner.call, layer={"class_name": inner.kind, "config": inner.config})


def embedding(name, vocabulary, width):
    table = random(vocabulary, width)
    return Layer("Embedding", name, [("embeddings", table)], lambda x: table.astype(float)[x.astype(int)], input_dim=vocabulary, output_dim=width,
                 mask_zero=False)


def simple(kind, name, call, **config):
    return Layer(kind, name, call=call, **config)


def flatten(name):
    return simple("Flatten", name, lambda x: x.reshape(len(x), -1), data_format="channels_last")


# --- The networks. A list is sequential; a dictionary has layers with what each reads.
def networks():
    image, steps = (2, 7, 9, 3), (2, 6, 3)
    x_of = lambda shape: DRAW.normal(0, 1, shape).astype(numpy.float32)
    yield "mlp", x_of((3, 5)), [dense("a", 5, 7, "relu"), dense("b", 7, 4, "tanh", bias=False), dense("c", 4, 6, "softmax")]
    yield "cnn", x_of(image), [conv("a", 3, 4, (3, 3), padding="same", activation="relu"), pool("p", "Max", (2, 2)), conv("b", 4, 5, (2, 3)),
                               flatten("f"), dense("c", 2 * 2 * 5, 4, "softmax")]
    yield "cnn_norm", x_of(image), [conv("a", 3, 4, (3, 2), (2, 1), bias=False), norm("n", 4, [3]), simple("ReLU", "r", ACTIVATIONS["relu"], max_value=None,
                                    negative_slope=0.0, threshold=0.0), pool("p", "Average", (2, 3), (1, 2)), global_pool("g", "Average", 2), dense("c", 4, 6)]
    yield "conv1d", x_of((2, 11, 3)), [conv("a", 3, 5, (4,), (1,), activation="tanh", dimensions=1), pool("p", "Max", (2,), dimensions=1),
                                       norm("n", 5, -1), global_pool("g", "Max", 1), dense("c", 5, 4)]
    yield "lstm_last", x_of(steps), [recurrent("a", "LSTM", 3, 4), dense("c", 4, 5, "softmax")]
    yield "lstm_steps", x_of(steps), [recurrent("a", "LSTM", 3, 5, True), recurrent("b", "LSTM", 5, 4, True),
                                      time_distributed("t", dense("inner", 4, 6, "sigmoid"))]
    yield "gru_after", x_of(steps), [recurrent("a", "GRU", 3, 4, True, reset_after=True), recurrent("b", "GRU", 4, 5, reset_after=True), dense("c", 5, 2)]
    yield "gru_before", x_of(steps), [recurrent("a", "GRU", 3, 4), dense("c", 4, 5)]
    yield "simple_rnn", x_of(steps), [recurrent("a", "SimpleRNN", 3, 4, True), recurrent("b", "SimpleRNN", 4, 5, activation="relu"), dense("c", 5, 2)]
    yield "both_lstm", x_of(steps), [bidirectional("a", lambda n: recurrent(n, "LSTM", 3, 4, True)), dense("c", 8, 5)]
    yield "both_gru", x_of(steps), [bidirectional("a", lambda n: recurrent(n, "GRU", 3, 4, True, reset_after=True)), recurrent("b", "LSTM", 8, 5), dense("c", 5, 2)]
    yield "tokens", DRAW.integers(0, 11, (3, 7)).astype(numpy.float32), [embedding("e", 11, 4), recurrent("a", "LSTM", 4, 5, True), dense("c", 5, 11, "softmax")]
    one, two, three = conv("one", 3, 4, (3, 3), padding="same"), conv("two", 3, 4, (1, 1)), conv("three", 4, 2, (1, 1), activation="relu")
    head = dense("head", 7 * 9 * 6, 5)
    yield "functional", x_of(image), {"one": (one, ["x"]), "two": (two, ["x"]), "sum": (simple("Add", "sum", lambda a, b: a + b), ["one", "two"]),
                                      "three": (three, ["sum"]), "both": (simple("Concatenate", "both", lambda a, b: numpy.concatenate([a, b], -1), axis=-1),
                                      ["three", "one"]), "flat": (flatten("flat"), ["both"]), "head": (head, ["flat"])}
    yield "leaky", x_of((3, 5)), [dense("a", 5, 7), simple("LeakyReLU", "l", lambda x: numpy.where(x > 0, x, 0.3 * x), alpha=0.3), simple("Dropout", "d",
                                  lambda x: x, rate=0.25), norm("n", 7, [1], scale=False), norm("m", 7, [1], center=False), dense("b", 7, 4, "sigmoid"),
                                  simple("Activation", "t", numpy.tanh, activation="tanh")]
    # Sums beyond both corners of the gates, which 0.5 would hardly reach.
    hard = {"gate": "hard_sigmoid", "scale": 1.5}
    yield "hard_lstm", x_of(steps), [recurrent("a", "LSTM", 3, 5, True, **hard), bidirectional("b", lambda n: recurrent(n, "LSTM", 5, 4, True, **hard)), dense("c", 8, 5)]
    yield "hard_gru", x_of(steps), [recurrent("a", "GRU", 3, 4, True, **hard), recurrent("b", "GRU", 4, 5, reset_after=True, **hard), dense("c", 5, 2)]


# --- The layouts.
def versioned(layer, version):
    config = json.loads(json.dumps(layer.config))
    if version == 3 and layer.kind == "LeakyReLU":
        config["negative_slope"] = config.pop("alpha")
    return {"class_name": layer.kind, "config": config}


def input_config(shape, version, name="x"):
    return {"class_name": "InputLayer", "config": {"batch_shape" if version == 3 else "batch_input_shape": [None, *shape[1:]], "dtype": "float32", "name": name}}


def configuration(name, x, layers, version):
    if isinstance(layers, list):
        documents = [input_config(x.shape, version, "input_1")] + [versioned(layer, version) for layer in layers]
        return {"class_name": "Sequential", "config": {"name": name, "layers": documents}}
    documents = [{**input_config(x.shape, version), "name": "x", "inbound_nodes": []}]
    for label, (layer, inputs) in layers.items():
        document = {**versioned(layer, version), "name": label}
        if version == 3:
            tensors = [{"class_name": "__keras_tensor__", "config": {"shape": [None], "dtype": "float32", "keras_history": [one, 0, 0]}} for one in inputs]
            document["inbound_nodes"] = [{"args": [tensors if len(tensors) > 1 else tensors[0]], "kwargs": {}}]
        else:
            document["inbound_nodes"] = [[[one, 0, 0, {}] for one in inputs]]
        documents.append(document)
    last = list(layers)[-1]
    return {"class_name": "Functional", "config": {"name": name, "layers": documents, "input_layers": [["x", 0, 0]] if version == 2 else ["x", 0, 0],
                                                   "output_layers": [[last, 0, 0]] if version == 2 else [last, 0, 0]}}


def all_layers(layers):
    return layers if isinstance(layers, list) else [layer for layer, _ in layers.values()]


def texts(values, fixed):
    """Of fixed length as h5py 2 wrote them, or variable as h5py 3 does."""
    if not values:
        return numpy.zeros(0)
    return numpy.array([value.encode() for value in values]) if fixed else numpy.array(values, dtype=object)


def put_texts(group, name, values, fixed, split=False):
    if split:  # beyond 64,512 bytes Keras writes NAME0, NAME1, ...
        half = (len(values) + 1) // 2
        put_texts(group, name + "0", values[:half], fixed)
        put_texts(group, name + "1", values[half:], fixed)
    elif fixed or not values:
        group.attrs.create(name, texts(values, fixed))
    else:
        group.attrs.create(name, texts(values, fixed), dtype=h5py.string_dtype())


def put_weights(base, layers, suffix, cells, fixed, split=False):
    put_texts(base, "layer_names", [layer.name for layer in all_layers(layers)], fixed, split)
    base.attrs["backend"] = b"tensorflow" if fixed else "tensorflow"
    for layer in reversed(all_layers(layers)):  # the order is that of the attributes, not of the groups
        group = base.create_group(layer.name)
        parts = [("", layer)] if not hasattr(layer, "directions") else [(one.name + "/", one) for one in layer.directions]
        stored = []
        for prefix, part in parts:
            inner = f"{part.cell}/" if cells and part.cell else ""
            stored += [(f"{layer.name}/{prefix}{inner}{name}{suffix}", value) for name, value in part.weights]
        put_texts(group, "weight_names", [name for name, _ in stored], fixed, split and len(stored) > 1)
        for name, value in reversed(stored):
            group.create_dataset(name, data=value)


def snake(name):
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def put_numbered(base, layers):
    counts = {}
    for layer in all_layers(layers):
        kind = snake(layer.kind)
        number = counts.get(kind, 0)
        counts[kind] = number + 1
        group = base.create_group(kind if number == 0 else f"{kind}_{number}")
        parts = [("", layer)]
        if hasattr(layer, "directions"):
            parts = [("forward_layer/", layer.directions[0]), ("backward_layer/", layer.directions[1])]
        elif layer.kind == "TimeDistributed":
            parts = [("layer/", layer)]
        for prefix, part in parts:
            variables = group.create_group(f"{prefix}{'cell/' if part.cell else ''}vars")
            for i, (_, value) in enumerate(part.weights):
                variables.create_dataset(str(i), data=value)


def in_memory(fill):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="latest") as file:
        fill(file)
    return buffer.getvalue()


def computed(x, layers, version):
    global VERSION
    VERSION = version
    y = x.astype(float)
    if isinstance(layers, list):
        for layer in layers:
            y = layer.call(y)
    else:
        values = {"x": y}
        for label, (layer, inputs) in layers.items():
            values[label] = layer.call(*[values[one] for one in inputs])
        y = values[list(layers)[-1]]
    return numpy.ascontiguousarray(y)


def write(name, x, layers):
    y, y_keras_3 = computed(x, layers, 2), computed(x, layers, 3)
    numpy.savez(HERE / f"{name}.npz", x=x, y=y, **({} if numpy.array_equal(y, y_keras_3) else {"y_keras_3": y_keras_3}))

    def keras_2(file):
        file.attrs["keras_version"] = numpy.bytes_("2.2.4-tf")
        file.attrs["backend"] = numpy.bytes_("tensorflow")
        file.attrs["model_config"] = numpy.bytes_(json.dumps(configuration(name, x, layers, 2)))
        put_weights(file.create_group("model_weights"), layers, ":0", False, True)

    def apart(file):
        file.attrs["keras_version"] = "2.11.0"
        put_weights(file, layers, ":0", True, False, split=True)

    def keras_3(file):
        file.attrs["keras_version"] = "3.4.1"
        file.attrs["model_config"] = json.dumps(configuration(name, x, layers, 3))
        put_weights(file.create_group("model_weights"), layers, "", True, False)
        file["model_weights"].create_group("top_level_model_weights").attrs["weight_names"] = numpy.zeros(0)

    (HERE / f"{name}.2.h5").write_bytes(in_memory(keras_2))
    (HERE / f"{name}.weights.h5").write_bytes(in_memory(apart))
    (HERE / f"{name}.json").write_text(json.dumps({**configuration(name, x, layers, 2), "keras_version": "2.11.0", "backend": "tensorflow"}))
    (HERE / f"{name}.3.h5").write_bytes(in_memory(keras_3))
    with zipfile.ZipFile(HERE / f"{name}.keras", "w", zipfile.ZIP_STORED) as archive:
        for entry, content in (("metadata.json", json.dumps({"keras_version": "3.9.0", "date_saved": "2025-01-01@00:00:00"})),
                               ("config.json", json.dumps(configuration(name, x, layers, 3))),
                               ("model.weights.h5", in_memory(lambda file: put_numbered(file.create_group("layers"), layers)))):
            archive.writestr(zipfile.ZipInfo(entry, (2025, 1, 1, 0, 0, 0)), content)


def write_bad():
    """Weights of a layer "a" that lie elsewhere, or that are declared and not there."""
    def fill(change):
        def inner(file):
            file.attrs["layer_names"] = [b"a"]
            group = file.create_group("a")
            group.attrs["weight_names"] = [b"a/kernel:0"]
            change(file, group)
        return inner

    def soft(file, group):
        file.create_dataset("elsewhere", data=numpy.zeros((5, 7), numpy.float32))
        group["a/kernel:0"] = h5py.SoftLink("/elsewhere")

    def external_link(file, group):
        group["a/kernel:0"] = h5py.ExternalLink("other.h5", "/kernel")

    def external_bytes(file, group):
        group.create_dataset("a/kernel:0", (5, 7), numpy.float32, external=[("/etc/passwd", 0, 140)])

    def declared(file, group):
        group.create_dataset("a/kernel:0", (5, 107374182), numpy.float32, chunks=(5, 4096))

    for name, change in (("soft", soft), ("external_link", external_link), ("external_bytes", external_bytes), ("declared", declared)):
        (HERE / f"bad_{name}.h5").write_bytes(in_memory(fill(change)))


def main():
    for name, x, layers in networks():
        write(name, x, layers)
    write_bad()


if __name__ == "__main__":
    main()
