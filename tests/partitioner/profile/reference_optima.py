"""The optima that stage_partition is held to, found another way: memoised recursion over sets of nodes, in plain Python.

    python3 reference_optima.py > reference_optima.csv          about two minutes
    python3 reference_optima.py --check reference_optima.csv gnmt.fine.csv     only the lines of that profile, compared

Nothing is shared with the planner: this reads the files itself, finds the cuts of a graph by closing sets of nodes under
"depends on", and tries, stage after stage from the first to the last, every cut there is. Standard library alone.
"""

import functools
import itertools
import re
import sys
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
HEADER = "profile,devices,count,objective,link_gbps,speeds,memory_gb,max_stage_seconds"
INFINITE = float("inf")


def read_csv(path):
    """A chain as (seconds, parameters, activations) per node and the bytes that cross behind each."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    nodes = [((int(r[1]) + int(r[2])) / 1e6, int(r[4]), int(r[5])) for r in rows]
    cuts = [tuple(range(n + 1)) for n in range(-1, len(nodes))]
    crossing = [0] + [int(r[3]) for r in rows]
    return nodes, cuts, crossing


def size_of(text):
    return sum(float(part) for part in text.strip("[]").split(";"))


def read_graph(path):
    """The same for PipeDream's graph.txt: cuts are all sets of nodes that hold what their nodes depend on."""
    description, amounts, edges = {}, {}, []
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            edges.append(tuple(line.strip().split(" -- ")))
            continue
        name, text, metrics = line.split(" -- ")
        values = re.fullmatch(r"forward_compute_time=(.*), backward_compute_time=(.*), activation_size=(.*), parameter_size=(.*)", metrics)
        forward, backward, activation, parameter = values.groups()
        description[name] = text
        amounts[name] = ((float(forward) + float(backward)) / 1e3, float(parameter), size_of(activation))
    has_maker = {to for _, to in edges}
    has_taker = {maker for maker, _ in edges}
    left_out = {n for n in amounts if n not in has_maker and description[n].startswith("Input")}
    left_out |= {n for n in amounts if n not in has_taker and description[n].startswith("__getitem__")}
    names = [n for n in amounts if n not in left_out]
    place = {n: i for i, n in enumerate(names)}
    makers = [set() for _ in names]
    takers = [set() for _ in names]
    for maker, to in edges:
        if maker in place and to in place:
            makers[place[to]].add(place[maker])
            takers[place[maker]].add(place[to])
    found = {frozenset()}
    waiting = [frozenset()]
    while waiting:
        held = waiting.pop()
        for node in range(len(names)):
            if node not in held and makers[node] <= held:
                more = held | {node}
                if more not in found:
                    found.add(more)
                    waiting.append(more)
    cuts = sorted(found, key=len)
    crossing = [sum(amounts[names[n]][2] for n in cut if not takers[n] <= cut) for cut in cuts]
    return [amounts[n] for n in names], cuts, crossing


class Solver:
    def __init__(self, path):
        nodes, cuts, self.crossing = read_graph(path) if path.name.endswith(".txt") else read_csv(path)
        masks = [sum(1 << node for node in cut) for cut in cuts]
        self.last = len(cuts) - 1
        totals = [[sum(nodes[node][k] for node in cut) for cut in cuts] for k in range(3)]
        # Per cut, the later ones that hold it, with what lies between.
        self.stages = [
            [(j, *(total[j] - total[i] for total in totals)) for j in range(i + 1, len(cuts)) if masks[i] & ~masks[j] == 0]
            for i in range(len(cuts))
        ]

    def best(self, stages, objective, gbps, speeds, memory):
        """The slowest stage of the best cut into exactly so many stages."""
        transfer = [2 * 8 * bytes_ / (gbps * 1e9) for bytes_ in self.crossing]

        @functools.cache
        def after(stage, begin):
            if stage == stages:
                return 0.0 if begin == self.last else INFINITE
            least = INFINITE
            for end, seconds, parameters, activations in self.stages[begin]:
                if stage == stages - 1 and end != self.last:
                    continue
                compute = seconds / (speeds[stage] if speeds else 1)
                if compute >= least:
                    continue
                if memory and 2 * parameters + (stages - stage) * activations > memory:
                    continue
                moved = (transfer[begin] if begin > 0 else 0) + (transfer[end] if end < self.last else 0)
                cost = {"compute": compute, "max": max(compute, moved), "sum": compute + moved}[objective]
                if cost < least:
                    least = min(least, max(cost, after(stage + 1, end)))
            return least

        return after(0, 0)


def questions(path):
    """(devices, count, objective, gbps, speeds, memory_gb)"""
    for devices in (4, 8, 16):
        for objective in ("compute", "max", "sum"):
            for gbps in (10, 100):
                for count in ("exactly", "at-most"):
                    yield devices, count, objective, gbps, (), 0
    for objective in ("compute", "max", "sum"):
        for speeds in ((2, 1, 1), (0.5, 4, 1)):
            for count in ("exactly", "at-most"):
                yield 3, count, objective, 25, speeds, 0
        for memory_gb in (4, 12, 24):
            for count in ("exactly", "at-most"):
                yield 4, count, objective, 25, (), memory_gb


def answers(path):
    solver = Solver(path)
    for devices, count, objective, gbps, speeds, memory_gb in questions(path):
        tried = [devices] if count == "exactly" else range(1, devices + 1)
        # Of devices that differ any may stay without work, in whatever place.
        ways = [(n, some) for n in tried for some in (itertools.combinations(speeds, n) if speeds else [()])]
        best = min(solver.best(n, objective, gbps, some, memory_gb * 1e9) for n, some in ways)
        text = "infeasible" if best == INFINITE else repr(best)
        speed_text = " ".join(str(speed) for speed in speeds)
        yield f"{path.name},{devices},{count},{objective},{gbps},{speed_text},{memory_gb or ''},{text}"


def main():
    sys.setrecursionlimit(10000)
    if sys.argv[1:2] == ["--check"]:
        table, name = sys.argv[2:]
        kept = [line for line in Path(table).read_text().splitlines() if line.startswith(name + ",")]
        found = list(answers(FIXTURES / name))
        for expected, actual in zip(kept, found):
            if expected != actual:
                sys.exit(f"kept  {expected}\nfound {actual}")
        if not found or len(kept) != len(found):
            sys.exit(f"{table} has {len(kept)} lines of {name}, expected {len(found)}")
        print(f"{len(found)} optima of {name} found again")
        return
    print(HEADER)
    for path in sorted([*FIXTURES.glob("*.csv"), *FIXTURES.glob("*.txt")]):
        for line in answers(path):
            print(line)


main()
