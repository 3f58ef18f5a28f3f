"""Reads the machine code that nvcc left in an object: no tool of the CUDA toolkit is wanted.

    for kernel in kernels_in(Path("shipped_lstm.cu.o").read_bytes()):
        kernel.architecture, kernel.name, kernel.code[0].operation, kernel.code[0].stall

Instructions have 128 bits from compute capability 7.0 on. Beside the operation they say what hardware waits for: cycles until the next one
may begin, and for answers that take their time one of six scoreboards, which whoever needs the answer waits for. Both are decoded, operands
are not. What is laid out how was published by others (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018,
section 2); tests hold it to what must be true of any kernel.
"""

import struct
from dataclasses import dataclass

OPERATIONS = {
    0x223: "FFMA",
    0x221: "FADD",
    0x220: "FMUL",
    0x308: "MUFU",
    0x984: "LDS",
    0x388: "STS",
    0x988: "STS",
    0x981: "LDG",
    0x986: "STG",
    0xB1D: "BAR",
    0x947: "BRA",
    0x94D: "EXIT",
    0x389: "SHFL",
    0x589: "SHFL",
    0x989: "SHFL",
    0xF89: "SHFL",
    0x23C: "HMMA",
    0x945: "BSSY",
    0x941: "BSYNC",
    0x95D: "NANOSLEEP",
    0x944: "CALL",
    0x950: "RET",
    0xDBD: "STAS",
    0x5A7: "SYNCS",
    0x919: "S2R",
    0x9C3: "S2UR",
    0x805: "CS2R",
    0xB82: "LDC",
    0xAB9: "ULDC",
}
ALWAYS = 7  # the predicate that is always true


@dataclass(frozen=True)
class Instruction:
    operation: str  # a name of the table, else the number
    guard: int
    negated: bool
    stall: int  # cycles until the next may begin
    writes: int  # scoreboard that says when the result is there; 7 for none
    reads: int  # ... when the operands have been taken
    waits: int  # mask of scoreboards that must be clear first
    target: int  # of a branch, as an index; -1 for none
    word: tuple

    @property
    def always(self):
        return self.guard == ALWAYS and not self.negated


@dataclass(frozen=True)
class Kernel:
    architecture: int  # 90 for compute capability 9.0
    name: str  # mangled
    code: tuple


def signed(value, bits):
    return value - (value >> (bits - 1) << bits)


def instruction(low, high, index, architecture):
    control = high >> 41
    operation = OPERATIONS.get(low & 0xFFF, hex(low & 0xFFF))
    target = -1
    if operation == "BRA":
        # Bytes to the end of the branch: from 9.0 on their words' lowest eight bits lie apart.
        upper = signed(low >> 34 | (high & 0x3FFFF) << 30, 48)
        target = index + 1 + (upper * 4 if architecture < 90 else (upper * 256 + (low >> 16 & 0xFF)) * 4) // 16
    return Instruction(
        operation, low >> 12 & 7, bool(low >> 15 & 1), control & 15, control >> 5 & 7, control >> 8 & 7, control >> 11 & 63, target, (low, high)
    )


def kernels_in(data):
    """Of every device image in an object of nvcc's, made with -no-compress."""
    found = []
    at = data.find(b"\x7fELF\x02\x01\x01")
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == 190:  # EM_CUDA
            found += kernels_of_image(data, at)
        at = data.find(b"\x7fELF\x02\x01\x01", at + 4)
    return found


def kernels_of_image(data, at):
    architecture = struct.unpack_from("<I", data, at + 48)[0] >> 8 & 0xFF
    table, count, names = struct.unpack_from("<Q", data, at + 40)[0], *struct.unpack_from("<HH", data, at + 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, at + table + 64 * i) for i in range(count)]
    kernels = []
    for header in headers:
        begin = at + headers[names][4] + header[0]
        name = data[begin : data.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            words = struct.unpack_from(f"<{header[5] // 8}Q", data, at + header[4])
            code = tuple(instruction(low, high, i, architecture) for i, (low, high) in enumerate(zip(words[::2], words[1::2])))
            kernels.append(Kernel(architecture, name[6:], code))
    return kernels
