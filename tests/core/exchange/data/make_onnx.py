"""Makes the ONNX files beside it and what they compute (python3-onnx, python3-numpy):

    /usr/bin/python3 make_onnx.py

Recurrent layers with random weights, five steps, biases that are not zero and as many features as no layer has units, so that a wrong order of
gates, a missing transpose or exchanged biases show. The expected values come from the loops below, written after the operators'
definitions and nothing else. NAME.npz holds x and y as the file's input and output.
"""

from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
STEPS, SAMPLES, FEATURES, UNITS = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def one_direction(kind, x, w, r, b, before=True, activation=numpy.tanh, gate=sigmoid):
    """All states of one direction, [steps, samples, units], gates in ONNX's order, in double precision."""
    gates = GATES[kind]
    wb, rb = b[: gates * UNITS], b[gates * UNITS :]
    part = lambda matrix, gate: matrix[gate * UNITS : (gate + 1) * UNITS]
    h = numpy.zeros((x.shape[1], UNITS))
    c = numpy.zeros((x.shape[1], UNITS))
    states = []
    for step in x:
        inner = lambda gate, state: step @ part(w, gate).T + state @ part(r, gate).T + part(wb, gate) + part(rb, gate)
        if kind == "LSTM":  # i o f c
            i, o, f, g = gate(inner(0, h)), gate(inner(1, h)), gate(inner(2, h)), numpy.tanh(inner(3, h))
            c = f * c + i * g
            h = o * numpy.tanh(c)
        elif kind == "GRU":  # z r h
            z, reset = gate(inner(0, h)), gate(inner(1, h))
            if before:
                n = numpy.tanh(inner(2, reset * h))
            else:
                n = numpy.tanh(step @ part(w, 2).T + part(wb, 2) + reset * (h @ part(r, 2).T + part(rb, 2)))
            h = (1 - z) * n + z * h
        else:
            h = activation(inner(0, h))
        states.append(h)
    return numpy.stack(states)


def make(name, kind, directions, layout, seed, before=True, relu=False, last=False, hard=None, listed=False):
    draw = numpy.random.default_rng(seed)
    rows = GATES[kind] * UNITS
    w = draw.normal(0, 0.6, (directions, rows, FEATURES)).astype(numpy.float32)
    r = draw.normal(0, 0.6, (directions, rows, UNITS)).astype(numpy.float32)
    b = draw.normal(0, 0.6, (directions, 2 * rows)).astype(numpy.float32)
    x = draw.normal(0, 1, (STEPS, SAMPLES, FEATURES)).astype(numpy.float32)
    wide = [value.astype(numpy.float64) for value in (w, r, b, x)]
    activation = (lambda value: numpy.maximum(value, 0)) if relu else numpy.tanh
    gate = sigmoid if hard is None else lambda value: numpy.clip(hard * value + 0.5, 0, 1)
    states = [one_direction(kind, wide[3], wide[0][0], wide[1][0], wide[2][0], before, activation, gate)]
    if directions == 2:
        backward = one_direction(kind, wide[3][::-1], wide[0][1], wide[1][1], wide[2][1], before, activation, gate)
        states.append(backward[::-1])
    y = numpy.concatenate(states, axis=-1)  # [steps, samples, directions * units]

    attributes = {"hidden_size": UNITS, "direction": "bidirectional" if directions == 2 else "forward"}
    if layout:
        attributes["layout"] = 1
    if kind == "GRU":
        attributes["linear_before_reset"] = 0 if before else 1
    if relu:
        attributes["activations"] = ["Relu"] * directions
    if hard is not None:
        words = ["HardSigmoid"] + ["Tanh"] * (2 if kind == "LSTM" else 1)
        attributes["activations"] = words * directions
        if listed:  # a number for each activation
            attributes["activation_alpha"] = [hard] + [0.0] * (len(words) - 1)
            attributes["activation_beta"] = [0.5] + [0.0] * (len(words) - 1)
        elif hard != 0.2:
            attributes["activation_alpha"] = [hard] * directions
            attributes["activation_beta"] = [0.5] * directions
    nodes = [helper.make_node(kind, ["x", "W", "R", "B"], ["", "last"] if last else ["all"], name="cell", **attributes)]
    constants = [numpy_helper.from_array(value, label) for value, label in ((w, "W"), (r, "R"), (b, "B"))]
    if last:
        y = y[-1]
        nodes.append(helper.make_node("Squeeze", ["last", "axes"], ["y"], name="squeeze"))
        constants.append(numpy_helper.from_array(numpy.array([1 if layout else 0]), "axes"))
        shape = [SAMPLES, UNITS]
    elif directions == 1:
        nodes.append(helper.make_node("Squeeze", ["all", "axes"], ["y"], name="squeeze"))
        constants.append(numpy_helper.from_array(numpy.array([2 if layout else 1]), "axes"))
        shape = [SAMPLES, STEPS, UNITS] if layout else [STEPS, SAMPLES, UNITS]
    else:
        joined = "all"
        if not layout:
            nodes.append(helper.make_node("Transpose", ["all"], ["side"], name="side", perm=[0, 2, 1, 3]))
            joined = "side"
        nodes.append(helper.make_node("Reshape", [joined, "shape"], ["y"], name="join"))
        constants.append(numpy_helper.from_array(numpy.array([0, 0, -1]), "shape"))
        shape = [SAMPLES, STEPS, 2 * UNITS] if layout else [STEPS, SAMPLES, 2 * UNITS]
    if layout:
        x = x.transpose(1, 0, 2)
        y = y if last else y.transpose(1, 0, 2)
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7, producer_name="make_onnx.py")
    onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())
    numpy.savez(HERE / f"{name}.npz", x=numpy.ascontiguousarray(x), y=numpy.ascontiguousarray(y))


def main():
    seed = 0
    for layout in (0, 1):
        for directions in (1, 2):
            for label, options in (("lstm", {"kind": "LSTM"}), ("gru_before", {"kind": "GRU"}), ("gru_after", {"kind": "GRU", "before": False}),
                                   ("rnn_tanh", {"kind": "RNN"}), ("rnn_relu", {"kind": "RNN", "relu": True})):
                seed += 1
                make(f"{label}_{directions}_{'samples' if layout else 'steps'}", directions=directions, layout=layout, seed=seed, **options)
    for layout in (0, 1):
        make(f"lstm_last_{'samples' if layout else 'steps'}", "LSTM", 1, layout, 100 + layout, last=True)
    make("lstm_hard_1_steps", "LSTM", 1, 0, 110, hard=0.2)
    make("lstm_hard_2_samples", "LSTM", 2, 1, 111, hard=1 / 6)
    make("gru_hard_before_2_steps", "GRU", 2, 0, 112, hard=0.7)
    make("gru_hard_after_1_samples", "GRU", 1, 1, 113, before=False, hard=0.4, listed=True)


if __name__ == "__main__":
    main()
