"""What failures cost, beside Young's formula: a training whose ranks are killed at random, at several checkpoint intervals.

    restart_overhead.py --millrace bin/millrace --report tests/benchmarks/results/restart_overhead.json

Young (1974): where a checkpoint costs C seconds, one is made every T seconds and failures come every M seconds on average, each failure costs
T/2 of work that is done again and R to be running again, and the best T is sqrt(2 C M).

Measured: the time of an update without checkpoints, and C as the processor time that each one adds where there are most of them (by the clock
it drowns in what else a machine does; they are written beside the training, so this is the most that one can slow it down by); then, with a rank killed after exponentially distributed times drawn from a seed, what
was lost since the newest checkpoint, the time from a kill to the next update (R), and all of the time. Beside them what the formula makes of
the measured C, R and number of failures.
"""

import argparse
import json
import math
import os
import platform
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node" / "mpi"))

from launching import Launched  # noqa: E402
from ring_job import Tools, require, run  # noqa: E402

TRAINING = ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux2", "--alignment", "fpdeep", "--mini-batch", "192", "--micro-batch",
            "32", "--evaluate-every", "0", "--log-every", "1", "--json", "--keep", "2"]


def undisturbed(tools, every, steps, number):
    """Seconds per update, by the clock and of processor time."""
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    out = tools.scratch / f"calm_{every}_{number}"
    words = ["--checkpoint-every", str(every)] if every else []
    done = run(tools, 2, [*TRAINING, "--steps", str(steps), *words, "--out", str(out)]).last_record("done")
    shutil.rmtree(out)
    return done["seconds"] / done["step"], (sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before) / done["step"]


def disturbed(tools, every, steps, between, chance):
    """A launch whose rank 1 is killed again and again."""
    out = tools.scratch / f"struck_{every}"
    began, first = time.monotonic(), None
    killed, running_again, drawn = [], [], []
    with Launched(tools, ["--ranks", "2", "--max-restarts", "1000"],
                  [*TRAINING, "--steps", str(steps), "--checkpoint-every", str(every), "--out", str(out)]) as job:
        while job.process.poll() is None:
            seen = len(job.records)
            if not job.wait_until(lambda: any(record.get("event") == "step" for record in job.records[seen:]), "an update", within=300):
                break
            first = first or time.monotonic()
            if killed:
                running_again.append(time.monotonic() - killed[-1])
            drawn.append(chance.expovariate(1 / between))
            try:
                job.process.wait(drawn[-1])
                drawn.pop()
                break
            except subprocess.TimeoutExpired:
                pass
            pid = job.ranks_now().get(1)
            if pid is None:
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.append(time.monotonic())
            before = len(job.lines_with("attempt "))
            job.wait_until(lambda: len(job.lines_with("attempt ")) > before, "another attempt", within=120)
        job.finish(within=900)
        summary = job.summary()
    shutil.rmtree(out)
    return {"seconds": time.monotonic() - began, "seconds_to_begin": first - began, "failures": len(killed),
            "mean_seconds_between_failures": statistics.mean(drawn) if drawn else None, "seconds_to_run_again": running_again, "summary": summary}


def mean(values):
    return statistics.mean(values) if values else 0.0


def measure(tools, arguments):
    chance = random.Random(arguments.seed)
    calm = {0: [], arguments.every[0]: []}
    for number in range(arguments.rounds):  # in turn, so that other work on the machine meets both
        for every, times in calm.items():
            times.append(undisturbed(tools, every, arguments.calm_steps, number))
    update = statistics.median(clock for clock, _ in calm[0])
    cost = max(0.0, statistics.median([with_them[1] - without[1] for without, with_them in zip(*calm.values())])) * arguments.every[0]
    rows = []
    for every in arguments.every:
        struck = disturbed(tools, every, arguments.steps, arguments.mean, chance)
        failed = [attempt for attempt in struck["summary"]["attempts"] if attempt["status"] != 0]
        lost = mean([attempt["last_step"] - attempt["checkpoint_step"] for attempt in failed])
        again = mean(struck["seconds_to_run_again"])
        expected = struck["seconds_to_begin"] + arguments.steps * (update + cost / every) + struck["failures"] * (every * update / 2 + again)
        rows.append({"checkpoint_every_updates": every, "interval_seconds": every * update, "failures": struck["failures"],
                     "mean_seconds_of_work_between_failures": struck["mean_seconds_between_failures"],
                     "lost_updates_per_failure": lost, "young_lost_updates_per_failure": every / 2, "lost_seconds_per_failure": lost * update,
                     "seconds_to_run_again": again, "seconds": struck["seconds"], "young_seconds": expected,
                     "measured_by_young": struck["seconds"] / expected})
    between = mean([row["mean_seconds_of_work_between_failures"] or 0 for row in rows])
    return {"seconds_per_update": update, "seconds_per_checkpoint": cost, "calm_seconds_per_update_by_clock_and_processor": {str(every): times for every, times in calm.items()},
            "rows": rows, "young_best_interval_seconds": math.sqrt(2 * cost * between)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", default=str(Path(__file__).resolve().parents[2] / "build/release/bin/millrace"))
    parser.add_argument("--every", type=int, nargs="+", default=[2, 20, 200], help="updates between checkpoints, the fewest first [2 20 200]")
    parser.add_argument("--steps", type=int, default=3000, help="of each training with failures [3000]")
    parser.add_argument("--calm-steps", type=int, default=300, help="of each without [300]")
    parser.add_argument("--rounds", type=int, default=5, help="trainings without failures, each with and without checkpoints [5]")
    parser.add_argument("--mean", type=float, default=5.0, help="seconds of work between failures [5]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()
    scratch = Path(tempfile.mkdtemp(prefix="millrace_restarts_"))
    try:
        found = measure(Tools(arguments.mpirun, arguments.millrace, scratch), arguments)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    require(all(row["failures"] > 0 for row in found["rows"]), "no failure came; ask for more --steps or a smaller --mean")
    report = {"origin": "measured; what has young in its name is the formula's, from measured C, R and number of failures",
              "machine": f"{platform.machine()}, {os.cpu_count()} processors", "load_average_before_and_after": [load, os.getloadavg()],
              "command": "tests/benchmarks/restart_overhead.py " + " ".join(sys.argv[1:]), **found}
    if arguments.report:
        arguments.report.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
