"""A checkpoint on another plan: fewer ranks, another alignment, another cluster. The weights are the same, and it is said."""

import math
import shutil

from ring_job import require, run
from run_folder import checkpoints_of, require_same_folder, weights_digest_of

FIRST, LAST = 20, 30
OTHER_PLAN = "training goes on from the checkpoint's weights, not bitwise"


def train(tools, ranks, out, steps, *more):
    return run(tools, ranks, ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", "fpdeep", "--steps",
                              str(steps), "--out", str(out), "--json", *more])


def resumed_elsewhere(tools):
    whole = tools.scratch / "whole"
    train(tools, 0, whole, LAST)
    begun = tools.scratch / "begun"
    stood = train(tools, 3, begun, FIRST).last_record("done")
    plan, rings = tools.scratch / "plan.textproto", tools.scratch / "rings.textproto"
    for path, cluster, replicas in ((plan, "cpux3", "1"), (rings, "cpux2", "2")):
        planned = run(tools, 0, ["plan", "--model", "digits-cnn", "--cluster", cluster, "--alignment", "flush", "--mini-batch", "64",
                                 "--replicas", replicas, "--out", str(path), "--json"])
        require(path.exists(), planned.output())

    # As it was planned, by other ranks, to which devices are dealt otherwise too: bitwise.
    for name, ranks, flags in (("ranks_4", 4, []), ("ranks_1", 1, []), ("turns", 2, ["--deal", "turns"]), ("blocks", 2, ["--deal", "blocks"])):
        folder = tools.scratch / name
        shutil.copytree(begun, folder)
        if name == "blocks":  # half of the way in turns
            run(tools, 2, ["train", "--resume", str(folder), "--steps", str((FIRST + LAST) // 2), "--deal", "turns", "--json"])
        job = run(tools, ranks, ["train", "--resume", str(folder), "--steps", str(LAST), "--json", *flags])
        require(not job.lines_with(OTHER_PLAN), f"another plan is told of where there is none:\n{job.output()}")
        require_same_folder(checkpoints_of(folder)[LAST], checkpoints_of(whole)[LAST])

    elsewhere = {"alignment": (3, ["--alignment", "flush"]), "stash": (2, ["--alignment", "stash"]), "cluster": (2, ["--cluster", "cpux2"]),
                 "kind": (3, ["--cluster", "vc709x3"]), "plan": (3, ["--plan", str(plan)]), "rings": (2, ["--plan", str(rings)])}
    for what, (ranks, flags) in elsewhere.items():
        folder = tools.scratch / what
        shutil.copytree(begun, folder)
        # Nothing is left to train: it is evaluated as it stands, with the weights it was written with.
        job = run(tools, ranks, ["train", "--resume", str(folder), "--json", *flags])
        job.require_said(OTHER_PLAN, times=1)
        job.require_said(f"resumed at step {FIRST} ", times=1)
        done = job.last_record("done")
        require(done["weights_digest"] == stood["weights_digest"], f"{what}: weights {done['weights_digest']}, before {stood['weights_digest']}")
        require(math.isclose(done["loss"], stood["loss"], rel_tol=1e-5), f"{what}: test loss {done['loss']}, before {stood['loss']}")
        job = run(tools, ranks, ["train", "--resume", str(folder), "--steps", str(LAST), "--json", *flags])
        job.require_said(f"resumed at step {FIRST} ", times=1)
        done = job.last_record("done")
        require(done["step"] == LAST and done["loss"] < stood["loss"], f"{what}: {done}, at step {FIRST} the loss was {stood['loss']}")
        require(weights_digest_of(checkpoints_of(folder)[LAST]) == done["weights_digest"], f"{what}: the checkpoint has other weights")
        print(f"{what}: the same weights at step {FIRST}, test loss {stood['loss']:.4f}, then {done['loss']:.4f} at step {LAST}", flush=True)
