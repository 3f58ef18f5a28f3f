"""Failure tests of ring training: the millrace command under mpirun, killed, stopped, cut off, signalled, refused and resumed.

    run_case.py --mpirun mpirun --millrace bin/millrace CASE...      one or several of those --list names
    run_case.py --millrace bin/millrace --full 20 --json kill_tests.json     so many random moments of killing and stopping

Exit status 0 all promises kept, 1 not, 77 this machine does not allow the case.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import killing
import numbers_case
import refusals
import resuming
import signals_case
from ring_job import Failure, Tools

SKIPPED = 77


class Skipped(Exception):
    """Said by a case that this machine does not allow."""


def killed_case(when, name, alignment, damage=""):
    return lambda tools, seed: print(killing.survive_one(tools, killing.References(tools), seed, when, name, alignment, damage))


def without_seed(case):
    return lambda tools, seed: case(tools)


CASES = {
    "killed_between_updates": killed_case("update", "SIGKILL", "fpdeep"),
    "killed_while_writing": killed_case("writing", "SIGKILL", "stash"),
    "stopped_between_updates": killed_case("update", "SIGSTOP", "flush", "flipped"),
    "stopped_while_writing": killed_case("writing", "SIGSTOP", "fpdeep", "truncated"),
}
CASES |= {
    "resumed_elsewhere": without_seed(resuming.resumed_elsewhere),
    "signals": without_seed(signals_case.signals_are_heard),
    "refusals": without_seed(refusals.refusals_are_said_once),
    "not_a_number": without_seed(numbers_case.not_a_number_is_named),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help=", ".join(CASES))
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", default=str(Path(__file__).resolve().parents[3] / "build/release/bin/millrace"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.case:
        scratch = Path(tempfile.mkdtemp(prefix="millrace_test_"))
        CASES[name](Tools(arguments.mpirun, arguments.millrace, scratch), arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
