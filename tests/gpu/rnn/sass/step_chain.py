"""What a step of a persistent LSTM costs, part by part, in the machine code that nvcc left in an object.

    python3 step_chain.py [--out FILE] [--most MICROSECONDS] shipped_lstm.cu.o

For LSTM 1024 x 1, fp32 and bf16, on compute capability 9.0 it follows the way of one warp through a step, from block barrier to block barrier:
the shortest way through the code that does what the step must (load so many sums and multipliers, take so many exponentials, never sleep).
Along it instructions are counted, and cycles are added up as the hardware issues them: in order, with the stalls and scoreboards that the
code itself holds, and latencies of an H100 as others report them, quoted without the paper at hand: check them before relying on them. Cycles and microseconds are PROJECTED: no GPU ran this. Counts are exact for
the way that is named. Exit status 1 when a step has no such way, or takes more than --most; 77 when no object holds the kernels.
"""

import argparse
import heapq
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from machine_code import kernels_in  # noqa: E402

CLOCK_MHZ = 1980  # H200's boost, data sheet
L2_CYCLES = 263  # there and back; H100, Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture" (2024)
LATENCY = {"LDS": 29, "SHFL": 29, "MUFU": 23, "LDC": 29, "ULDC": 29, "S2R": 29, "S2UR": 29, "HMMA": 33, "LDG": L2_CYCLES}
OTHER_LATENCY = 14  # what answers through a scoreboard and is none of these
OPERANDS_TAKEN = 12  # a store has read its registers
BARRIER = 30  # from the last warp's arrival until all go on
WARPS, SCHEDULERS, BANK_BYTES = 8, 4, 128
# What reads wait for who polls: a slice of the L2 cache gives 64 bytes a cycle (A100 whitepaper) and every reader wants the same lines of 128.
LINE_CYCLES = 2
CLUSTER_CYCLES = 180  # from block to block of a cluster, there and back; H100, Luo et al.
CLUSTER_BYTES = 13  # a cycle, that a block of a cluster receives; H100, clusters of 4, Luo et al.
CLUSTER = 8
BLOCKS = 128


def bytes_of(i):
    """Of an access's one lane."""
    return (1, 1, 2, 2, 4, 8, 16, 16)[i.word[1] >> 9 & 7]


def is_strong(i):
    return i.word[1] >> 12 & 0xF == 0xF


def kind_of(i):
    """What an instruction counts as on the way."""
    if i.operation in ("LDG", "STG"):
        return ("publish" if i.operation == "STG" else "poll") if is_strong(i) else i.operation
    return "place" if i.operation == "STS" and bytes_of(i) == 16 else i.operation


def ways_from(code, at):
    """Where execution may go on behind an instruction."""
    i = code[at]
    if i.operation == "EXIT" and i.always:
        return []
    if i.operation == "BRA":
        if i.word[1] >> 27 & 1:  # taken by a warp whose lanes have gone different ways
            return [at + 1]
        return [i.target] if i.always else [at + 1, i.target]
    return [at + 1]


def shortest(code, start, ends, wanted, never):
    """The fewest instructions from `start` on to one of `ends`, with at least `wanted` of each kind, as indices; none when there is no way."""
    kinds = sorted(wanted)
    first = (start, tuple(0 for _ in kinds))
    cost, before, queue = {first: 0}, {}, [(0, first)]
    while queue:
        steps, state = heapq.heappop(queue)
        if steps > cost[state]:
            continue
        at, counts = state
        i = code[at]
        kind = kind_of(i)
        if at in ends and all(c >= wanted[k] for k, c in zip(kinds, counts)):
            way = [at]
            while state in before:
                state = before[state]
                way.append(state[0])
            return way[::-1]
        # A guarded poll asks for what this warp does not want, a guarded end is for those who give up.
        refused = kind in never and (i.always or kind not in ("poll", "EXIT"))
        if (refused or at in ends) and at != start:
            continue
        counts = tuple(min(wanted[k], c + (kind == k)) for k, c in zip(kinds, counts))
        for to in ways_from(code, at):
            state_there = (to, counts)
            if to < len(code) and steps + 1 < cost.get(state_there, 1 << 30):
                cost[state_there] = steps + 1
                before[state_there] = state
                heapq.heappush(queue, (steps + 1, state_there))
    return None


def cycles_of(code, way):
    """From the first instruction's issue to the last one's, in order, by the stalls and scoreboards in the code. Polls are answered."""
    ready, now = [0] * 6, 0
    for at in way[:-1]:
        i = code[at]
        now = max([now] + [ready[s] for s in range(6) if i.waits >> s & 1])
        if i.writes < 6 and kind_of(i) != "poll":
            ready[i.writes] = max(ready[i.writes], now + LATENCY.get(i.operation, OTHER_LATENCY))
        if i.reads < 6:
            ready[i.reads] = max(ready[i.reads], now + OPERANDS_TAKEN)
        now += max(1, i.stall)
    last = code[way[-1]]
    return max([now] + [ready[s] for s in range(6) if last.waits >> s & 1])


class NoWay(Exception):
    pass


def parts_of(code, by_lanes, slices, multiplies, height_bytes, cluster):
    """(name, way, cycles, what they are) of each part of a step, in order."""
    product, count = multiplies
    barriers = [at for at, i in enumerate(code) if i.operation == "BAR"]
    sleepless = {"NANOSLEEP", "BAR", "EXIT"}
    ends, sent = set(barriers), {}
    if cluster > 1:  # a lane of a matrix product sends the sums of one sample of two, of two rows of each fragment
        sends = [at for at, i in enumerate(code) if i.operation == "STAS"]
        ends, sent = {sends[-2 if len(sends) > 1 else 0]}, {"STAS": len(sends) // 2 - 1 if len(sends) > 1 else 0}
    for begin in barriers:
        multiply = shortest(code, begin, ends - {begin}, {product: count, **sent}, {"NANOSLEEP", "MUFU", "publish", "poll"})
        if multiply:
            break
    else:
        raise NoWay("no barriers stand around the products")
    end = multiply[-1]
    hand_over = []
    if cluster > 1:
        waits = {at for at, i in enumerate(code) if i.operation == "SYNCS"}
        hand_over = shortest(code, end, waits, {"BAR": 1}, {"NANOSLEEP", "MUFU", "publish", "poll"})
        if not hand_over:
            raise NoWay("no way from a sum that is sent to the wait for all of them")
        end = hand_over[-1]
    publishes = {at for at, i in enumerate(code) if kind_of(i) == "publish" and bytes_of(i) == height_bytes}
    gates = 1 if by_lanes else 4
    exponentials = 2 if by_lanes else 5
    finish = shortest(code, end, publishes, {"LDS": gates * slices, "MUFU": 2 * exponentials}, sleepless)
    if not finish:
        raise NoWay("no way from the sums to a published state")
    polls = {at for at, i in enumerate(code) if kind_of(i) == "poll" and bytes_of(i) == 16}
    ask = shortest(code, finish[-1], polls, {"LDG": 2 if by_lanes else 5}, sleepless | {"MUFU"})
    if not ask:
        raise NoWay("no way from a published state to the next one that is asked for")
    take = shortest(code, ask[-1] + 1, {begin}, {"place": 1}, sleepless - {"BAR"} | {"MUFU", "poll"})
    if not take:
        raise NoWay("no way from an answer to the barrier before the products")
    board = code[ask[-1]].writes
    answered = next(n for n, at in enumerate(take) if code[at].waits >> board & 1)  # what comes before hides behind the exchange
    ask, take = ask + take[:answered], take[answered:]
    issued = len(multiply) * WARPS // SCHEDULERS
    banks = WARPS * sum(32 * bytes_of(code[at]) // BANK_BYTES for at in multiply if code[at].operation == "LDS")
    received = 4 * 4 * (1024 // BLOCKS) * (cluster - 1)
    within = [
        (
            "sums through the cluster",
            hand_over,
            max(CLUSTER_CYCLES // 2 + received // CLUSTER_BYTES, (cycles_of(code, hand_over) if hand_over else 0) + BARRIER),
            f"one way, {received} bytes a block; the way's instructions and a barrier hide behind it",
        )
    ]
    return [
        ("finish a unit and publish it", finish, cycles_of(code, finish), "one warp's way"),
        ("exchange through the L2 cache", ask, 3 * L2_CYCLES // 2, "there, half a poll's turn, and back; the way's instructions hide behind it"),
        ("take states in", take, cycles_of(code, take) + BARRIER, "one warp's way, and a barrier"),
        (
            "multiply and sum",
            multiply,
            max(cycles_of(code, multiply), issued, banks) + (BARRIER if cluster == 1 else 0),
            f"the longest of one warp's way, {issued} issues of a scheduler's warps, {banks} turns of shared memory"
            + ("; and a barrier" if cluster == 1 else ""),
        ),
    ] + (within if cluster > 1 else [])


# What it is, a part of the mangled name, slices, products of a warp's way, bytes of a published state, blocks of a cluster.
LAYOUTS = (
    ("LSTM 1024 x 1 fp32, 128 blocks of 256 threads, 4x32x32x1", "LstmForwardIfEENS0_10FmaProductILi4ELi32ELi32ELi1EE", 1, ("FFMA", 128), 4, 1),
    (
        "LSTM 1024 x 1 fp32, 16 clusters of 8 blocks of 256 threads, 4x32x4x1",
        "9ClusteredINS0_11LstmForwardIfEENS0_10FmaProductILi4ELi32ELi4ELi1EEELi8E",
        8,
        ("FFMA", 128),
        4,
        CLUSTER,
    ),
    (
        "LSTM 1024 x 1 bf16, 128 blocks of 256 threads in 8 slices, 2x8x1x1",
        "LstmForwardINS0_8BFloat16EEENS0_13MatrixProductIS4_Li2ELi8ELi1EE",
        8,
        ("HMMA", 16),
        2,
        1,
    ),
    (
        "LSTM 1024 x 1 bf16, 16 clusters of 8 blocks of 256 threads, 2x8x1x1",
        "9ClusteredINS0_11LstmForwardINS0_8BFloat16EEENS0_13MatrixProductIS4_Li2ELi8ELi1EEELi8E",
        8,
        ("HMMA", 16),
        2,
        CLUSTER,
    ),
)


def insane(kernels):
    """What cannot be so in machine code that was read right; none when all is well."""
    for kernel in kernels:
        count = len(kernel.code)
        if any(i.operation == "BRA" and not 0 <= i.target < count for i in kernel.code):
            return f"{kernel.name}: a branch leaves the kernel"
        if not any(i.operation == "EXIT" and i.always for i in kernel.code):
            return f"{kernel.name}: no end"
        set_by = {i.writes for i in kernel.code} | {i.reads for i in kernel.code}
        if any(i.waits >> s & 1 and s not in set_by for i in kernel.code for s in range(6)):
            return f"{kernel.name}: waits for a scoreboard that nobody sets"
    return None


def main():
    parser = argparse.ArgumentParser(description="what a step costs in machine code")
    parser.add_argument("objects", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--most", type=float, help="microseconds, projected")
    parser.add_argument("--unit-by-thread", action="store_true", help="code in which a thread finishes a unit's gates one after the other")
    arguments = parser.parse_args()
    kernels = [k for path in arguments.objects if path.name.startswith("shipped_lstm") for k in kernels_in(path.read_bytes()) if k.architecture == 90]
    if not kernels:
        print("skipped: no object of shipped_lstm with machine code for compute capability 9.0; build with nvcc and CMake's MILLRACE_CUDA_ARCHITECTURES=90a")
        return 77
    result = {
        "what": "a step of a persistent LSTM in machine code for compute capability 9.0; cycles and microseconds are projected, no GPU ran it",
        "clock_mhz": CLOCK_MHZ,
        "latencies": {**LATENCY, "other": OTHER_LATENCY, "barrier": BARRIER, "cluster": CLUSTER_CYCLES, "line of a reader": LINE_CYCLES},
        "cluster_bytes_per_cycle": CLUSTER_BYTES,
        "layouts": [],
    }
    wrong = 0
    if insane(kernels):
        print(insane(kernels))
        wrong += 1
    for what, name, slices, multiplies, height_bytes, cluster in LAYOUTS:
        code = next(k.code for k in kernels if name in k.name and (cluster > 1) == ("clustered_kernel" in k.name))
        try:
            parts = parts_of(code, not arguments.unit_by_thread, slices, multiplies, height_bytes, cluster)
        except NoWay as error:
            print(f"{what}: {error}")
            wrong += 1
            continue
        cycles = sum(part[2] for part in parts)
        microseconds = cycles / CLOCK_MHZ
        with_polls = (cycles + 3 * LINE_CYCLES * BLOCKS // cluster // 2) / CLOCK_MHZ
        rows = []
        print(f"{what}: {cycles} cycles, {microseconds:.2f} us at {CLOCK_MHZ} MHz; {with_polls:.2f} us where polls in vain wait in front (projected)")
        for part, way, taken, how in parts:
            counted = {}
            for at in way:
                counted[kind_of(code[at])] = counted.get(kind_of(code[at]), 0) + 1
            rows.append({"part": part, "instructions": len(way), "cycles_projected": taken, "how": how})
            for kind in ("FFMA", "HMMA", "MUFU", "SHFL", "LDS", "STS", "place", "LDG", "poll", "publish"):
                if counted.get(kind):
                    rows[-1][kind.lower()] = counted[kind]
            print(f"  {part:32} {len(way):4} instructions {taken:5} cycles")
        result["layouts"].append({"layout": what, "cycles_projected": cycles, "microseconds_projected": round(microseconds, 3), "with_polls_in_vain_projected": round(with_polls, 3), "parts": rows})
        if arguments.most and microseconds > arguments.most:
            print(f"more than {arguments.most} us")
            wrong += 1
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
