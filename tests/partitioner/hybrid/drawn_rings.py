#!/usr/bin/env python3
"""Thousands of small rings, solved and searched through by brute force over every cut and every home.

    tests/partitioner/hybrid/drawn_rings.py --program build/release/bin/test_hybrid [--rings 5000] [--out tests/benchmarks/results/drawn_rings.json]

Runs two tests of joint_search_test.cpp with more rings than usual; what they compare and count is theirs: under the default balance, memory
tight in half of the rings. Elements take the same storage everywhere in the first, and that of the last layer twice that of the others, or half, in the second. Every
answer is exact, and an infeasible ring is brute force's too. Exit status 1 where one ring differs. Standard library alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXACT = "JointSearch.FindsWhatTryingAllCutsAndHomesFinds"
TWO_SIZES = "JointSearch.WhereElementsDifferInSizeEveryChoiceIsGoneThrough"
COUNTS = ("rings", "memory_tight", "feasible", "infeasible_confirmed", "parameters_moved", "with_engines", "widest_gap_of_exact")


def number(text):
    return float(text) if any(c in text for c in ".en") else int(text)


def run(program, test, rings):
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        done = subprocess.run([str(program), f"--gtest_filter={test}", f"--gtest_output=json:{answers}", "--gtest_brief=1"],
                              env={**os.environ, "MILLRACE_DRAWN_RINGS": str(rings)}, capture_output=True, text=True, check=False)
        known = json.loads(answers.read_text())["testsuites"][0]["testsuite"][0]
    row = {"test": test, "passed": done.returncode == 0, "seconds": float(known["time"].rstrip("s"))}
    row.update({name: number(known[name]) for name in COUNTS if name in known})
    if done.returncode != 0:
        print(done.stdout[-3000:])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--rings", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    result = {"what": "rings solved, each beside a search through all cuts and homes (measured)", "rings_drawn": flags.rings,
              "command": f"tests/partitioner/hybrid/drawn_rings.py --program build/release/bin/test_hybrid --rings {flags.rings}",
              "exact": run(flags.program, EXACT, flags.rings), "elements_of_two_sizes": run(flags.program, TWO_SIZES, flags.rings)}
    print(json.dumps(result, indent=1))
    if flags.out:
        flags.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["exact"]["passed"] and result["elements_of_two_sizes"]["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
