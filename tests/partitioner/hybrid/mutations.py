#!/usr/bin/env python3
"""Mutations of the planner, each of which has to break a test.

    mutations.py --build build/release [--out tests/benchmarks/results/planner_mutations.json]

Every mutation is a change of one place. It is applied to a copy of the file, the planner's library is compiled again beside the build,
as the build does it, and test_hybrid is linked with that: nothing in the tree or the build changes. Ends with exit status 1 where the
tests pass with a mutation, or fail without any. Standard library alone; needs a build of test_hybrid by ninja.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "partitioner" / "hybrid"
# Name, file, what is there, what the mutation puts there.
MUTATIONS = [
    ("nothing changed", "ring_solver.cpp", "", ""),
    ("the lower bound is the plan's own period", "ring_solver.cpp", "best.lower_bound = impossible;", "best.lower_bound = best.period;"),
    ("102% of the memory in the search of cuts", "segment_load.cpp", "double capacity = capacities[i].amount;",
     "double capacity = 1.02 * capacities[i].amount;"),
    ("102% of the memory for homes", "parameter_homes.cpp", "double room = share * device.capacity - device.fixed;",
     "double room = 1.02 * share * device.capacity - device.fixed;"),
    ("102% of the memory in the search of cuts and homes together", "joint_search.cpp",
     "model.capacities()[model.parameter_memory()].amount - fixed", "1.02 * model.capacities()[model.parameter_memory()].amount - fixed"),
    ("no search of cuts and homes together", "ring_solver.cpp", "bisection.run(period, effort);", "static_cast<void>(effort);"),
    ("no descent of the period in it", "ring_solver.cpp", "      descend(cells, tolerance);\n", ""),
    ("no search of devices left empty", "hybrid_planner.cpp", "  relaxed.options.allow_empty = true;\n", ""),
    ("homes elsewhere load no link", "joint_search.cpp", "const double moved = static_cast<double>(elements) * bits_per_element;",
     "const double moved = 0 * static_cast<double>(elements) * bits_per_element;"),
    ("no homes elsewhere", "ring_solver.cpp", "return {.allowed = task.options.balance != Balance::kNever,", "return {.allowed = false,"),
]


class Build:
    def __init__(self, folder):
        self.folder = folder
        lines = subprocess.run(["ninja", "-C", str(folder), "-t", "commands", "test_hybrid"], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        self.compile = [line for line in lines if re.search(r"-o partitioner/hybrid/CMakeFiles/millrace_hybrid\.dir/\S+\.o ", line)]
        self.link = lines[-1]
        if not self.compile or "test_hybrid" not in self.link:
            sys.exit(f"{folder} does not say how test_hybrid is built: build it first")

    def test_with(self, file, before, after):
        """The names of the tests that fail."""
        text = (FOLDER / file).read_text()
        if before not in text:
            sys.exit(f"{file} has no \"{before}\" any more: the mutation needs another place")
        with tempfile.TemporaryDirectory() as scratch:
            mutant = Path(scratch) / file
            mutant.write_text(text.replace(before, after, 1) if before else text)
            objects = [self.compiled(line, file, mutant, Path(scratch), i) for i, line in enumerate(self.compile)]
            program = Path(scratch) / "test_hybrid"
            link = re.sub(r"\S*libmillrace_hybrid\.a", " ".join(shlex.quote(o) for o in objects), self.link, count=1)
            link = re.sub(r"\S*libmillrace_hybrid\.a", "", link)
            link = re.sub(r"-o \S*test_hybrid\b", f"-o {shlex.quote(str(program))}", link)
            link = link[: link.index(str(program)) + len(str(program))] + link[link.index(str(program)) + len(str(program)):].split(" && ")[0]
            subprocess.run(link.removeprefix(": && "), shell=True, cwd=self.folder, check=True)
            done = subprocess.run([str(program), "--gtest_brief=1"], capture_output=True, text=True, timeout=1200, check=False)
            failed = sorted(set(re.findall(r"^\[  FAILED  \] (\w+\.\w+)", done.stdout, re.M)))
            return failed if failed or done.returncode == 0 else [f"exit status {done.returncode}"]

    def compiled(self, line, file, mutant, scratch, index):
        words = shlex.split(line)
        words = words[next(i for i, word in enumerate(words) if word.endswith(("c++", "g++", "clang++", "ccache"))):]
        source = Path(words[words.index("-c") + 1])
        source = source if source.is_absolute() else self.folder / source
        unit = scratch / f"unit_{index}.cpp"
        if source.name == file:
            unit.write_text(f'#include "{mutant}"\n')
        else:  # the file itself, or many in one
            unit.write_text(source.read_text().replace(str(FOLDER / file), str(mutant)) if "Unity" in str(source) else f'#include "{source}"\n')
        made = scratch / f"unit_{index}.o"
        words[words.index("-c") + 1] = str(unit)
        words[words.index("-o") + 1] = str(made)
        for flag in ("-MF", "-MT"):
            if flag in words:
                words[words.index(flag) + 1] = str(made) + ".d"
        subprocess.run(words, cwd=self.folder, check=True)
        return str(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    build = Build(flags.build)
    rows, survived = [], []
    for name, file, before, after in MUTATIONS:
        failed = build.test_with(file, before, after)
        rows.append({"mutation": name, "file": file, "before": before, "after": after, "tests_failed": failed})
        print(f"{name}: {', '.join(failed) or 'no test fails'}", flush=True)
        if bool(failed) != bool(before):
            survived.append(name)
    if flags.out:
        flags.out.write_text(json.dumps({"origin": "measured", "rows": rows}, indent=1) + "\n")
    if survived:
        sys.exit(f"not as it should be: {'; '.join(survived)}")


if __name__ == "__main__":
    main()
