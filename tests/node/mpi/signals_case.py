"""Signals and the time limit: a checkpoint at once, an end with a checkpoint, what the ranks wait for."""

import dataclasses
import signal
import time

from ring_job import RingJob, require, run
from run_folder import checkpoints_of

INTERRUPTED = 4  # the exit status: everything is saved
LONG = 1000000  # updates: more than any test waits for


def training(out, *more):
    return ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", "fpdeep", "--evaluate-every", "0",
            "--log-every", "1", "--json", "--out", str(out), "--steps", str(LONG), *more]


def require_stopped_with_checkpoint(job, folder, reason):
    job.finish(within=300, status=INTERRUPTED)
    done = job.last_record("done")
    require(done["reason"] == reason, f"ended by {done['reason']}, expected {reason}")
    require(max(checkpoints_of(folder)) == done["step"], f"stopped at step {done['step']}, checkpoints {sorted(checkpoints_of(folder))}")
    return done


def require_resumes(tools, folder, done, *more):
    """Another two updates, on fewer ranks."""
    job = run(tools, 2, ["train", "--resume", str(folder), "--steps", str(done["step"] + 2), "--json", *more])
    job.require_said(f"resumed at step {done['step']} ", times=1)


def checkpoint_now(tools):
    """SIGUSR1 to mpirun: one checkpoint, though the ranks hear it at different updates, and training goes on; SIGUSR2: the end, with one."""
    folder = tools.scratch / "run"
    with RingJob(tools, 3, training(folder, "--keep", "9")) as job:
        job.wait_for_step(5)
        require(not checkpoints_of(folder), "there is a checkpoint that nobody asked for")
        job.process.send_signal(signal.SIGUSR1)
        job.wait_for(lambda record: record["event"] == "checkpoint", "a checkpoint")
        made = job.last_record("checkpoint")["step"]
        job.wait_for_step(made + 5)
        require(sorted(checkpoints_of(folder)) == [made], f"checkpoints {sorted(checkpoints_of(folder))}, expected that of step {made}")
        job.process.send_signal(signal.SIGUSR1)
        job.wait_for(lambda record: record["event"] == "checkpoint" and record["step"] > made, "a second checkpoint")
        again = job.last_record("checkpoint")["step"]
        job.wait_for_step(again + 5)
        require(job.signal_rank(1, signal.SIGUSR1), "no rank 1")
        job.wait_for(lambda record: record["event"] == "checkpoint" and record["step"] > again, "a checkpoint that one rank asked for")
        saved = [made, again, job.last_record("checkpoint")["step"]]
        require(sorted(checkpoints_of(folder)) == saved, f"checkpoints {sorted(checkpoints_of(folder))}, expected {saved}")
        job.process.send_signal(signal.SIGUSR2)
        done = require_stopped_with_checkpoint(job, folder, "signal")
        require(sorted(checkpoints_of(folder)) == [*saved, done["step"]], f"checkpoints {sorted(checkpoints_of(folder))}")
    require_resumes(tools, folder, done)


def interrupted_rank(tools):
    """SIGINT to any single process ends the job after its update, with a checkpoint."""
    for rank in (0, 2):
        folder = tools.scratch / f"run_{rank}"
        with RingJob(tools, 3, training(folder)) as job:
            job.wait_for_step(5)
            seen = job.records[-1]["step"]
            require(job.signal_rank(rank, signal.SIGINT), f"no rank {rank}")
            done = require_stopped_with_checkpoint(job, folder, "signal")
            print(f"SIGINT to rank {rank} after step {seen}: stopped at step {done['step']}", flush=True)
    require_resumes(tools, folder, done)


def asked_what_it_waits_for(tools):
    """SIGTERM to ranks whose neighbour stands still: each says what its devices are at and whom it waits for."""
    folder = tools.scratch / "run"
    with RingJob(tools, 3, training(folder, "--deadline", "10s")) as job:
        job.wait_for_step(3)
        for rank in (0, 1, 2):
            job.rank_process(rank)  # so that little of the deadline goes by before they are asked
        require(job.signal_rank(1, signal.SIGSTOP), "no rank 1")
        time.sleep(1)
        for rank in (0, 2):
            require(job.signal_rank(rank, signal.SIGTERM), f"no rank {rank}")
        job.wait_until(lambda: all(any(f"rank {rank}]" in line and "wait" in line for line in job.said) for rank in (0, 2)),
                       "ranks 0 and 2 to say what they wait for")
        before = job.output()
        job.finish(within=300, status=75)
        print(before)


def terminated_rank(tools):
    """SIGTERM to one rank of a ring that runs: it says what it is at, and all stop with a checkpoint."""
    folder = tools.scratch / "run"
    with RingJob(tools, 2, training(folder)) as job:
        job.wait_for_step(3)
        require(job.signal_rank(1, signal.SIGTERM), "no rank 1")
        require_stopped_with_checkpoint(job, folder, "signal")
        require([line for line in job.said if "rank 1]" in line and "device" in line], f"rank 1 did not say what it was at:\n{job.output()}")


def terminated_job(tools):
    """SIGTERM to mpirun, which then leaves a second: the newest checkpoint is named, and it is whole."""
    folder = tools.scratch / "run"
    with RingJob(tools, 2, training(folder, "--checkpoint-every", "5")) as job:
        job.wait_for(lambda record: record["event"] == "checkpoint", "a checkpoint")
        job.process.send_signal(signal.SIGTERM)
        end = job.end(within=300)
        require(end.status not in (0, None), f"status {end.status}: it was not trained to its end\n{job.output()}")
        named = [line for line in job.said if "SIGTERM: the newest checkpoint is " in line]
        require(len(named) == 1, f"the newest checkpoint was named {len(named)} times\n{job.output()}")
        print(f"status {end.status}; {named[0]}", flush=True)
    run(tools, 2, ["train", "--resume", str(folder), "--steps", str(max(checkpoints_of(folder)) + 2), "--json"]).require_said("resumed at", times=1)


def time_limit(tools):
    """The end comes with a checkpoint, a little after the limit."""
    folder = tools.scratch / "run"
    with RingJob(tools, 3, training(folder, "--time-limit", "2s")) as job:
        done = require_stopped_with_checkpoint(job, folder, "time limit")
        require(1.5 < done["seconds"] < 60, f"stopped after {done['seconds']} s of training, expected about 2")
    require_resumes(tools, folder, done, "--time-limit", "1h")


def signals_are_heard(tools):
    for case in (checkpoint_now, interrupted_rank, asked_what_it_waits_for, terminated_rank, terminated_job, time_limit):
        print(f"{case.__name__}: {case.__doc__}", flush=True)
        folder = tools.scratch / case.__name__
        folder.mkdir()
        case(dataclasses.replace(tools, scratch=folder))
