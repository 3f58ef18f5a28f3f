"""Failure tests of ring training: the millrace command under mpirun, killed, stopped, cut off, signalled, refused and resumed.

    run_case.py --mpirun mpirun --millrace bin/millrace CASE         one of those --help names
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
import launching
import link_cut
import numbers_case
import own_folders
import refusals
import resuming
import signals_case
from ring_job import Failure, Tools

SKIPPED = 77


def killed_case(when, name, alignment, damage=""):
    def case(tools, seed):
        print(killing.survive_one(tools, killing.References(tools), seed, when, name, alignment, damage))

    return case


def without_seed(case):
    return lambda tools, seed: case(tools)


CASES = {
    "killed_between_updates": killed_case("update", "SIGKILL", "fpdeep"),
    "killed_while_writing": killed_case("writing", "SIGKILL", "stash"),
    "stopped_between_updates": killed_case("update", "SIGSTOP", "flush", "flipped"),
    "stopped_while_writing": killed_case("writing", "SIGSTOP", "fpdeep", "truncated"),
    "resumed_elsewhere": without_seed(resuming.resumed_elsewhere),
    "signals": without_seed(signals_case.signals_are_heard),
    "refusals": without_seed(refusals.refusals_are_said_once),
    "not_a_number": without_seed(numbers_case.not_a_number_is_named),
    "link_cut": without_seed(link_cut.link_is_cut),
    "launch_restarts": without_seed(launching.launch_restarts),
    "launch_gives_up": without_seed(launching.launch_gives_up),
    "launch_stops": without_seed(launching.launch_stops),
    "launch_unsticks": without_seed(launching.launch_unsticks),
    "launch_plans_again": without_seed(launching.launch_plans_again),
    "launch_loses_a_host": without_seed(launching.launch_loses_a_host),
    "own_folders": without_seed(own_folders.own_folders),
    "mixed_hosts": without_seed(own_folders.mixed_hosts),
}

def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def run_full(tools, arguments):
    started = time.monotonic()
    moments = killing.full(tools, arguments.full, arguments.seed)
    survived = sum(moment["survived"] for moment in moments)
    print(f"{survived} of {len(moments)} survived, {time.monotonic() - started:.0f} s (measured)")
    if arguments.json:
        commit = subprocess.run(["git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        result = {"origin": "measured", "machine": f"{processor()}, {os.cpu_count()} processors, busy with other work",
                  "commit": commit.stdout.strip(), "command": f"tests/node/mpi/run_case.py --full {arguments.full} --seed {arguments.seed}",
                  "load_average": os.getloadavg(), "survived": survived, "of": len(moments), "moments": moments}
        Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    return 0 if survived == len(moments) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=list(CASES))
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", default=str(Path(__file__).resolve().parents[3] / "build/release/bin/millrace"))
    parser.add_argument("--seed", type=int, default=1, help="of the moments [1]")
    parser.add_argument("--full", type=int, metavar="COUNT", help="so many random moments instead of a case")
    parser.add_argument("--json", help="file for the results of --full")
    arguments = parser.parse_args()
    if (arguments.case is None) == (arguments.full is None):
        parser.error("name a case, or --full COUNT")
    scratch = Path(tempfile.mkdtemp(prefix="millrace_test_"))
    tools = Tools(arguments.mpirun, arguments.millrace, scratch)
    try:
        if arguments.full is not None:
            return run_full(tools, arguments)
        if CASES[arguments.case](tools, arguments.seed) is False:
            print("skipped: this machine does not permit namespaces")
            return SKIPPED
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
