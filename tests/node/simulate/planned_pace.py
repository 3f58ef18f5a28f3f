"""Rings run as planned: the pace within 1% of the plan's, free and with Act-RAM as planned and a row more, and no peak above the plan.

    planned_pace.py --millrace bin/millrace vgg16:15 resnet18:15:running     # a network and how many boards; vc709 all of them
                                                                             # and what its batch norms are trained with

A peak may exceed the plan by 3% or by a word: amounts are whole words in the plan, and parts of rows in the simulation. Each map that a
device holds has one row under way; of maps of eight rows that is the most (2.4% on a board of resnet18-cifar that holds three).
"""

import argparse
import json
import subprocess
import sys

MOST = 0.01
MOST_ACT_RAM = 1.03
WORD_BITS = 16


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
        free = simulate(flags.millrace, network, boards, *norms)
        full = simulate(flags.millrace, network, boards, *norms, "--act-ram", "1")
        differences = [result["planned"]["difference"] for result in (free, full)]
        above = [device["index"] for device in free["devices"]
                 if device["act_ram_peak_bits"] > max(MOST_ACT_RAM * device["act_ram_plan_bits"], device["act_ram_plan_bits"] + WORD_BITS)]
        print(f"{ring:<20} {100 * differences[0]:+.2f}% of the plan's pace, {100 * differences[1]:+.2f}% with Act-RAM as planned and a row, "
              f"{len(above)} devices hold more than that")
        if max(abs(difference) for difference in differences) > MOST or above:
            wrong.append(ring)
    if wrong:
        sys.exit(f"not as planned: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
