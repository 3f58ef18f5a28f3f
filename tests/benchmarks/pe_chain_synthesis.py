#!/usr/bin/env python3
"""Chains of elements through Yosys: slices, half blocks and UltraRAM found, beside what their structure says.

    tests/benchmarks/pe_chain_synthesis.py [--only 'lstm_16'] [--timeout 600] [--out tests/benchmarks/results/pe_chain_synthesis.json]

Every configuration is one engine of fpga/pe_chain, mapped as far as slices and blocks; modules are mapped once each and counted as often
as they stand. What is expected: a slice to an element, two in single precision, whose adders are of LUTs; behind each chain, for gates forward and
back, 20 of lstm, 15 of gru, 2 of a vanilla tangent, in single precision two to each of 29, 20 and 4 multipliers; half blocks for
each element's weights, the state twice, what units keep, and three for the pieces of a function; a projection takes no more of either. With weights in UltraRAM those of
four chains in 16 bits, or two in 32, are one word of a block of 4,096, at each depth of a unit's chains. LUTs and flip-flops are not mapped.
Ends with 1 where what is found is not what is expected. Needs yosys. Standard library alone.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# CELL, GATES, BIASES, PROJECTS
CELLS = {"lstm": (0, 4, 4, 0), "gru": (1, 3, 4, 0), "relu": (2, 1, 1, 0), "tanh": (3, 1, 1, 0), "lstm_projected": (0, 4, 4, 1)}
GATES_OF_CHAIN = {16: {"lstm": 4 + 16, "gru": 3 + 12, "relu": 0, "tanh": 2},
                  32: {"lstm": 2 * (13 + 16), "gru": 2 * (9 + 11), "relu": 0, "tanh": 2 * (2 + 2)}}
FUNCTIONS = {"lstm": 5, "gru": 3, "relu": 0, "tanh": 1}
STATE_WORDS = 64

# Family, bits, cell, chains, elements of a chain, weights of an element; "ultra": the family xcup with weights in UltraRAM.
CONFIGURATIONS = [("xc7", 16, "relu", 2, 2, 256), ("xc7", 16, "tanh", 4, 2, 1024), ("xc7", 16, "gru", 2, 2, 1024),
                  ("xc7", 16, "lstm", 2, 2, 1024), ("xc7", 16, "lstm", 4, 3, 2048), ("xcup", 16, "lstm", 2, 2, 256),
                  ("xcup", 16, "gru", 4, 2, 512), ("xcup", 16, "tanh", 2, 4, 4096), ("xc7", 32, "relu", 2, 2, 512),
                  ("xc7", 32, "tanh", 2, 2, 1024), ("xc7", 32, "gru", 2, 2, 512), ("xc7", 32, "lstm", 2, 2, 512),
                  ("xc7", 16, "lstm_projected", 4, 2, 1024), ("xcup", 16, "lstm_projected", 8, 2, 512), ("xc7", 32, "lstm_projected", 4, 2, 512),
                  ("ultra", 16, "lstm", 4, 2, 4096), ("ultra", 16, "gru", 8, 2, 8192), ("ultra", 16, "tanh", 2, 3, 4096),
                  ("ultra", 16, "lstm_projected", 8, 2, 4096), ("ultra", 32, "lstm", 4, 2, 4096), ("ultra", 32, "gru", 2, 2, 8192)]


def half_blocks(width, depth):
    """Of one memory: columns of one shape each, the least over shapes."""
    shapes = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))
    return min(-(-width // wide) * -(-depth // deep) for wide, deep in shapes)


def expected(ultra, bits, cell, chains, per_chain, words):
    gates, cell = CELLS[cell][1], cell.removesuffix("_projected")  # sums without gates are of LUTs
    elements = gates * chains * per_chain
    kept = {"lstm": (32, bits), "gru": (bits, bits)}.get(cell, ())
    urams = gates * per_chain * -(-chains * bits // 64) * -(-words // 4096) if ultra else 0
    blocks = (0 if ultra else elements * half_blocks(bits, words)) + 2 * half_blocks(gates * chains * bits, 2 * STATE_WORDS)
    blocks += sum(half_blocks(chains * width, STATE_WORDS) for width in kept)
    if bits == 32:
        blocks += chains * FUNCTIONS[cell] * half_blocks(96, 512)
    return elements * bits // 16 + chains * GATES_OF_CHAIN[bits][cell], blocks, urams


def found(family, bits, cell, chains, per_chain, words, timeout):
    number, gates, biases, projects = CELLS[cell]
    parts = ["fpga/pe_chain/rtl/modules/*.sv", "fpga/recurrence/rtl/modules/tail_unit.sv", "fpga/recurrence/rtl/modules/gate_function.sv",
             "fpga/common/rtl/modules/round_to_element.sv", "fpga/common/rtl/modules/stream_fifo.sv"]
    files = [str(path) for part in parts for path in sorted(SOURCE.glob(part))]
    given = {"ELEMENT": bits, "CELL": number, "GATES": gates, "BIASES": biases, "CHAINS": chains, "PER_CHAIN": per_chain, "WORDS": words,
             "STATE_WORDS": STATE_WORDS, "PROJECTS": projects, "ULTRA": int(family == "ultra")}
    mapped = "-family xcup -uram" if family == "ultra" else f"-family {family}"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sigmoid_pieces.hex", "tangent_pieces.hex"):  # their contents change no count
            (pathlib.Path(folder) / name).write_text("".join(f"{i * 0x9e3779b97f4a7c15f39cc0605 % 2**96:024x}\n" for i in range(1, 513)))
        script = (f"read_verilog -sv -defer {' '.join(files)}; hierarchy -top pe_chain_engine "
                  + " ".join(f"-chparam {name} {value}" for name, value in given.items())
                  + f"; synth_xilinx {mapped} -top pe_chain_engine -run begin:fine; tee -o statistics stat")
        done = subprocess.run(["yosys", "-q", "-p", script], cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        text = (pathlib.Path(folder) / "statistics").read_text()
    total = text[text.rindex("design hierarchy"):] if "design hierarchy" in text else text

    def count(cells):
        return sum(int(n) for n in re.findall(rf"^\s+{cells}\w*\s+(\d+)$", total, re.MULTILINE))
    return count("DSP48E"), count("RAMB18E") + 2 * count("RAMB36E"), count("URAM288")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/pe_chain_synthesis.json"))
    arguments = parser.parse_args()
    rows, good = [], True
    for family, bits, cell, chains, per_chain, words in CONFIGURATIONS:
        name = f"{family}_{cell}_{bits}_{chains}x{per_chain}_{words}"
        if not re.search(arguments.only, name):
            continue
        there = expected(family == "ultra", bits, cell, chains, per_chain, words)
        row = {"family": family, "element_bits": bits, "cell": cell, "chains": chains, "per_chain": per_chain, "words": words}
        try:
            here = found(family, bits, cell, chains, per_chain, words, arguments.timeout)
            row |= {name: list(pair) for name, *pair in zip(("dsp", "bram18", "uram"), here, there)}
            good = good and here == there
        except subprocess.TimeoutExpired:
            row |= {"ended": False, "seconds": arguments.timeout}
        rows.append(row)
        print(json.dumps(row), flush=True)
        pathlib.Path(arguments.out).write_text('{\n  "origin": "measured: Yosys, synth_xilinx to slices and blocks; [found, expected]",\n  "engines": [\n'
                                               + ",\n".join("    " + json.dumps(each) for each in rows) + "\n  ]\n}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
