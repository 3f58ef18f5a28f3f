"""Sums of products stay in registers: no hot loop of core/cpu/packed_product.cpp and core/cpu/blocked_product.cpp touches the stack.

    python3 check_registers.py OBJDUMP packed_product.cpp.o

Looks at the machine code of every tile of 16 lanes compiled for AVX-512 and of every tile of 8 lanes compiled for AVX2: its innermost
loops with fused multiply-adds must name neither stack nor frame pointer, and each tile must have one such loop with as many of them as it
has rows times panels. Exit status 77, skipped, where there is no objdump or no such function (not x86-64, or not GCC).
"""
import re
import shutil
import subprocess
import sys

TILE = re.compile(r"multiply_tile<(\d+), (\d+)ul, (\d+)ul(?:, (?:true|false))?>.*::(avx512|avx2)\(")
WIDTH = {"avx512": ("16", "%zmm"), "avx2": ("8", "%ymm")}


def functions(listing):
    """Names and instructions [(address, text)] of what objdump lists."""
    name, body = None, []
    for line in listing.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            if name:
                yield name, body
            name, body = head.group(1), []
        instruction = re.match(r"^\s+([0-9a-f]+):\s+(.*)$", line)
        if instruction:
            body.append((int(instruction.group(1), 16), instruction.group(2)))
    if name:
        yield name, body


def innermost_loops(body):
    place = {address: at for at, (address, _) in enumerate(body)}
    loops = []
    for at, (_, text) in enumerate(body):
        jump = re.match(r"j\w+\s+([0-9a-f]+)", text)
        target = place.get(int(jump.group(1), 16)) if jump else None
        if target is not None and target <= at:
            loops.append((target, at))
    inner = [loop for loop in loops if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in loops)]
    return [[text for _, text in body[first:last + 1]] for first, last in inner]


def complaints(listing):
    """(tiles looked at, what is wrong with them)"""
    tiles, wrong = 0, []
    for name, body in functions(listing):
        tile = TILE.search(name)
        if not tile or WIDTH[tile.group(4)][0] != tile.group(1):
            continue
        tiles += 1
        rows, panels = int(tile.group(2)), int(tile.group(3))
        what = f"{tile.group(4)}, {rows} rows by {panels} panels"
        register = WIDTH[tile.group(4)][1]
        hot = [loop for loop in innermost_loops(body) if sum("vfmadd" in text and register in text for text in loop) >= rows * panels]
        if not hot:
            wrong.append(f"{what}: no loop with {rows * panels} fused multiply-adds of whole vectors")
        for loop in hot:
            wrong += [f"{what}: {text}" for text in loop if re.search(r"\(%r[sb]p", text)]
    return tiles, wrong


SPILLED = """
0000000000000000 <Versions<&(void multiply_tile<8, 1ul, 1ul>(Product const&, long, long)), void (*)()>::avx2(Product const&, long, long)>:
   0:\tvmovups (%rax),%ymm1
   4:\tvfmadd213ps 0x20(%rsp),%ymm1,%ymm0
   8:\tvmovaps %ymm0,0x20(%rsp)
   c:\tjne    0 <there>
"""


def main():
    objdump, path = sys.argv[1], sys.argv[2]
    if not shutil.which(objdump):
        print(f"skipped: no {objdump}")
        return 77
    tiles, wrong = complaints(SPILLED)
    if tiles != 1 or len(wrong) != 2:
        print(f"a planted sum on the stack is not found: {tiles} tiles, {wrong}")
        return 1
    listing = subprocess.run([objdump, "--disassemble", "--demangle", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    tiles, wrong = complaints(listing.stdout)
    if tiles == 0:
        print("skipped: no tile in versions by instruction set")
        return 77
    print(f"{tiles} tiles" + "".join(f"\n{line}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
