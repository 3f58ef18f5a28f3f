"""A loss that is no number ends the training with the layer and the step named, and leaves the last checkpoint as it was."""

from ring_job import RingJob, require, run
from run_folder import checkpoints_of, leftovers_of


def not_a_number_is_named(tools):
    for alignment in ("fpdeep", "flush"):
        folder = tools.scratch / f"diverging_{alignment}"
        # Far too fast: a few updates go well, then the weights leave the range of numbers.
        with RingJob(tools, 3, ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", alignment,
                                "--learning-rate", "1", "--momentum", "0.999", "--steps", "80", "--checkpoint-every", "1", "--keep", "100",
                                "--out", str(folder), "--json"]) as job:
            job.finish(within=30, status=1)
            job.require_said("is not finite; the first layer whose output is not is")
            newest = max(checkpoints_of(folder))
            job.require_said(f"The checkpoint of step {newest} is intact", times=1)
            told = int(job.lines_with("is not finite")[0].split(" step ")[-1].split(":")[0]) if " step " in job.output() else -1
            require(told > newest, f"step {told} is named, the newest checkpoint is of step {newest}:\n{job.output()}")
        require(not leftovers_of(folder), f"left half-written: {leftovers_of(folder)}")
        # It can be gone on from, more slowly.
        more = run(tools, 2, ["train", "--resume", str(folder), "--learning-rate", "0.0001", "--steps", str(newest + 1), "--json"])
        more.require_said(f"resumed at step {newest} ", times=1)
        print(f"{alignment}: not a number at step {told}, went on from step {newest}", flush=True)
