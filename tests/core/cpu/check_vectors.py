"""The pointwise parts of recurrent cells are loops of vectors, in every version of core/cpu/cell_loops.cpp.

    python3 check_vectors.py OBJDUMP libmillrace_cpu.a

A compiler that finds something in its way makes them one element at a time, ten times slower, and every test of numbers still passes. Looks
at the machine code for AVX2 and AVX-512: whatever multiplies has to multiply vectors of eight floats or more, and what divides (each sigmoid
and hyperbolic tangent does) has to divide them. Exit status 77, skipped, where there is no objdump or no such function.
"""
import re
import shutil
import subprocess
import sys

from check_registers import functions

CELLS = ("lstm_forward", "lstm_back", "gru_forward_reset_after", "gru_back_reset_after", "gru_forward_gates", "gru_forward_state",
         "gru_back_state", "gru_back_gates", "vanilla_forward", "vanilla_back", "sigmoid", "tanh")
VERSION = re.compile(r"loops::(?:\(anonymous namespace\)::)?(\w+)(<.*Gate<.*>)?[,(].*::(avx512|avx2)\(")
WIDE = re.compile(r"%[yz]mm")


def complaints(listing):
    """(loops looked at, what is wrong with them)"""
    seen, wrong = set(), []
    for name, body in functions(listing):
        version = VERSION.search(name)
        if not version or version.group(1) not in CELLS:
            continue
        gate = "hard gates" if "HardGate" in (version.group(2) or "") else "gates"
        what = f"{version.group(1)}, {gate}, {version.group(3)}"
        seen.add(what)
        for operation in ("mul", "div"):
            single = sum(text.startswith(f"v{operation}ss") for _, text in body)
            whole = sum(text.startswith(f"v{operation}ps") and WIDE.search(text) is not None for _, text in body)
            if single > 0 and whole == 0:
                wrong.append(f"{what}: {single} of {operation}ss and none of vectors")
    return seen, wrong


ONE_BY_ONE = """
0000000000000000 <Versions<&(void cpu::loops::(anonymous namespace)::lstm_back<cpu::SigmoidGate<Fast> >(float*, long)), void (*)()>::avx2(float*, long)>:
   0:\tvmulss %xmm1,%xmm0,%xmm0
   4:\tvdivps %ymm1,%ymm0,%ymm0
"""


def main():
    objdump, path = sys.argv[1], sys.argv[2]
    if not shutil.which(objdump):
        print(f"skipped: no {objdump}")
        return 77
    seen, wrong = complaints(ONE_BY_ONE)
    if len(seen) != 1 or len(wrong) != 1:
        print(f"a planted loop of single elements is not found: {seen}, {wrong}")
        return 1
    listing = subprocess.run([objdump, "--disassemble", "--demangle", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    seen, wrong = complaints(listing.stdout)
    if not seen:
        print("skipped: no cell in versions by instruction set")
        return 77
    missing = [cell for cell in CELLS if not any(what.startswith(cell + ",") for what in seen)]
    wrong += [f"{cell}: not found" for cell in missing]
    print(f"{len(seen)} loops" + "".join(f"\n{line}" for line in sorted(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
