"""Numbers that are none end the training with layer and step named, and leave the last checkpoint as it was.

The loss tells at once; where a relu has hidden them from it, the weights do when they are to be saved.
"""

import re

from ring_job import require, run
from run_folder import checkpoints_of, leftovers_of, require_part_of, require_same_folder

FIRST, LAST = 10, 16
RATE = ["--learning-rate", "0.01"]


def train(tools, ranks, alignment, out, steps, *more, status=0):
    return run(tools, ranks, ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", alignment, "--steps",
                              str(steps), *RATE, "--out", str(out), "--json", *more], status)


def not_a_number_is_named(tools):
    for alignment in ("fpdeep", "flush"):
        whole, folder = tools.scratch / f"whole_{alignment}", tools.scratch / f"run_{alignment}"
        train(tools, 0, alignment, whole, LAST, "--checkpoint-every", "1", "--keep", "100")
        train(tools, 3, alignment, folder, FIRST, "--checkpoint-every", "5")
        # Far too fast: a few updates, and the weights leave the range of numbers.
        job = run(tools, 3, ["train", "--resume", str(folder), "--learning-rate", "1e20", "--steps", "60", "--json"], status=1)
        told = re.search(r'step (\d+): (the loss is not finite; the first layer whose output is not is "\w+"|\w+\.\w+ is no longer finite)',
                         job.output())
        require(told, f"step and layer are not named:\n{job.output()}")
        require(FIRST < int(told[1]) <= FIRST + 5, f"step {told[1]} is named, the rate was raised at step {FIRST}")
        # By the first rank, unless mpirun stops it before it has heard of the failure: then in what it says of the signal.
        require(re.search(rf"The checkpoint of step {FIRST} is intact|the newest checkpoint is \S*step-0*{FIRST}\b", job.output()),
                f"the checkpoint that is left is not named:\n{job.output()}")
        require(not leftovers_of(folder), f"left half-written: {leftovers_of(folder)}")
        require_part_of(folder, whole)
        # On at the old rate, as if nothing had happened.
        run(tools, 2, ["train", "--resume", str(folder), *RATE, "--steps", str(LAST), "--json"]).require_said(f"resumed at step {FIRST} ", times=1)
        require_same_folder(checkpoints_of(folder)[LAST], checkpoints_of(whole)[LAST])
        print(f"{alignment}: {told[0]}; went on from step {FIRST}, bitwise as if never tried", flush=True)
