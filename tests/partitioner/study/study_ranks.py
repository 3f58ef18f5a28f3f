"""`millrace study` under mpirun: points shared out over ranks give the same files as one process, but for what is measured.

    study_ranks.py --mpirun mpirun --millrace bin/millrace [--ranks 2,3] -- --model alexnet --device vc709 --count 5:25:5
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def run(launch, millrace, arguments, folder):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [*launch, millrace, "--no-progress", "study", *arguments, "--json", "--out", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: status {done.returncode}\n{done.stderr}")
    study = json.loads(done.stdout)
    for point in study["points"]:
        del point["solve_seconds"]
    return study, (folder / "points.csv").read_text()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--ranks", default="2,3")
    parser.add_argument("arguments", nargs="*")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        alone = run([], flags.millrace, flags.arguments, folder / "alone")
        for ranks in flags.ranks.split(","):
            launch = [flags.mpirun, "-n", ranks, "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_num_threads", "0"]
            together = run(launch, flags.millrace, flags.arguments, folder / ranks)
            if together != alone:
                sys.exit(f"{ranks} ranks differ from one process")
            pieces = [(folder / ranks / f"points{'' if rank == 0 else f'-{rank}'}.jsonl").read_text().count("\n") for rank in range(int(ranks))]
            if 0 in pieces:
                sys.exit(f"{ranks} ranks: pieces done by each: {pieces}")
            # Started again, on another number of ranks: nothing is left to do.
            if run([], flags.millrace, flags.arguments, folder / ranks) != alone:
                sys.exit(f"what {ranks} ranks left does not go on as one process")
            print(f"{ranks} ranks: equal; pieces done by each: {pieces}")


if __name__ == "__main__":
    main()
