"""`millrace simulate` under mpirun: the same JSON on 1, 2, 4 and 8 ranks, but for what is measured or counted per rank.

    simulate_ranks.py --mpirun mpirun --millrace bin/millrace [--ranks 1,2,4,8] -- --model lenet5 --cluster vc709x8
"""

import argparse
import json
import os
import subprocess
import sys

OF_EACH_RUN = ("wall_seconds", "ranks", "state_bytes", "work_of_ranks")


def run(mpirun, millrace, ranks, arguments):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = [mpirun, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_num_threads", "0"]
    done = subprocess.run([*launch, millrace, "simulate", *arguments, "--json"], env=environment, capture_output=True, text=True, timeout=250, check=False)
    if done.returncode != 0:
        sys.exit(f"{ranks} ranks: status {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout)
    if result["ranks"] != ranks:
        sys.exit(f"{ranks} ranks: the result says {result['ranks']}")
    return {key: value for key, value in result.items() if key not in OF_EACH_RUN}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("arguments", nargs="*")
    flags = parser.parse_args()
    ranks = [int(word) for word in flags.ranks.split(",")]
    first = run(flags.mpirun, flags.millrace, ranks[0], flags.arguments)
    for count in ranks[1:]:
        other = run(flags.mpirun, flags.millrace, count, flags.arguments)
        different = [key for key in first if first[key] != other.get(key)]
        if different or first.keys() != other.keys():
            sys.exit(f"{count} ranks differ from {ranks[0]} in {', '.join(different)}")
        print(f"{count} ranks: equal, {first['events']} events, {first['images_per_second']} images/s")


if __name__ == "__main__":
    main()
