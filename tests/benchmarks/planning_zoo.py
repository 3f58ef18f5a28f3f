#!/usr/bin/env python3
"""Every zoo model on 40 clusters: what the planner finds with FPDeep's accounting, beside what an earlier one found.

    tests/benchmarks/planning_zoo.py --out now.csv [--accounting fpdeep|full] [--millrace build/release/bin/millrace] [--seconds 40]
        [--models vgg16,...] [--clusters vc709x15,...]
    tests/benchmarks/planning_zoo.py --join before.csv now.csv --out joined.csv [--tolerance 1e-6]
    tests/benchmarks/planning_zoo.py --trace joined.csv --out tests/benchmarks/results/planning_zoo.csv
    tests/benchmarks/planning_zoo.py --kept tests/benchmarks/results/fpdeep_pace_kept.csv --out now.csv

The first form plans; a case that takes more processor seconds than the limit says so. The second joins two such tables by case, and ends
with exit status 1 where a case became infeasible or slower by more than the tolerance, a millionth. The third asks of those with processors
whether their cost model is why: it plans them with the processors' model of then (no measured rates of convolutions, messages for nothing),
which has to give what was planned before, and takes those cuts, with the best micro-batch, under the model of now, which must not be faster
than the plan of now; exit status 1 where either is not so, or there are no processors. The fourth plans the cases of such a table anew
beside what it has of then; exit status 1 where one falls below 0.95 of then, or, where then is not recorded, 0.95 of its model's bound.
Standard library alone.

results/planning_zoo.csv compares the planner that rules out by one probe what cannot be faster with the one that first searched cuts and
homes together; cases that the earlier table did not have say so. Rings of boards are as fast or faster, all of them. What became slower are
rings with processors, whose cost model has measured rates of convolutions, and what a message costs, since then; the last two columns show
that nothing else is.

results/planning_zoo_full.csv is the same of full accounting, on the clusters with boards: the planner that may give boards larger engines
where memory is short (60001426), beside the one before, which also had mlp's network input as a map. Its rates are those of whole
mini-batches, of which updates take a part that no search bounds, so a tolerance of a thousandth is asked (--tolerance 1e-3). Five cases are
slower by more: of alexnet, alexnet-grouped and alexnet-torch on 16 u280, vgg11-cifar on 2 and vgg19-cifar on 4 the plans before had boards
whose memories found no blocks of one kind.
Since then plans count what waits in boards' own memories (some 0.3 to 2% slower, where hardware was so before) and search again with a
little less memory where no blocks are found, so the three of 16 u280 have 0.83, 1.00 and 1.00 of before; the table is not of those.

results/planning_gaps.csv is what the first form writes for the zoo's nineteen networks of convolutions on the 33 clusters with boards
(--accounting full): of 510 that fit 497 are within 1% of their bounds, six have none (another plan is faster between updates, and slower
over whole mini-batches), and seven are further away: resnet50 on 25 vc709 and a zc706 2.7% and on 40 vc709 1.9%, resnet101 on 40 1.3% and
googlenet on 7 1.2%, where rows wait between engines as they are built, alexnet-grouped on 8 and 6 vc709 2.7% and 1.2%, whose parts may take
more than the whole, and vgg16 on 16 u280 1.1%, where what waits outside counts as nothing in the bound. Rings with UltraRAM have larger
engines than need be where memory is short, and bounds that count them; before (1cdad124), those had the smallest engines alone, 36 of 138
were slower by more than 1%, up to 3.6 times (googlenet on two), and said that nothing is faster. So did alexnet-grouped on vc709, whose
whole layers were bounded by their parts: eight of its rings were slower, up to 3 times. None is slower than before.

results/fpdeep_pace_kept.csv (--kept writes it again, then's column as it is) has 13 networks on 15 and 40 vc709 and on 8 u280 beside the
planner before cuts and homes were searched together, which is that of commit d9dad73 (the partitioner did not change between; vgg16 on 15
boards is d9dad73's transcript of `plan`). Batch norms now have RUNNING statistics; then plans did not ask. Where then is not recorded the
last column tells that nothing can be much faster in this model of boards: `lower_bound_images_per_second` over `images_per_second`, less
one.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile

CLUSTERS = [f"vc709x{n}" for n in (1, 2, 3, 5, 6, 7, 8, 10, 12, 15, 17, 25, 40, 85, 100)]
CLUSTERS += [f"zc706x{n}" for n in (2, 5, 10, 16, 17, 20, 40)]
CLUSTERS += [f"u280x{n}" for n in (1, 2, 4, 8, 16)]
CLUSTERS += [f"h200x{n}" for n in (1, 2, 4, 8)]
CLUSTERS += ["cpux2", "cpux4", "vc709x8+zc706", "vc709x10+zc706", "vc709x25+zc706"]
CLUSTERS += ["u280x2+h200x1", "u280x8+h200x2", "vc709x10+cpu", "u280x8+vc709x4"]
BOARDS = [cluster for cluster in CLUSTERS if "cpu" not in cluster and not cluster.startswith("h200")]


def models_of(millrace):
    lines = subprocess.run([millrace, "models"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines[2:] if line and not line.startswith("`")]


def planned(millrace, model, cluster, accounting, seconds):
    command = [millrace, "plan", "--model", model, "--cluster", cluster, "--accounting", accounting, "--json"]
    if model.startswith(("resnet", "googlenet", "deepspeech2")):  # boards take no other batch norms
        command += ["--batch-norm", "running"]
    limit = (int(seconds), int(seconds))
    result = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
    if result.returncode < 0:
        return ["", "", "", "longer than the limit"]
    if not result.stdout:
        sys.exit(f"{model} on {cluster}: {result.stderr.strip()}")
    answer = json.loads(result.stdout)
    gap = answer["optimality_gap"]  # null: another plan is faster between updates, and slower over whole mini-batches
    return [int(answer["feasible"]), f'{answer["images_per_second"]:.6g}', "-" if gap is None else f"{gap:.3g}", answer["reason"]]


def plan_all(flags):
    with open(flags.out, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "cluster", "feasible", "images_per_second", "gap", "reason"])
        for model in flags.models.split(",") if flags.models else models_of(flags.millrace):
            for cluster in flags.clusters.split(",") if flags.clusters else BOARDS if flags.accounting == "full" else CLUSTERS:
                table.writerow([model, cluster, *planned(flags.millrace, model, cluster, flags.accounting, flags.seconds)])
                file.flush()


def join(flags):
    before, now = ({(row["model"], row["cluster"]): row for row in csv.DictReader(open(path, newline=""))} for path in flags.join)
    worse = []
    with open(flags.out, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "cluster", "before", "now", "gap now"])
        for case, row in now.items():
            was = before.get(case, {"feasible": "not planned"})
            known = was["feasible"] in ("0", "1") and row["feasible"] in ("0", "1")
            words = {"0": "infeasible", "": "not decided in time"}
            rates = [r["images_per_second"] if r["feasible"] == "1" else words.get(r["feasible"], r["feasible"]) for r in (was, row)]
            table.writerow([*case, *rates, row["gap"] if row["feasible"] == "1" else ""])
            if known and float(row["images_per_second"]) < float(was["images_per_second"]) * (1 - flags.tolerance):
                worse.append((case, rates))
    for case, rates in worse:
        print(f"worse: {case[0]} on {case[1]}: {rates[0]}, now {rates[1]}")
    return 1 if worse else 0


def answer_of(millrace, model, cluster, *more):
    norms = ["--batch-norm", "running"] if model.startswith(("resnet", "googlenet", "deepspeech2")) else []
    command = [millrace, "plan", "--model", model, "--cluster", cluster, "--accounting", "fpdeep", *norms, *more, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def processor_of_then(millrace, path):
    device = json.loads(subprocess.run([millrace, "devices", "cpu", "--json"], capture_output=True, text=True, check=True).stdout)
    with open(path, "w") as file:
        print('version: 1\ndevices {\n  name: "CPU"\n  short_names: "cpu"\n  kind: "cpu"', file=file)
        for value in device["values"]:
            if value["name"] not in ("launch_seconds", "shapes_of_avx"):
                print(f'  value {{ name: "{value["name"]}" value: {value["value"]!r} unit: "{value["unit"]}" origin: "{value["origin"]}" }}', file=file)
        print("}", file=file)


def cuts_of(millrace, answer):
    """The plan's cuts, as flags; devices without work end where the one before does."""
    flags = ["--allow-empty"]
    begins = [device["segment"][0] if device["segment"] else None for device in answer["devices"]]
    shown = json.loads(subprocess.run([millrace, "models", answer["model"], "--json"], capture_output=True, text=True, check=True).stdout)
    outputs = {layer["name"]: layer["output"][0] for layer in shown["layers"]}
    for link in range(len(begins) - 1):
        first = next((begin for begin in begins[link + 1:] if begin), None)
        if first is None:
            return None
        channel, part = divmod(first["begin"], 1)
        begun = round(part * outputs[first["layer"]])  # outputs of that channel
        cut = f"{link}={first['layer']}" + (f":{channel:.0f}" if first["begin"] else "") + (f":{begun}" if begun else "")
        flags += ["--cut", cut]
    return flags


def trace(flags):
    with open(flags.trace, newline="") as file:
        rows = list(csv.reader(file))
    head, table = rows[0][:5], [row[:5] for row in rows[1:]]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        catalogue = f"{folder}/then.textproto"
        processor_of_then(flags.millrace, catalogue)
        for row in table:
            model, cluster, before, now, _ = row
            try:
                if float(now) >= float(before) * (1 - 1e-6):
                    continue
            except ValueError:
                continue
            then = answer_of(flags.millrace, model, cluster, "--catalogue", catalogue)
            cuts = cuts_of(flags.millrace, then) if "cpu" in cluster else None
            old_cuts = answer_of(flags.millrace, model, cluster, *cuts) if cuts else {"images_per_second": float("inf")}
            row += [f'{then["images_per_second"]:.6g}', f'{old_cuts["images_per_second"] or 0:.6g}']
            explained = then["images_per_second"] >= float(before) * (1 - 1e-5) and (old_cuts["images_per_second"] or 0) <= float(now) * (1 + 1e-5)
            wrong += not explained
            print(("explained: " if explained else "NOT explained: ") + " ".join(row), flush=True)
    with open(flags.out, "w", newline="") as file:
        head += ["now, processors as then", "cuts of then, processors as now"]
        csv.writer(file).writerows([head] + [row + [""] * (len(head) - len(row)) for row in table])
    return 1 if wrong else 0


def keep(flags):
    """Paces of now beside those of then, and the bound."""
    with open(flags.kept, newline="") as file:
        rows = list(csv.DictReader(file))
    lost = []
    with open(flags.out, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(rows[0])
        for row in rows:
            answer = answer_of(flags.millrace, row["model"], row["cluster"])
            then, now = row["then"], answer["images_per_second"] if answer["feasible"] else 0
            known = then not in ("infeasible", "not recorded")
            over = now / float(then) if known else None
            above = answer["lower_bound_images_per_second"] / now - 1 if now else None
            table.writerow([row["model"], row["cluster"], then, f"{now:.6g}" if now else "infeasible", "" if over is None else f"{over:.4f}",
                            "" if above is None else f"{above:.2g}"])
            file.flush()
            if (over is not None and over < 0.95) or (then == "not recorded" and (not now or 1 / (1 + above) < 0.95)):
                lost.append(row)
    for row in lost:
        print(f"lost: {row['model']} on {row['cluster']}: {row['then']} then")
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--out", required=True)
    parser.add_argument("--accounting", choices=["fpdeep", "full"], default="fpdeep")
    parser.add_argument("--models", help="of these alone, joined by commas")
    parser.add_argument("--clusters", help="on these alone, likewise")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--join", nargs=2, metavar=("BEFORE", "NOW"))
    parser.add_argument("--trace", metavar="JOINED")
    parser.add_argument("--kept", metavar="THEN")
    flags = parser.parse_args()
    if flags.kept:
        return keep(flags)
    if flags.trace:
        return trace(flags)
    if flags.join:
        return join(flags)
    plan_all(flags)
    return 0


if __name__ == "__main__":
    sys.exit(main())
