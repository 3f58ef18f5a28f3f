"""What cannot be trained is refused before the first update: by one message, not one per rank, and with its exit status."""

import shutil

from ring_job import Failure, RingJob, require, run
from run_folder import checkpoints_of

# Shapes of two planes of 8x8 for a network of the digits, whose images have one plane.
OTHER_DATA = "synthetic:2x8x8:10:64"


def refusals(plan, run_folder):
    """(what is wrong, exit status, words of the one message, arguments), each for three ranks."""
    ring = ["--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4"]
    return [
        ("an unknown model", 2, 'is called "digits-cmm"', ["--model", "digits-cmm", "--data", "digits", "--cluster", "cpux4"]),
        ("an unknown flag", 2, "--aligment", [*ring, "--aligment", "flush"]),
        ("an unknown alignment", 2, "zigzag", [*ring, "--alignment", "zigzag"]),
        ("more ranks than devices", 2, "3 ranks for 2 device(s)", ["--model", "digits-cnn", "--data", "digits", "--cluster", "cpux2"]),
        ("a plan that does not fit the data", 1, "takes 1x8x8", ["--plan", str(plan), "--data", OTHER_DATA]),
        ("the gradients' norm in fpdeep", 2, "GLOBAL_NORM", [*ring, "--alignment", "fpdeep", "--clip-norm", "1"]),
        ("the gradients' norm in a plan of fpdeep", 2, "--clip-norm with alignment fpdeep", ["--plan", str(plan), "--data", "digits",
                                                                                             "--clip-norm", "1"]),
        ("replicas that do not divide the ranks", 2, "3 ranks cannot be divided", [*ring, "--replicas", "2"]),
        ("a mini-batch that replicas cannot share", 2, "choose a multiple of 3", [*ring, "--replicas", "3", "--mini-batch", "32"]),
        ("a micro-batch that no replica's share divides by", 2, "choose a multiple of 18", [*ring, "--replicas", "3", "--mini-batch", "24",
                                                                                            "--micro-batch", "6"]),
        ("a folder that holds a run", 2, "already holds a run", [*ring, "--out", str(run_folder)]),
        ("a folder that holds none", 1, "no run to continue", ["--resume", str(run_folder / "nothing")]),
        ("NCCL between processors", 3, "link 1 cannot take NCCL: device 1 is no GPU here; link 2", [*ring, "--links", "nccl"]),
        ("a cluster that is too small", 3, "no plan for vgg16 on vc709x1", ["--model", "vgg16", "--data", "synthetic:3x224x224:1000:64",
                                                                            "--cluster", "vc709x1"]),
    ]


def refusals_are_said_once(tools):
    run_folder = tools.scratch / "run"
    run(tools, 0, ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", "fpdeep", "--steps", "2",
                   "--out", str(run_folder), "--json"])
    plan = tools.scratch / "plan.textproto"
    shutil.copy(run_folder / "plan.textproto", plan)
    before = sorted(checkpoints_of(run_folder))
    problems = []
    for what, status, words, arguments in refusals(plan, run_folder):
        with RingJob(tools, 3, ["train", *arguments, "--steps", "2", "--json"]) as job:
            end = job.end(within=300)
            try:
                require(not end.failures, "; ".join(end.failures))
                require(end.status == status, f"status {end.status}, expected {status}")
                job.require_said(words, times=1)
                require(not [record for record in job.records if record["event"] == "step"], "a step was made")
                print(f"{what}: status {status} after {end.seconds:.1f} s: {job.lines_with(words)[0]}", flush=True)
            except Failure as failure:
                problems.append(f"{what}: {failure}\n{job.output()}")
    require(sorted(checkpoints_of(run_folder)) == before, f"{run_folder} was touched")
    require(not problems, "\n\n".join(problems))
