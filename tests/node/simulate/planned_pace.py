"""Rings run as planned: the pace within 1% of the plan's, and no device holds more activations than the plan gives it room for.

    planned_pace.py --millrace bin/millrace vgg16:15 resnet18:15:running     # a network and how many boards; vc709 all of them
                                                                             # and what its batch norms are trained with

Plans count the row that is being filled beside those that wait. Where they did not, late layers on a board of their own, with maps of seven
rows, held up to 23% more than planned (resnet18 on 15 boards).
"""

import argparse
import json
import subprocess
import sys

MOST = 0.01


def simulate(millrace, network, boards, *more):
    done = subprocess.run([millrace, "simulate", "--model", network, "--cluster", f"vc709x{boards}", "--json", *more],
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"{network} on {boards} boards: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--millrace", required=True)
    parser.add_argument("rings", nargs="+")
    flags = parser.parse_args()
    wrong = []
    for ring in flags.rings:
        network, boards, *norms = ring.split(":")
        norms = ["--batch-norm", *norms] if norms else []
        result = simulate(flags.millrace, network, boards, *norms)
        difference = result["planned"]["difference"]
        shares = [device["act_ram_peak_bits"] / device["act_ram_plan_bits"] for device in result["devices"] if device["act_ram_plan_bits"] > 0]
        print(f"{ring:<20} {100 * difference:+.2f}% of the plan's pace, {100 * max(shares):.1f}% of the plan's Act-RAM at most")
        if abs(difference) > MOST or max(shares) > 1:
            wrong.append(ring)
    if wrong:
        sys.exit(f"not as planned: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
