"""Ranks killed and stopped at random moments of a training, which is then resumed and must end as if nothing had happened.

A moment is drawn from a seed: which rank of how many, in which alignment, by which signal, and when: while the ranks start, between two
updates, while a checkpoint is written, or near the end. Then
- the job ends in time with its documented status (137 killed, 75 stopped), leaves no process and nothing in shared memory;
- every checkpoint by its name is, to the byte, the one of that step of the uninterrupted run;
- --resume begins at the newest of them and ends with the same weights, the same bytes of its last checkpoint and the same history.
"""

import os
import random
import shutil
import signal
import time
from dataclasses import asdict, dataclass

from ring_job import Failure, RingJob, require, run
from run_folder import checkpoints_of, history_of, leftovers_of, require_part_of, require_same_folder

STEPS = 40
MINI_BATCH = 192  # large enough that a moment is short beside an update; an epoch of the digits has 7 such
# What a rank is waited for, in seconds. One that is stopped is waited for as long; where one is killed nobody should wait, and a machine
# that is busy elsewhere must not look like a neighbour that is silent.
DEADLINES = {"SIGKILL": 600, "SIGSTOP": 4}
# By itself, and not because everything else ended: about a second when nothing else runs, and within half the time that a rank is waited
# for. A machine may stand still for minutes.
ENDED_WITHIN = {"SIGKILL": 300, "SIGSTOP": DEADLINES["SIGSTOP"] + 300}
STATUS = {"SIGKILL": 137, "SIGSTOP": 75}
ALIGNMENTS = ("fpdeep", "flush", "stash")
DAMAGES = ("", "truncated", "flipped", "no manifest")


TASKS = {
    "digits": ["--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--mini-batch", str(MINI_BATCH), "--micro-batch", "32"],
    # Two rings side by side, whose gradients are added up column by column.
    "replicas": ["--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--mini-batch", "192", "--micro-batch", "32",
                 "--replicas", "2"],
    "recurrent": ["--model", "char-rnn", "--data", "text", "--cluster", "cpux4", "--mini-batch", "8", "--micro-batch", "4"],
}
LEAST_RANKS = {"digits": 0, "replicas": 2, "recurrent": 0}  # 0: the program alone


def training(task, alignment, out, *more):
    return ["train", *TASKS[task], "--alignment", alignment, "--steps", str(STEPS), "--log-every", "1", "--json", "--out", str(out), *more]


@dataclass
class Moment:
    task: str
    alignment: str
    ranks: int
    rank: int
    signal: str
    when: str  # "start", "update", "writing", "end"
    step: int
    delay: float  # seconds from there
    damage: str = ""  # done to the newest checkpoint afterwards


def draw_moment(seed, when, name, alignment, damage="", task="digits", rank=None):
    """`rank`: the one to be struck; drawn as well when it is not given."""
    chance = random.Random(f"{seed} {when} {name} {alignment}")
    ranks = chance.choice((2, 4)) if task == "replicas" else chance.randint(2, 4)
    # The first rank writes the checkpoints: while it does, it is the one more often.
    drawn = 0 if when == "writing" and chance.random() < 0.6 else chance.randrange(ranks)
    if rank is None:
        rank = drawn
    elif rank >= ranks:
        ranks = 4
    longest = {"start": 0.3, "update": 0.015, "writing": 0.006, "end": 0.02}[when]
    return Moment(task, alignment, ranks, rank, name, when, chance.randint(6, STEPS - 4), chance.uniform(0, longest), damage)


class References:
    """The uninterrupted runs, one per task and alignment: on as few ranks as there can be, with a checkpoint after every update."""

    def __init__(self, tools):
        self.tools = tools
        self.made = {}

    def of(self, task, alignment):
        if (task, alignment) not in self.made:
            folder = self.tools.scratch / f"reference_{task}_{alignment}"
            job = run(self.tools, LEAST_RANKS[task], training(task, alignment, folder, "--checkpoint-every", "1", "--keep", "1000"))
            self.made[task, alignment] = (folder, job.last_record("done"))
        return self.made[task, alignment]


def poll(job, holds, what):
    """Looks often; False when the job ended before."""
    deadline = time.monotonic() + 300
    while not holds():
        if job.process.poll() is not None:
            return False
        require(time.monotonic() < deadline, f"waited 300 s for {what}:\n{job.output()}")
        time.sleep(0.0002)
    return True


def reached(out, step):
    """By the run's own folder: what is printed takes its time through mpirun."""
    history = out / "metrics.jsonl"
    return history.exists() and f'"event":"step","step":{step},' in history.read_text()


def writes(out, step):
    """True when the folder is there that the checkpoint of this step, or a later one, is written in."""
    root = out / "checkpoints"
    names = os.listdir(root) if root.is_dir() else []
    return any(name.endswith(".partial") and int(name[5:13]) >= step for name in names)


def strike(job, moment, out):
    """Waits for the moment and sends the signal; returns when that was, None when the job had ended."""
    if moment.when == "start":
        job.rank_process(moment.rank)
    else:
        for rank in range(moment.ranks):
            job.rank_process(rank)  # so that it is known at once when the moment comes
        if moment.when == "writing":
            poll(job, lambda: writes(out, moment.step), f"a checkpoint of step {moment.step}")
        else:
            poll(job, lambda: reached(out, moment.step if moment.when == "update" else STEPS), f"step {moment.step}")
    time.sleep(moment.delay)
    return time.monotonic() if job.signal_rank(moment.rank, getattr(signal, moment.signal)) else None


def damage_newest(run_folder, kind):
    newest = max(checkpoints_of(run_folder).items())[1]
    weights = newest / "weights.safetensors"
    if kind == "truncated":
        os.truncate(weights, weights.stat().st_size // 2)
    elif kind == "flipped":
        content = bytearray(weights.read_bytes())
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
    elif kind == "no manifest":
        (newest / "manifest.json").unlink()
    return newest


def interrupt(tools, moment, out):
    """Trains into the moment; what was seen, or None when the training was over before it."""
    # Not so often that writing falls behind training: the moments are to lie in the middle of both.
    every = "3" if moment.when == "writing" else "6"
    arguments = training(moment.task, moment.alignment, out, "--checkpoint-every", every, "--keep", "2", "--deadline", f"{DEADLINES[moment.signal]}s")
    with RingJob(tools, moment.ranks, arguments) as job:
        struck = strike(job, moment, out)
        if struck is None:
            return None
        end = job.end(ENDED_WITHIN[moment.signal], since=struck)
        if end.status == 0 and not end.failures:
            return None  # the signal came when all was over
        said = job.output()
        # Open MPI's mpirun may crash in its own clean-up when ranks end while the job starts; the ranks have kept their promise.
        crashed = end.status == -signal.SIGSEGV and "PMIx_server_finalize" in said
        failures = [failure for failure in end.failures if not (crashed and "session folder" in failure)]
        require(not failures, "; ".join(failures) + "\n" + said)
        require(crashed or end.status == STATUS[moment.signal], f"status {end.status}, expected {STATUS[moment.signal]}\n{said}")
        if moment.signal == "SIGSTOP":
            require("deadline" in said, f"nobody said what was waited for:\n{said}")
        return {"status": end.status, "mpirun_crashed": crashed, "seconds_to_end": round(end.seconds, 2)}


def resume(tools, moment, out):
    """Continues what the moment left, or begins again when there is nothing yet; returns the step it went on from."""
    whole = sorted(checkpoints_of(out))
    if not (out / "job.textproto").exists():
        require(not whole, f"{out} has checkpoints and no job")
        return 0, run(tools, moment.ranks, training(moment.task, moment.alignment, out, "--keep", "2"))
    damaged = damage_newest(out, moment.damage) if moment.damage and len(whole) > 1 else None
    job = run(tools, moment.ranks, ["train", "--resume", str(out), "--log-every", "1", "--json"])
    if damaged is not None:
        whole.pop()
        job.require_said(f"{damaged} is passed over", times=1)
    if whole:
        job.require_said(f"resumed at step {whole[-1]} ", times=1)
    else:
        job.require_said("has no checkpoint yet", times=1)
    return (whole[-1] if whole else 0), job


def survive(tools, references, moment, out):
    """One moment from beginning to end; None when it came too late."""
    reference, done = references.of(moment.task, moment.alignment)
    shutil.rmtree(out, ignore_errors=True)
    seen = interrupt(tools, moment, out)
    if seen is None:
        return None
    require_part_of(out, reference)
    seen["half_written"] = leftovers_of(out)
    seen["resumed_at"], job = resume(tools, moment, out)
    digest = job.last_record("done")["weights_digest"]
    require(digest == done["weights_digest"], f"weights {digest}, uninterrupted {done['weights_digest']}")
    require_same_folder(checkpoints_of(out)[STEPS], checkpoints_of(reference)[STEPS])
    require(history_of(out) == history_of(reference), f"metrics.jsonl of {out} tells another history than that of {reference}")
    require(not leftovers_of(out), f"left half-written: {leftovers_of(out)}")
    shutil.rmtree(out)
    return {**asdict(moment), **seen, "weights_digest": digest, "bitwise_equal": True}


def survive_one(tools, references, seed, when, name, alignment, damage="", task="digits", rank=None):
    """Moments that come too late are drawn again."""
    for attempt in range(5):
        moment = draw_moment(seed + 1000 * attempt, when, name, alignment, damage, task, rank)
        try:
            seen = survive(tools, references, moment, tools.scratch / "interrupted")
        except Failure as failure:
            raise Failure(f"{moment}: {failure}") from failure
        if seen is not None:
            return seen
    raise Failure(f"five moments ({when}, {name}) in a row came too late")


def full_list(count):
    """Signals, alignments, tasks and kinds of moments in turn, half of them while checkpoints are written; every rank is struck."""
    kinds = ("writing", "update", "writing", "update", "writing", "start", "writing", "update", "end", "writing")
    tasks = ("digits", "replicas", "digits", "recurrent", "digits")
    for index in range(count):
        when = kinds[index % 10]
        yield {"when": when, "name": ("SIGKILL", "SIGSTOP")[(index + index // 10) % 2], "alignment": ALIGNMENTS[index % 3],
               "damage": DAMAGES[index // 6 % 4] if when in ("update", "writing") else "", "task": tasks[(index + index // 5) % 5],
               "rank": None if when == "writing" else index % 4}


def full(tools, count, seed):
    references = References(tools)
    results = []
    for index, chosen in enumerate(full_list(count)):
        try:
            seen = survive_one(tools, references, seed + index, **chosen)
            results.append({"survived": True, **seen})
        except Failure as failure:
            results.append({"survived": False, "why": str(failure)})
        print(f"{index + 1} of {count}: {results[-1]}", flush=True)
    return results
