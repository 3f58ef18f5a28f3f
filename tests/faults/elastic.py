"""Eight devices on four hosts; a host is lost in the middle, six go on, it comes back, eight end the training.

    elastic.py --millrace bin/millrace --report tests/benchmarks/results/elastic.json

Hosts are namespaces of this machine (tests/node/mpi/hosts.sh); the lost one is gone at once with all that runs there. What must hold:
- the launcher plans for six devices and then for eight by itself, and the training ends with status 0;
- the log of samples is the undisturbed run's, line by line: every update once, with the same samples, so within an epoch none is there twice
  and none is missing;
- the curve of losses, epoch by epoch, is no further from the undisturbed run's than runs of other seeds are from each other.
Exit status 0: all of it holds; 1: not; 77: this machine does not permit namespaces.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node" / "mpi"))

from launching import Launched, samples_of  # noqa: E402
from link_cut import SCRIPT, Hosts  # noqa: E402
from ring_job import Failure, Tools, require, run  # noqa: E402

MINI_BATCH = 192
TRAINING = ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux8", "--alignment", "fpdeep", "--mini-batch", str(MINI_BATCH),
            "--micro-batch", "32", "--evaluate-every", "0", "--checkpoint-every", "10", "--log-every", "7", "--log-samples", "--json"]


def epoch_losses(folder):
    """Epoch -> mean training loss; the last record of an epoch counts."""
    losses = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["event"] == "epoch":
            losses[round(record["epoch"])] = record["loss"]
    return losses


def undisturbed(tools, seed, steps):
    folder = tools.scratch / f"seed_{seed}"
    done = run(tools, 0, [*TRAINING, "--steps", str(steps), "--seed", str(seed), "--out", str(folder)]).last_record("done")
    return folder, done


def disturbed(tools, hosts, steps):
    out, listed = tools.scratch / "elastic", tools.scratch / "listed"
    listed.write_text("".join(f"10.91.7.{number} slots=2\n" for number in range(1, 5)))
    flags = ["--hosts", str(listed), "--min-devices", "6", "--look-every", "0.5s", *hosts.words_for_launch()]
    with Launched(tools, flags, [*TRAINING, "--steps", str(steps), "--seed", "1", "--deadline", "20s", "--out", str(out)],
                  [str(SCRIPT), "run", str(hosts.folder)]) as job:
        job.wait_for_step(steps // 4, within=300)
        hosts.tell("crash", 3)
        # These hosts have the machine's folders: what a host takes with it is taken from them.
        for left in (*job.memory.glob("*host3*"), *job.session.glob("*host3*")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        job.wait_until(lambda: job.lines_with("planned again: 6 devices on 3 hosts"), "a plan for six devices", within=200)
        reached = max(record["step"] for record in job.records if record.get("event") == "step")
        job.wait_for_step(reached + steps // 6, within=300)
        hosts.tell("boot", 3)
        job.wait_until(lambda: job.lines_with("planned again: 8 devices on 4 hosts"), "a plan for eight devices", within=200)
        job.finish(within=600)
        return out, job.summary(), job.last_record("done"), [line.split("planned again: ")[1] for line in job.lines_with("planned again: ")]


def compare(out, folders, steps, train_samples):
    """What is asked, as figures."""
    mine, theirs = samples_of(out), samples_of(folders[0])
    per_epoch = train_samples // MINI_BATCH
    epochs = [[sample for line in mine[first:first + per_epoch] for sample in line["samples"]] for first in range(0, steps - per_epoch + 1, per_epoch)]
    twice = sum(len(epoch) - len(set(epoch)) for epoch in epochs)
    missing = sum(per_epoch * MINI_BATCH - len(set(epoch)) for epoch in epochs)
    curves = [epoch_losses(folder) for folder in folders]
    elastic = epoch_losses(out)
    rows = [{"epoch": epoch, "elastic": loss, "undisturbed": curves[0][epoch], "least_of_seeds": min(curve[epoch] for curve in curves),
             "most_of_seeds": max(curve[epoch] for curve in curves)} for epoch, loss in sorted(elastic.items())]
    apart = [abs(row["elastic"] - row["undisturbed"]) / (row["most_of_seeds"] - row["least_of_seeds"]) for row in rows]
    return {"updates": len(mine), "updates_equal_to_undisturbed": sum(one == other for one, other in zip(mine, theirs)), "epochs": len(epochs),
            "samples_twice_in_an_epoch": twice, "samples_missing_in_an_epoch": missing, "curve": rows,
            "furthest_from_undisturbed_in_spreads_of_seeds": max(apart),
            "epochs_outside_the_seeds": sum(not row["least_of_seeds"] <= row["elastic"] <= row["most_of_seeds"] for row in rows)}


def judge(figures, summary, steps):
    devices = [attempt["devices"] for attempt in summary["attempts"]]
    require(devices[0] == 8 and 6 in devices and devices[-1] == 8 and summary["status"] == 0, f"{summary}")
    require(figures["updates"] == figures["updates_equal_to_undisturbed"] == steps, "committed updates have other samples than the undisturbed run's")
    require(figures["samples_twice_in_an_epoch"] == figures["samples_missing_in_an_epoch"] == 0, f"{figures}")
    require(set(row["epoch"] for row in figures["curve"]) == set(range(1, figures["epochs"] + 1)), "an epoch is not told of")
    require(figures["furthest_from_undisturbed_in_spreads_of_seeds"] <= 1, "the losses are further apart than those of other seeds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", default=str(Path(__file__).resolve().parents[2] / "build/release/bin/millrace"))
    parser.add_argument("--steps", type=int, default=840, help="updates, seven an epoch [840]")
    parser.add_argument("--seeds", type=int, default=5, help="undisturbed runs [5]")
    parser.add_argument("--report", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="millrace_elastic_"))
    tools = Tools(shutil.which(arguments.mpirun) or arguments.mpirun, arguments.millrace, scratch)
    try:
        with Hosts(tools, 4) as hosts:
            if not hosts.allowed:
                print("skipped: network namespaces are not permitted")
                return 77
            out, summary, done, plans = disturbed(tools, hosts, arguments.steps)
        made = [undisturbed(tools, seed, arguments.steps) for seed in range(1, arguments.seeds + 1)]
        figures = compare(out, [folder for folder, _ in made], arguments.steps, train_samples=1437)
        report = {"origin": "measured", "machine": f"{platform.machine()}, {os.cpu_count()} processors, four hosts as namespaces, busy with other work",
                  "command": f"tests/faults/elastic.py --steps {arguments.steps} --seeds {arguments.seeds}", "plans": plans, "launch": summary,
                  "test": {"elastic": {name: done[name] for name in ("loss", "accuracy")}, "seeds": [{name: other[name] for name in ("loss", "accuracy")} for _, other in made]}, **figures}
        if arguments.report:
            arguments.report.write_text(json.dumps(report, indent=1) + "\n")
        print(json.dumps({key: value for key, value in report.items() if key != "curve"}))
        judge(figures, summary, arguments.steps)
        return 0
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
