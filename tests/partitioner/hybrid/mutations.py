#!/usr/bin/env python3
"""Breaks the solver on purpose, one place at a time, and sees whether a test notices.

    tests/partitioner/hybrid/mutations.py --build build/release [--only homes] [--out tests/benchmarks/results/solver_mutations.json]

Every mutation is one piece of text replaced in a copy of a source file of partitioner/hybrid. The library's sources are compiled with it, put
in front of the library where test_hybrid is linked, and the tests run until the first fails. Nothing in the tree or in the build changes. Needs a
build of test_hybrid by Ninja that is up to date. Exit status 1 where a mutation goes unnoticed, or its text is no longer there. Standard library alone.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "partitioner" / "hybrid"
MUTATIONS = [
    ("nothing", "ring_solver.cpp", "best.lower_bound = impossible;", "best.lower_bound = impossible;"),  # the tests pass as they are
    ("bound is the period", "ring_solver.cpp", "best.lower_bound = impossible;", "best.lower_bound = best.period;"),
    ("102% of every memory", "segment_load.cpp", "double capacity = capacities[i].amount;", "double capacity = 1.02 * capacities[i].amount;"),
    ("102% of the parameters' memory", "ring_solver.cpp", "HomeProblem::Device device{.capacity = memory.amount,",
     "HomeProblem::Device device{.capacity = 1.02 * memory.amount,"),
    ("no joint search", "ring_solver.cpp", "  if (!settled()) {\n    JointBisection", "  if (!settled() && best.period < 0) {\n    JointBisection"),
    ("joint search never shortens the period", "joint_bisection.cpp", "    descend(cells, tolerance);\n", ""),
    ("joint search never raises the bound", "joint_bisection.cpp", "    raise(cells, tolerance);\n", ""),
    ("joint search ends with its first plan", "joint_bisection.cpp", "for (const auto& [cells, tolerance] : kLevels) {",
     "for (const auto& [cells, tolerance] : kLevels) {\n      if (cells > 0) break;"),
    ("no exact end of the joint search", "joint_bisection.cpp", "      descend(cells, kExact);\n      raise(cells, kExact);\n", ""),
    # Of the looks before and after the search either makes up for the other, at the cost of time, so they go together.
    ("no look at plans with every parameter at home", "ring_solver.cpp", "const bool prefers_home = task_->options.balance == Balance::kAuto;",
     "const bool prefers_home = task_->options.balance_target < 0;"),
    ("homes ignored", "ring_solver.cpp", "  solution.cuts = std::move(cuts);\n  solution.homes = std::move(*homes);\n",
     "  solution.cuts = std::move(cuts);\n  solution.homes = local_homes(home_problem(solution.cuts, periods.compute, solution.least_room));\n"),
    ("larger engines are never looked at", "stretch_load.cpp", "  for (const bool larger : {false, true}) {", "  for (const bool larger : {false}) {"),
    ("larger engines for no multipliers", "stretch_load.cpp",
     "    for (size_t i = 0; i < capacities_.size(); ++i) sum_.amounts[i] += to.amounts[i] - from.amounts[i];\n",
     "    sum_.amounts[memory_] += to.amounts[memory_] - from.amounts[memory_];\n"),
    ("a period between two leads as far as the longer", "segment_load.cpp",
     " || std::prev(longer)->second != longer->second) return std::nullopt;", ") return std::nullopt;"),
    ("of several ways a layer frees the room of its first", "stretch_load.cpp",
     "for (const Other* other : layer.others) most = std::max(most,",
     "for (const Other* other : layer.others) most = most > 0 ? most : std::max(most,"),
    ("ways overrun a board that would not by themselves", "stretch_load.cpp", "before_.amounts[i] + (to.amounts[i] - from.amounts[i]) >",
     "before_.amounts[i] + 2 * (to.amounts[i] - from.amounts[i]) >"),
    ("what cannot be shown impossible is called so", "joint_search.cpp",
     "    if (nothing_left(least_excess())) answer.verdict = JointAnswer::Verdict::kUndecided;", "    static_cast<void>(nothing_left);"),
    ("choices of elements of several sizes are not gone through", "joint_bisection.cpp",
     "  if (!keeps()) {\n", "  if (!keeps() && periods.compute < 0) {\n"),
    ("of several sizes one choice alone", "exhaustive_search.cpp", "after < walk.sizes.size() ? 0 : most", "most"),
    ("homes cost no traffic", "joint_search.cpp", "const double moved = static_cast<double>(elements) * bits_per_element;",
     "const double moved = 0 * static_cast<double>(elements) * bits_per_element;"),
]


def commands(build, target):
    text = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], capture_output=True, text=True, check=True).stdout
    return text.splitlines()


def mutate(flags, folder, file, old, new):
    """The mutated library's objects."""
    text = (SOURCES / file).read_text()
    if text.count(old) != 1:
        return None
    copy = folder / file
    copy.write_text(text.replace(old, new))
    objects = []
    for entry in json.loads((flags.build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if "millrace_hybrid.dir" not in entry["command"]:
            continue
        body = source.read_text() if "Unity" in source.parts else f'#include "{source}"\n'
        if str(SOURCES / file) not in body:
            continue
        mutated = folder / source.name
        mutated.write_text(body.replace(str(SOURCES / file), str(copy)))
        made = folder / (source.stem + ".o")
        command = [part for part in shlex.split(entry["command"]) if part != str(source)]
        command[command.index("-o") + 1] = str(made)
        for flag in ("-MF", "-MT"):
            if flag in command:
                del command[command.index(flag):command.index(flag) + 2]
        command = [part for part in command if part not in ("-MD", str(source))]
        if "-c" in command:
            command.remove("-c")
        done = subprocess.run([*command, "-c", str(mutated), "-Wno-error"], cwd=entry["directory"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{file} does not compile with its mutation:\n{done.stderr[-3000:]}")
        objects.append(made)
    return objects


def run(flags, name, file, old, new):
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        objects = mutate(flags, folder, file, old, new)
        if not objects:
            return {"mutation": name, "file": file, "verdict": "its text is not there"}
        link = next(line for line in reversed(commands(flags.build, "test_hybrid")) if " -o bin/test_hybrid" in line)
        program = folder / "test_hybrid"
        link = link.replace(" -o bin/test_hybrid", f" -o {program}")
        link = re.sub(r"(\S*libmillrace_hybrid\.a)", " ".join(map(str, objects)) + r" \1", link, count=1)
        subprocess.run(link, shell=True, cwd=flags.build, capture_output=True, text=True, check=True)
        try:
            done = subprocess.run([str(program), "--gtest_fail_fast", "--gtest_brief=1"], capture_output=True, text=True, timeout=flags.seconds, check=False)
        except subprocess.TimeoutExpired:
            return {"mutation": name, "file": file, "verdict": "noticed", "by": "no end within the limit"}
    failed = re.findall(r"\[  FAILED  \] (\S+\.\S+?)[ ,]", done.stdout)
    return {"mutation": name, "file": file, "verdict": "noticed" if done.returncode != 0 else "unnoticed", "by": failed[0] if failed else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--only", default="", help="a part of a mutation's name")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    flags.build = flags.build.resolve()
    rows = []
    for mutation in MUTATIONS:
        if flags.only not in mutation[0]:
            continue
        rows.append(run(flags, *mutation))
        print(f'{rows[-1]["verdict"]:<10} {mutation[0]:<45} {rows[-1].get("by", "")}', flush=True)
        if flags.out:
            flags.out.write_text(json.dumps({"origin": "measured", "mutations": rows}, indent=1) + "\n")
    wrong = [row for row in rows if row["verdict"] != ("unnoticed" if row["mutation"] == "nothing" else "noticed")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
