#!/usr/bin/env python3
"""Chunks of time that plans choose, beside all that could be stated by hand, and beside simulations.

    tests/benchmarks/time_chunks.py --millrace build/release/bin/millrace --results tests/benchmarks/results/time_chunks.json
    tests/benchmarks/time_chunks.py --small --millrace build/release/bin/millrace          # a few seconds' worth, as a test

Recurrent networks of the zoo on rings of CPUs and GPUs, by alignment: the plan as it is, the plan without chunks, and one for every power of
two as number of chunks and as micro-batch. Exit status 1 where a plan that is stated by hand is more than 1.2% faster than the one chosen, a
chosen one is slower than without chunks, a simulation is more than 1% away from its plan, or no chunks were chosen at all.
All modelled: planned, and simulated. Standard library alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ["char-rnn", "text-classifier", "rnnt-encoder", "char-rnn-stateful"]
CLUSTERS = ["cpux4", "h100x4", "v100x8"]
ALIGNMENTS = ["fpdeep", "flush", "1f1b"]
SMALL = [("char-rnn", "h100x4", "flush"), ("text-classifier", "cpux4", "flush"), ("text-classifier", "h100x4", "fpdeep")]
MINI_BATCH = 64
MOST_BELOW_BEST = 0.012  # chunks have to gain 1%, twice as many another 0.1%
MOST_APART = 0.01


def plan(flags, case, *more, out=None):
    model, cluster, alignment = case
    command = [flags.millrace, "--log-level", "off", "plan", "--model", model, "--cluster", cluster, "--alignment", alignment, "--mini-batch", str(MINI_BATCH),
               "--json", *more]
    done = subprocess.run(command + (["--out", out] if out else []), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 3 or done.returncode == 2 and "--time-chunks" in more:  # not so many steps
        return None
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def by_hand(flags, case):
    """The fastest of all plans whose chunks and micro-batch are stated."""
    best = None
    for chunks in (1, 2, 4, 8, 16, 32, 64):
        for micro_batch in (1, 2, 4, 8, 16, 32, 64):
            found = plan(flags, case, "--time-chunks", str(chunks), "--micro-batch", str(micro_batch))
            if found and (best is None or found["samples_per_second"] > best["samples_per_second"]):
                best = found
    return best


def measure(flags, case):
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "plan.textproto")
        chosen = plan(flags, case, out=path)
        if chosen is None:
            return None
        whole = plan(flags, case, "--time-chunks", "1")
        done = subprocess.run([flags.millrace, "--log-level", "off", "simulate", "--plan", path, "--json"], capture_output=True, text=True, timeout=300, check=True)
        seen = json.loads(done.stdout)
    best = by_hand(flags, case)
    rate = chosen["samples_per_second"]
    simulated = seen["all_images_per_second"] if not seen.get("mini_batch_images_per_second") else chosen["replicas"] * seen["mini_batch_images_per_second"]
    row = {"model": case[0], "cluster": case[1], "alignment": case[2], "chunks": chosen["time_chunks"], "micro_batch": chosen["micro_batch"],
           "replicas": chosen["replicas"], "planned": rate, "planned_without_chunks": whole["samples_per_second"], "simulated": simulated,
           "best_by_hand": best["samples_per_second"], "its_chunks": best["time_chunks"], "its_micro_batch": best["micro_batch"]}
    row["fine"] = (rate >= (1 - MOST_BELOW_BEST) * row["best_by_hand"] and rate >= (1 - 1e-9) * row["planned_without_chunks"]
                   and abs(simulated / rate - 1) <= MOST_APART)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--small", action="store_true")
    flags = parser.parse_args()
    flags.millrace = str(Path(flags.millrace).resolve())
    rows = []
    for case in SMALL if flags.small else [(m, c, a) for m in MODELS for c in CLUSTERS for a in ALIGNMENTS]:
        row = measure(flags, case)
        if row is None:
            continue
        rows.append(row)
        print(f"{'holds' if row['fine'] else 'FAILS'}  {row['model']:<22}{row['cluster']:<8}{row['alignment']:<8}{row['chunks']:>3} chunks of micro-batches of "
              f"{row['micro_batch']:>2}: {row['planned']:10.4g}/s, {row['planned'] / row['planned_without_chunks'] - 1:+7.1%} over whole sequences, "
              f"{row['planned'] / row['best_by_hand'] - 1:+.2%} of the best by hand ({row['its_chunks']} of {row['its_micro_batch']}), simulated "
              f"{row['simulated'] / row['planned'] - 1:+.2%}", flush=True)
    if flags.results:
        flags.results.write_text(json.dumps({"what": "chunks of time that plans choose", "command": "tests/benchmarks/time_chunks.py --millrace build/release/bin/millrace",
                                             "origin": "modelled, and simulated", "mini_batch": MINI_BATCH, "rows": rows},
                                            indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["fine"] for row in rows) and any(row["chunks"] > 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
