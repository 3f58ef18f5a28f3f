#!/usr/bin/env python3
"""One plan, trained by real ranks over shaped links and simulated from measured times: does the simulator tell the throughput?

    tests/benchmarks/real_against_simulated.py [--model vgg11-cifar --data 3x32x32:10] [--ranks 1,2,4,8] [--cores 2]

For every number of ranks:
  shared  a ring of so many CPUs, a rank each, on this machine's cores. A first training measures what each device's actions take
          (millrace train --times-out: processor time, so that competition for cores is not in it, and what waits take of the
          cores, where there are fewer than ranks), a second one is timed, and
          the simulator runs the plan with those times, those links and so many cores (millrace simulate --times --cores).
  paced   the same, but each action is slept out to `--slower` times what it takes on one rank (millrace train --pace), so that
          more devices than cores do not compete. Simulated twice: from the pace alone, before anything has run over ranks, and
          with the times measured under it, which know how late sleeps end.
Measured throughput is the median of the step records after the first quarter, and of all repeats; measuring, training and
simulating take turns, so that a busy machine meets all three. Prints measured, simulated and their ratio; writes JSON with the
machine and its load. On a loaded machine look at the paced rows: shared ones compete with whatever else runs.
Standard library alone.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess

GOAL = 0.15


def output_of(arguments):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


class Comparison:
    def __init__(self, flags):
        self.flags = flags
        self.work = pathlib.Path(flags.work)
        self.work.mkdir(parents=True, exist_ok=True)

    def plan(self, devices):
        path = self.work / f"plan{devices}.textproto"
        output_of([self.flags.millrace, "--log-level", "off", "plan", "--model", self.flags.model, "--cluster", f"cpux{devices}", "--mini-batch",
                   str(self.flags.mini_batch), "--micro-batch", str(self.flags.micro_batch), "--alignment", self.flags.alignment, "--out", str(path), "--json"])
        return path

    def train(self, plan, ranks, launch, extra, steps=0):
        launcher = [*launch, self.flags.mpirun, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_num_threads", "0"]
        text = output_of([*launcher, self.flags.millrace, "--log-level", "off", "train", "--plan", str(plan), "--data",
                          f"synthetic:{self.flags.data}:{self.flags.mini_batch * 4}", "--steps", str(steps or self.flags.steps), "--evaluate-every", "0",
                          "--log-every", "1", "--shape-links", "--json", *extra])
        records = [json.loads(line) for line in text.splitlines()]
        rates = [record["images_per_second"] for record in records if record["event"] == "step"]
        return statistics.median(rates[len(rates) // 4:])

    def simulate(self, plan, times, extra):
        images = self.flags.mini_batch * max(8, self.flags.steps)
        return json.loads(output_of([self.flags.millrace, "simulate", "--plan", str(plan), "--times", str(times), "--images", str(images), "--json", *extra]))["images_per_second"]

    def shared(self, ranks):
        devices = max(2, ranks)
        plan, times = self.plan(devices), self.work / "times.json"
        real, simulated, cores = [], [], min(self.flags.cores, ranks)
        for _ in range(self.flags.repeats):
            self.train(plan, ranks, self.flags.launch_shared, ["--times-out", str(times)])
            real.append(self.train(plan, ranks, self.flags.launch_shared, []))
            simulated.append(self.simulate(plan, times, ["--cores", str(cores), "--trainer-ranks", str(ranks)]))
        return self.row("shared", devices, ranks, real, simulated, f"{cores} core{'s' if cores > 1 else ''} for {ranks} ranks")

    def paced(self, ranks):
        plan, times, pace = self.plan(ranks), self.work / "times.json", self.work / "pace.json"
        self.train(plan, 1, [], ["--times-out", str(times)], steps=4)
        document = json.loads(times.read_text())
        for device in document["devices"]:
            device["between_seconds"] = device["waiting_seconds"] = 0
            for kind in ("forward", "error_back", "parameter_gradient", "update"):
                device[kind]["seconds"] *= self.flags.slower
        pace.write_text(json.dumps(document))
        real, simulated = [], []
        for _ in range(self.flags.repeats):
            real.append(self.train(plan, ranks, self.flags.launch_paced, ["--pace", str(pace), "--times-out", str(times)]))
            simulated.append(self.simulate(plan, times, []))
        row = self.row("paced", ranks, ranks, real, simulated, "measured under the pace")
        row["simulated_from_pace_alone"] = round(self.simulate(plan, pace, []), 2)
        row["ratio_from_pace_alone"] = round(row["simulated_from_pace_alone"] / row["measured"], 3)
        print(f"{'':<25}{'':>10}{row['simulated_from_pace_alone']:12.2f}{row['ratio_from_pace_alone']:9.3f}  from the pace alone", flush=True)
        return row

    def row(self, kind, devices, ranks, real, simulated, what):
        measured, predicted = statistics.median(real), statistics.median(simulated)
        row = {"kind": kind, "devices": devices, "ranks": ranks, "measured": round(measured, 2), "simulated": round(predicted, 2),
               "ratio": round(predicted / measured, 3), "measured_runs": [round(r, 2) for r in real], "simulated_runs": [round(s, 2) for s in simulated],
               "load": os.getloadavg()[0]}
        print(f"{kind:<8}{devices:>8}{ranks:>8} {measured:10.2f}{predicted:12.2f}{row['ratio']:9.3f}  {what}; load {row['load']:.1f}", flush=True)
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--model", default="vgg11-cifar")
    parser.add_argument("--data", default="3x32x32:10", help="shape and classes of the images drawn")
    parser.add_argument("--mini-batch", type=int, default=32)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--alignment", default="fpdeep")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--slower", type=float, default=10, help="a paced action takes so many times as long")
    parser.add_argument("--kinds", default="shared,paced")
    parser.add_argument("--launch-shared", default="", help="in front of mpirun, such as 'chrt -f 1'")
    parser.add_argument("--launch-paced", default="", help="likewise: paced devices hardly use the cores")
    parser.add_argument("--work", default="/tmp/millrace-real-against-simulated", help="folder for plans and times")
    parser.add_argument("--out", default="tests/benchmarks/results/real_against_simulated.json")
    flags = parser.parse_args()
    report = {"what": "throughput of real ranks over shaped links (measured) against the simulator with measured times (simulated), images/s",
              "machine": platform.platform(), "processors": os.cpu_count(), "goal": GOAL, "model": flags.model, "alignment": flags.alignment,
              "mini_batch": flags.mini_batch, "micro_batch": flags.micro_batch, "slower": flags.slower, "launch_shared": flags.launch_shared,
              "launch_paced": flags.launch_paced, "rows": []}
    flags.launch_shared, flags.launch_paced = flags.launch_shared.split(), flags.launch_paced.split()
    comparison = Comparison(flags)
    print(f"{flags.model}, {flags.alignment}: images/s\n{'':<8}{'devices':>8}{'ranks':>8} {'measured':>10}{'simulated':>12}{'ratio':>9}")
    ranks = [int(word) for word in flags.ranks.split(",")]
    for kind in flags.kinds.split(","):
        for count in ranks:
            if kind == "paced" and count == 1:
                continue
            report["rows"].append(getattr(comparison, kind)(count))
    within = [abs(row["ratio"] - 1) <= GOAL for row in report["rows"]]
    report["within_goal"] = all(within)
    print(f"{sum(within)} of {len(within)} within {100 * GOAL:.0f}%")
    if flags.out:
        pathlib.Path(flags.out).write_text(json.dumps(report, indent=1) + "\n")
        print(f"written to {flags.out}")


if __name__ == "__main__":
    main()
