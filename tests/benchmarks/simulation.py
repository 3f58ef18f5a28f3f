#!/usr/bin/env python3
"""How fast the simulator is, and how time and memory grow with devices, images and ranks.

    tests/benchmarks/simulation.py [--millrace build/release/bin/millrace] [--mpirun mpirun] [--out tests/benchmarks/results/simulation.json]

Rings of up to 10,000 boards, all of the same network; state is what the simulator holds, of which "state_megabytes_per_device" is a
device's part. Two growths are drawn, time by devices and time by images (draw_learning beside the binary): the plots lie beside
the JSON. `work_of_ranks` says for every rank its events, messages, time, waiting and processor time: on a busy machine the last
tell what two free cores would do. Two ranks are compared with one in rounds, and in each round one simulation with two at once that have
nothing to do with one another: where these are not worth 1.8 of one, the machine had no two cores to give.

`seconds` is the simulation itself as the JSON says, compiling the plan into its network included and planning not: the fastest
of several runs. `agreement` compares the steady rate, free and with Act-RAM as planned and a row more per layer (--act-ram 1), the samples in flight and
the peaks of the Act-RAM with the plan's for every convolutional network of the zoo on rings of 5, 15, 40 and 85 boards. The goals are printed beside the figures and gate nothing: a loaded machine is slower.
Prints tables and writes JSON with the machine. Standard library alone.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess

RUNS = 3
ROUNDS = 15
CORES_ARE_FREE = 1.8  # two independent simulations at once, in simulations one after the other
WORD_BITS = 16
LAUNCH = []
BOARDS = (5, 15, 40, 85)
NETWORKS = ("lenet5", "digits-cnn", "fashion-cnn", "alexnet", "alexnet-grouped", "alexnet-torch", "vgg11", "vgg16", "vgg19", "vgg11-cifar",
            "vgg16-cifar", "vgg19-cifar", "resnet18-cifar", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "googlenet")


def command(arguments, launch=()):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([*launch, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def measure(millrace, plan, images, launch=(), runs=RUNS):
    best = None
    for _ in range(runs):
        result = command([millrace, "simulate", "--plan", plan, "--images", str(images), "--json"], launch or LAUNCH)
        if best is None or result["wall_seconds"] < best["wall_seconds"]:
            best = result
    return best


def figure_of(name, result, goal=""):
    devices = len(result["devices"])
    figure = {"case": name, "devices": devices, "images": result["images"], "ranks": result["ranks"], "seconds": round(result["wall_seconds"], 3),
              "events": result["events"], "million_events_per_second": round(1e-6 * result["events"] / result["wall_seconds"], 2),
              "state_megabytes_per_device": round(1e-6 * result["state_bytes"] / devices, 4),
              "work_of_ranks": result.get("work_of_ranks", [])}
    print(f"{name:<44}{figure['seconds']:9.3f} s{figure['million_events_per_second']:8.1f} M events/s"
          f"{figure['state_megabytes_per_device']:9.3f} MB/device  {goal}", flush=True)
    return figure


def exponent(points):
    """Of the power that fits best: seconds ~ count^exponent."""
    x, y = [math.log(a) for a, _ in points], [math.log(b) for _, b in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def seconds_of(ranks, key="seconds"):
    return max(rank[key] for rank in ranks)


def side_by_side(millrace, plan, images):
    """Two simulations at once that have nothing to do with one another: what two ranks could at best be worth on this machine."""
    arguments = [*LAUNCH, millrace, "simulate", "--plan", plan, "--images", str(images), "--json"]
    both = [subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    return max(seconds_of(json.loads(one.communicate()[0])["work_of_ranks"]) for one in both)


def speed_up(flags, plan, images):
    """Rounds of one rank and two, and of one simulation and two at once: cores were free in a round where the latter were worth it."""
    arguments = [flags.millrace, "simulate", "--plan", plan, "--images", str(images), "--json"]

    def work_on(ranks):
        launch = [*LAUNCH, flags.mpirun, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_num_threads", "0"]
        return command(arguments, launch)["work_of_ranks"]

    rounds = []
    for _ in range(ROUNDS):
        one, two = work_on(1), work_on(2)
        # Of a run of its own, so that no slow one makes both ratios look better.
        alone = seconds_of(command(arguments, LAUNCH)["work_of_ranks"])
        rounds.append({"speed_up": seconds_of(one) / seconds_of(two), "independent": 2 * alone / side_by_side(flags.millrace, plan, images),
                       "one": one, "two": two})
    one = min((r["one"] for r in rounds), key=seconds_of)
    two = min((r["two"] for r in rounds), key=seconds_of)
    free = [r["speed_up"] for r in rounds if r["independent"] >= CORES_ARE_FREE]
    return {"devices": 400, "images": images, "rounds": [{key: round(r[key], 2) for key in ("speed_up", "independent")} for r in rounds],
            "median": round(statistics.median(r["speed_up"] for r in rounds), 2),
            "median_of_independent": round(statistics.median(r["independent"] for r in rounds), 2),
            "rounds_with_free_cores": len(free), "median_with_free_cores": round(statistics.median(free), 2) if free else None,
            "fastest_of_each": round(seconds_of(one) / seconds_of(two), 2),
            "events_per_message": round(sum(rank["events"] for rank in two) / sum(rank["messages"] for rank in two)),
            "share_of_waiting": round(max(rank["waiting_seconds"] / rank["seconds"] for rank in two), 3), "fastest": [one, two]}


def print_speed_up(pair):
    free = (f"{pair['median_with_free_cores']} in the {pair['rounds_with_free_cores']} rounds with two free cores" if pair["rounds_with_free_cores"]
            else "and no round had two free cores")
    print(f"two ranks on 400 boards: {pair['median']} times as fast as one, {free} (goal 1.6 on free cores; two independent simulations at once: "
          f"{pair['median_of_independent']}); {pair['events_per_message']} events per message, {100 * pair['share_of_waiting']:.0f}% of the time waiting")


def write_with_plots(flags, report, growth, images):
    def task(name, title, label, points, fit):
        line = [[x, points[-1][1] * x / points[-1][0]] for x, _ in points]
        return {"task": name, "title": title, "x": {"label": label, "logarithmic": True}, "y": {"label": "seconds, measured", "logarithmic": True},
                "criterion": f"linear: exponent {fit} over the range drawn, where 1 is proportional", "passed": True,
                "runs": [{"name": "measured", "curve": [list(point) for point in points]}, {"name": "proportional to the last point", "curve": line}]}
    report["tasks"] = [task("devices", "Simulating VGG-16, 16 images, by boards", "boards", growth, report["seconds_by_devices_exponent"]),
                       task("images", "Simulating VGG-16 on 15 boards, by images", "images", images, report["seconds_by_images_exponent"])]
    out = pathlib.Path(flags.out)
    out.write_text(json.dumps(report, indent=1) + "\n")
    draw = pathlib.Path(flags.millrace).with_name("draw_learning")
    for name in ("devices", "images") if draw.exists() else ():
        subprocess.run([str(draw), str(out), str(out.with_name(f"simulation-{name}.svg")), "--task", name], check=True)


def agreement(millrace):
    rows = []
    for network in NETWORKS:
        for boards in BOARDS:
            simulate = [millrace, "simulate", "--model", network, "--cluster", f"vc709x{boards}", "--json"]
            if network.startswith(("resnet", "googlenet")):
                simulate += ["--batch-norm", "running"]
            result = command(simulate, LAUNCH)
            row = {"network": network, "boards": boards, "feasible": result is not None}
            if result is not None:
                row["difference"] = round(result["planned"]["difference"], 6)
                row["difference_with_act_ram_as_planned_and_a_row"] = round(command([*simulate, "--act-ram", "1"], LAUNCH)["planned"]["difference"], 6)
                row["in_flight_samples"] = [result["in_flight_samples"], result["planned"]["in_flight_samples"]]
                held = [(device["act_ram_peak_bits"], device["act_ram_plan_bits"]) for device in result["devices"] if device["act_ram_plan_bits"]]
                row["act_ram_peak_of_plan"] = round(max(peak / plan for peak, plan in held), 4)
                row["act_ram_devices_beyond_plan"] = sum(peak > max(1.02 * plan, plan + WORD_BITS) for peak, plan in held)
            rows.append(row)
    feasible = [row for row in rows if row["feasible"]]
    for key, what in (("difference", "furthest from the plan"), ("difference_with_act_ram_as_planned_and_a_row", "with Act-RAM as planned and a row more per layer")):
        worst = max(feasible, key=lambda row: abs(row[key]))
        print(f"{len(feasible)} feasible rings; {what}: {worst['network']} on {worst['boards']}, {100 * worst[key]:+.2f}%  goal 1%")
    within = sum(row["act_ram_devices_beyond_plan"] == 0 for row in feasible)
    print(f"Act-RAM peaks at most 2% or a word above the plan's: {within} of {len(feasible)}; in flight at most as planned: "
          f"{sum(row['in_flight_samples'][0] <= row['in_flight_samples'][1] for row in feasible)}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--work", default="/tmp/millrace-simulation-benchmark", help="folder for plans")
    parser.add_argument("--launch", default="", help="in front of every simulation, such as 'chrt -f 1' on a busy machine")
    parser.add_argument("--out", default="tests/benchmarks/results/simulation.json")
    parser.add_argument("--keep-plans", action="store_true", help="use the plans of an earlier run")
    parser.add_argument("--quick", action="store_true", help="without the agreement and the largest rings")
    parser.add_argument("--only-ranks", action="store_true", help="two ranks and one, anew, into the results that are there")
    flags = parser.parse_args()
    LAUNCH.extend(flags.launch.split())
    work = pathlib.Path(flags.work)
    work.mkdir(parents=True, exist_ok=True)

    def plan_of(boards):
        path = work / f"vgg16x{boards}.textproto"
        if path.exists() and flags.keep_plans:
            return str(path)
        command([flags.millrace, "--log-level", "off", "plan", "--model", "vgg16", "--cluster", f"vc709x{boards}", "--out", str(path), "--json"])
        return str(path)

    if flags.only_ranks:
        out = pathlib.Path(flags.out)
        report = json.loads(out.read_text())
        report["two_ranks"] = speed_up(flags, plan_of(400), 64)
        print_speed_up(report["two_ranks"])
        out.write_text(json.dumps(report, indent=1) + "\n")
        return
    report = {"what": "millrace simulate: speed, memory, growth", "machine": platform.platform(), "processors": os.cpu_count(), "load_before": os.getloadavg()[0], "launch": flags.launch,
              "cases": [], "goals": {"million_events_per_second": 5, "vgg16 on 100 devices, 64 images, seconds": 20, "difference": 0.01}}
    report["cases"].append(figure_of("vgg16 on 15 boards, 64 images", measure(flags.millrace, plan_of(15), 64), "goal 5 M events/s"))
    growth = []
    # From 100 boards on no parameters are stored away from their user, so that the rings differ by their number of boards alone.
    for boards in (100, 200, 400):
        result = measure(flags.millrace, plan_of(boards), 64)
        report["cases"].append(figure_of(f"vgg16 on {boards} boards, 64 images", result, "goal 20 s" if boards == 100 else ""))
    for boards in (400, 1000) if flags.quick else (400, 1000, 2000, 4000, 7000, 10000):
        result = measure(flags.millrace, plan_of(boards), 16)
        report["cases"].append(figure_of(f"vgg16 on {boards} boards, 16 images", result, "bounded memory"))
        growth.append((boards, result["wall_seconds"]))
    report["seconds_by_devices_exponent"] = round(exponent(growth), 2)
    images = []
    for count in (32, 64, 128, 256, 512, 1024):
        result = measure(flags.millrace, plan_of(15), count, runs=2)
        report["cases"].append(figure_of(f"vgg16 on 15 boards, {count} images", result))
        images.append((count, result["wall_seconds"]))
    report["seconds_by_images_exponent"] = round(exponent(images), 2)
    report["two_ranks"] = speed_up(flags, plan_of(400), 64)
    print_speed_up(report["two_ranks"])
    print(f"time ~ devices^{report['seconds_by_devices_exponent']}, ~ images^{report['seconds_by_images_exponent']}")
    if not flags.quick:
        report["agreement"] = agreement(flags.millrace)
    write_with_plots(flags, report, growth, images)
    print(f"written to {flags.out}")


if __name__ == "__main__":
    main()
