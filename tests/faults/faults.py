"""The faults of the campaign: each does something bad to a training, sees how it ends, and lets it go on.

    outcome = KINDS["kill"](tools, references, draw(seed=1, kind="kill"))

Whatever is done: it ends in time and says why; every checkpoint that was there before is there afterwards or was followed by newer ones, each
to the byte that of the undisturbed run; and what goes on ends with the weights and the last checkpoint of the undisturbed run, to the bit.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

MPI_TESTS = Path(__file__).resolve().parents[1] / "node" / "mpi"
sys.path.insert(0, str(MPI_TESTS))

from launching import Launched  # noqa: E402
from ring_job import Failure, processes_with, require, run  # noqa: E402
from run_folder import checkpoints_of, leftovers_of, require_part_of, require_same_folder  # noqa: E402

DEADLINE = 300  # seconds for every end: more than a machine stands still for
SILENCE = 3  # seconds that ranks wait for one that is stopped


class Skipped(Exception):
    """This machine does not allow the fault."""


@dataclass
class Task:
    words: list
    steps: int
    devices: int
    least_ranks: int = 1


CNN = ["--model", "digits-cnn", "--data", "digits"]
RNN = ["--model", "char-rnn", "--data", "text", "--mini-batch", "8", "--micro-batch", "4"]
TASKS = {
    "cnn": Task([*CNN, "--cluster", "cpux4", "--mini-batch", "192", "--micro-batch", "32"], 30, 4),
    "cnn8": Task([*CNN, "--cluster", "cpux8", "--mini-batch", "192", "--micro-batch", "32"], 30, 8),
    "rnn": Task([*RNN, "--cluster", "cpux4"], 16, 4),
    "replicas": Task([*CNN, "--cluster", "cpux2", "--mini-batch", "192", "--micro-batch", "32", "--replicas", "2"], 30, 2, 2),
    "homes": Task([*CNN], 30, 4),  # with a plan whose parameters are stored elsewhere
}
# Never drawn: kinds of fault ask for them.
TASKS_APART = {"xrt": Task(["--model", "digits-cnn", "--data", "digits", "--cluster", "xrt-emulated-fpgax2", "--mini-batch", "8", "--micro-batch", "8"], 16, 2)}
ALIGNMENTS = ("fpdeep", "flush", "1f1b", "stash", "zero-bubble")


def task_of(name):
    return TASKS.get(name) or TASKS_APART[name]


@dataclass
class Fault:
    kind: str
    seed: int
    task: str
    alignment: str
    ranks: int
    step: int
    every: int
    writing: bool  # while a checkpoint is written
    delay: float


def draw(seed, kind, small=False):
    chance = random.Random(f"{kind} {seed}")
    task = chance.choice(("cnn", "cnn", "cnn", "rnn") if small else tuple(TASKS))
    of = TASKS[task]
    most = of.devices * of.least_ranks
    ranks = chance.choice((1, 1, 1, 2)) if small else chance.choice([r for r in (1, 2, 3, 4, 6, 8) if of.least_ranks <= r <= most and r % of.least_ranks == 0])
    return Fault(kind, seed, task, chance.choice(ALIGNMENTS), max(ranks, of.least_ranks), chance.randint(4, of.steps - 6), chance.choice((1, 2, 3, 5)),
                 chance.random() < 0.4, chance.uniform(0, 0.02))


class References:
    """The undisturbed runs, made once each and kept: a checkpoint after every update."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, Path(folder)

    def words(self, task, alignment):
        of = task_of(task)
        if task != "homes":
            return [*of.words, "--alignment", alignment]
        plan = self.folder / f"homes_{alignment}.textproto"
        if not plan.exists():
            job = run(self.tools, 0, ["--log-level", "off", "plan", *CNN[:2], "--cluster", "cpux4", "--alignment", alignment, "--mini-batch", "192",
                                      "--micro-batch", "32", "--replicas", "1", "--balance", "always", "--out", str(plan), "--json"])
            require("homes {" in plan.read_text(), f"no parameter is stored elsewhere:\n{job.output()}")
        return ["--data", "digits", "--plan", str(plan)]

    def training(self, fault, out, *more):
        of = task_of(fault.task)
        return ["train", *self.words(fault.task, fault.alignment), "--steps", str(of.steps), "--log-every", "1", "--json", "--evaluate-every", "0",
                "--checkpoint-every", str(fault.every), "--keep", "3", "--out", str(out), *more]

    def of(self, fault):
        folder = self.folder / f"{fault.task}_{fault.alignment}"
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            of = task_of(fault.task)
            run(self.tools, 0 if of.least_ranks == 1 else of.least_ranks,
                ["train", *self.words(fault.task, fault.alignment), "--steps", str(of.steps), "--log-every", "1", "--evaluate-every", "0",
                 "--checkpoint-every", "1", "--keep", "1000", "--json", "--out", str(folder)])
            (folder / "whole").touch()
        return folder


def newest(out):
    return max(checkpoints_of(out), default=0)


def last_step(out):
    try:
        lines = (out / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return 0
    steps = [int(line.split('"step":')[1].split(",")[0].rstrip("}")) for line in lines if '"step":' in line]
    return max(steps, default=0)


def await_moment(job, fault, out):
    """False when the training was over before."""
    deadline = time.monotonic() + DEADLINE
    while True:
        if job.process.poll() is not None:
            return False
        names = os.listdir(out / "checkpoints") if (out / "checkpoints").is_dir() else []
        if fault.writing and any(name.endswith(".partial") and int(name[5:13]) >= fault.step for name in names):
            break
        if last_step(out) >= fault.step + (fault.every if fault.writing else 0):
            break
        require(time.monotonic() < deadline, f"step {fault.step} was not reached in {DEADLINE} s:\n{job.output()}")
        time.sleep(0.001)
    time.sleep(fault.delay)
    return job.process.poll() is None


def workers_of(job):
    """What trains: rank -> process; one process alone is rank 0."""
    found = job.ranks_now()
    if found:
        return found
    alone = [pid for pid in processes_with(job.word) if pid != job.process.pid and "train" in words_of(pid) and "launch" not in words_of(pid)]
    return dict(enumerate(alone))


def words_of(pid):
    try:
        return [word.decode(errors="replace") for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return []


def signal_some(job, fault, number):
    found = sorted(workers_of(job).items())
    if not found:
        return None
    pid = found[random.Random(fault.seed).randrange(len(found))][1]
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid


def started(tools, references, fault, out, flags=(), before=(), more=()):
    flags = ["--ranks", str(fault.ranks), "--max-restarts", "3", "--stalled-after", f"{4 * SILENCE}s", *flags]
    return Launched(tools, flags, references.training(fault, out, "--deadline", f"{SILENCE}s", *more), before)


def end_of(job, statuses):
    end = job.end(DEADLINE)
    require(end.status is not None, f"no end within {DEADLINE} s:\n{job.output()}")
    require(end.status in statuses, f"status {end.status}, expected one of {statuses}:\n{job.output()}")
    left = [failure for failure in end.failures if "processes" in failure]
    require(not left, f"{left}:\n{job.output()}")
    require(end.status == 0 or job.said, f"status {end.status}, and nothing was said")
    return end


def check_whole(references, fault, out):
    reference = references.of(fault)
    steps = task_of(fault.task).steps
    require(newest(out) == steps, f"the newest checkpoint is of step {newest(out)}, expected {steps}")
    require_part_of(out, reference)
    require_same_folder(checkpoints_of(out)[steps], checkpoints_of(reference)[steps])
    require(not leftovers_of(out), f"left half-written: {leftovers_of(out)}")


def go_on(tools, references, fault, out, before=0):
    """What was interrupted goes on to its end; no checkpoint was lost meanwhile."""
    require(newest(out) >= before, f"the newest checkpoint is of step {newest(out)}, there was one of step {before}")
    require_part_of(out, references.of(fault))
    with started(tools, references, fault, out, ["--continue"]) as job:
        end_of(job, (0,))
    check_whole(references, fault, out)


def with_launcher(act, statuses, restarts=None):
    """Faults that the launcher gets over by itself, or ends with one of these statuses."""

    def fault_of(tools, references, fault, out):
        with started(tools, references, fault, out) as job:
            struck = await_moment(job, fault, out) and act(job, fault) is not None
            before = newest(out)
            end = end_of(job, statuses if struck else (0,))
            said = job.records[-1] if job.records else {}
        if end.status != 0:
            go_on(tools, references, fault, out, before)
        else:
            check_whole(references, fault, out)
        return {"struck": struck, "status": end.status, "restarts": said.get("restarts"), "lost_steps": said.get("lost_steps"),
                "seconds_to_end": round(end.seconds, 2)}

    return fault_of


def kill_mpirun(job, fault):
    """What was started directly: mpirun, or the training alone."""
    for pid in processes_with(job.word):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == job.process.pid:
            os.kill(pid, signal.SIGKILL)
            return pid
    return None


def stop_for_a_moment(job, fault):
    pid = signal_some(job, fault, signal.SIGSTOP)
    if pid is not None:
        time.sleep(SILENCE / 6)
        os.kill(pid, signal.SIGCONT)
    return pid


def to_launcher(number):
    def act(job, fault):
        job.process.send_signal(number)
        return job.process.pid

    return act


def launcher_sleeps(job, fault):
    job.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGCONT)
    return job.process.pid


def refuse_memory(job, fault):
    """No address is added to what one process has now."""
    found = sorted(workers_of(job).values())
    if not found:
        return None
    pid = found[fault.seed % len(found)]
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        subprocess.run(["prlimit", "--pid", str(pid), f"--as={pages * 4096}"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return pid


def no_memory_at_all(tools, references, fault, out):
    """From the beginning: less than a training needs."""
    with started(tools, references, fault, out, before=["prlimit", f"--as={60 << 20}"]) as job:
        end = end_of(job, range(1, 256))
    go_on(tools, references, fault, out)
    return {"struck": True, "status": end.status}


def damage(change):
    """After a kill `change(fault, newest checkpoint, run folder)`; the newest checkpoint may be gone by that, and no other."""

    def fault_of(tools, references, fault, out):
        with Launched(tools, ["--ranks", str(fault.ranks), "--max-restarts", "0"],
                      references.training(fault, out, "--deadline", f"{SILENCE}s")) as job:
            struck = await_moment(job, fault, out) and signal_some(job, fault, signal.SIGKILL) is not None
            end_of(job, (0, 137))
        steps = sorted(checkpoints_of(out))
        if not struck or newest(out) == TASKS[fault.task].steps or len(steps) < 2:
            struck = False
        what = None
        if struck:
            what = change(fault, checkpoints_of(out)[steps[-1]], out)
        with started(tools, references, fault, out, ["--continue"]) as job:
            end_of(job, (0,))
            if what:
                job.require_said(what)
        shutil.rmtree(out / "checkpoints" / "damaged", ignore_errors=True)
        check_whole(references, fault, out)
        return {"struck": struck}

    return fault_of


def torn(fault, checkpoint, out):
    file = random.Random(fault.seed).choice(sorted(checkpoint.glob("*.safetensors")))
    os.truncate(file, file.stat().st_size // 3)
    return "is passed over"


def flipped(fault, checkpoint, out):
    chance = random.Random(fault.seed)
    file = chance.choice(sorted(checkpoint.iterdir()))
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return "is passed over"


def without_manifest(fault, checkpoint, out):
    (checkpoint / "manifest.json").unlink()
    return "is passed over"


def damaged_plan(fault, checkpoint, out):
    (out / "plan.textproto").write_bytes(os.urandom(500))
    return None


def damaged_metrics(fault, checkpoint, out):
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event":"step","step":\n\xff\xfe garbage\n{"event":')
    return "is not a metrics record, dropped"


def leftover(fault, checkpoint, out):
    shutil.copytree(checkpoint, out / "checkpoints" / f"step-{TASKS[fault.task].steps:08}.partial")
    return "left half-done by a crash, removed"


def damaged_job(tools, references, fault, out):
    """The job of a run is refused by name, and nothing is touched."""
    with started(tools, references, fault, out) as job:
        struck = await_moment(job, fault, out)
        if struck:
            job.process.send_signal(signal.SIGTERM)
        end_of(job, (0, 4))
    before, text = newest(out), (out / "job.textproto").read_bytes()
    (out / "job.textproto").write_bytes(text[: len(text) // 2] + b"\xff{")
    with started(tools, references, fault, out, ["--continue"]) as job:
        end_of(job, (1, 2))
        job.require_said("job.textproto")
    (out / "job.textproto").write_bytes(text)
    go_on(tools, references, fault, out, before)
    return {"struck": struck}


def two_runs(tools, references, fault, out):
    """Who comes second is told who is first, who does not notice."""
    with started(tools, references, fault, out, more=["--time-limit", "60s"]) as job:
        struck = await_moment(job, fault, out)
        if struck:
            job.process.send_signal(signal.SIGSTOP)  # so that the first is there as long as the second asks
            alone = [pid for pid in processes_with(job.word) if pid != job.process.pid]
            for pid in alone:
                os.kill(pid, signal.SIGSTOP)
            with Launched(tools, ["--ranks", "1"] if TASKS[fault.task].least_ranks == 1 else ["--ranks", "2"],
                          ["train", "--resume", str(out), "--json"]) as second:
                end_of(second, (1,))
                second.require_said("a launch is under way there")
            for pid in [*alone, job.process.pid]:
                os.kill(pid, signal.SIGCONT)
        end_of(job, (0,))
    check_whole(references, fault, out)
    return {"struck": struck}


def restart_in_restart(tools, references, fault, out):
    """A rank is killed, and then the launcher while it starts again; another launcher goes on."""
    with started(tools, references, fault, out) as job:
        struck = await_moment(job, fault, out) and signal_some(job, fault, signal.SIGKILL) is not None
        before = newest(out)
        if struck:
            job.wait_until(lambda: job.lines_with("attempt 2 of at most") or job.process.poll() is not None, "another attempt")
            time.sleep(random.Random(fault.seed).uniform(0, 0.8))
            job.process.kill()
        else:
            end_of(job, (0,))
        job.process.wait(DEADLINE)
        go_on(tools, references, fault, out, before)  # while its ranks may still be there
    return {"struck": struck}


def file_limit(tools, references, fault, out):
    """No file may be larger than a checkpoint's weights are: writing fails, is said, and what was there stays."""
    # mpirun's own files would meet the limit as well, and before anything of ours is written.
    fault = Fault(**{**asdict(fault), "ranks": 1, "task": fault.task if TASKS[fault.task].least_ranks == 1 else "cnn"})
    largest = max(file.stat().st_size for file in checkpoints_of(references.of(fault))[1].iterdir())
    with started(tools, references, fault, out, before=["prlimit", f"--fsize={largest - 1}"]) as job:
        end = end_of(job, (1, 135, 153))
    require(not checkpoints_of(out), f"checkpoints that could not be written: {sorted(checkpoints_of(out))}")
    go_on(tools, references, fault, out)
    return {"struck": True, "status": end.status}


class SmallDisk:
    def __init__(self, folder, kilobytes):
        self.folder, self.kilobytes = folder, kilobytes

    def __enter__(self):
        self.folder.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.kilobytes}k", "tmpfs", self.folder], check=False,
                                               capture_output=True).returncode != 0:
            raise Skipped("mounting a small file system is not permitted")
        return self

    def grow(self):
        subprocess.run(["mount", "-o", "remount,size=200m", self.folder], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder], check=False)


def disk_full(tools, references, fault, out):
    """Room for a few checkpoints and no more; then there is more."""
    size = sum(file.stat().st_size for file in checkpoints_of(references.of(fault))[1].iterdir())
    with SmallDisk(out.parent / f"{out.name}_disk", size // 1024 * (1 + fault.seed % 3) + 60) as disk:
        inside = disk.folder / "run"
        with started(tools, references, fault, inside) as job:
            end = end_of(job, (1,))
            job.require_said("No space left on device")
            before = newest(inside)
        disk.grow()
        if (inside / "job.textproto").exists():
            go_on(tools, references, fault, inside, before)
        else:
            shutil.rmtree(inside, ignore_errors=True)
            go_on(tools, references, fault, inside)
    return {"struck": True, "status": end.status}


def read_only(tools, references, fault, out):
    """The folder of checkpoints may not be written any more: one that has no rights beyond its own says so and ends."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        raise Skipped("root writes everywhere, and there is no setpriv to be somebody else")
    if TASKS[fault.task].least_ranks > 1:
        fault = Fault(**{**asdict(fault), "task": "cnn"})
    fault = Fault(**{**asdict(fault), "ranks": 1})
    references.of(fault)
    out.mkdir()
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        os.chown(out, 65534, 65534)
        for folder in out.parents:
            if folder == Path("/tmp"):
                break
            folder.chmod(folder.stat().st_mode | 0o711)
    inside = out / "run"
    with started(tools, references, fault, inside, before=user) as job:
        struck = await_moment(job, fault, inside)
        (inside / "checkpoints").mkdir(exist_ok=True)  # the fault may come before the first checkpoint
        if user:
            os.chown(inside / "checkpoints", 65534, 65534)
        (inside / "checkpoints").chmod(0o555)
        before = newest(inside)
        end = end_of(job, (1,) if struck and before + fault.every <= TASKS[fault.task].steps else (0, 1))
    (inside / "checkpoints").chmod(0o755)
    continue_as(tools, references, fault, inside, before, user)
    return {"struck": struck, "status": end.status}


def continue_as(tools, references, fault, out, before, user):
    require(newest(out) >= before, f"the newest checkpoint is of step {newest(out)}, there was one of step {before}")
    with started(tools, references, fault, out, ["--continue"], before=user) as job:
        end_of(job, (0,))
    check_whole(references, fault, out)


AGAIN = (0,)
KINDS = {
    "kill a rank": with_launcher(lambda job, fault: signal_some(job, fault, signal.SIGKILL), AGAIN),
    "kill mpirun": with_launcher(kill_mpirun, AGAIN),
    "stop a rank": with_launcher(lambda job, fault: signal_some(job, fault, signal.SIGSTOP), AGAIN),
    "stop and continue": with_launcher(stop_for_a_moment, AGAIN),
    "crash a rank": with_launcher(lambda job, fault: signal_some(job, fault, signal.SIGSEGV), AGAIN),
    "hang up": with_launcher(to_launcher(signal.SIGHUP), (0, 4)),
    "terminate": with_launcher(to_launcher(signal.SIGTERM), (0, 4)),
    "launcher stopped": with_launcher(launcher_sleeps, AGAIN),
    "memory refused": with_launcher(refuse_memory, range(0, 256)),
    "too little memory": no_memory_at_all,
    "disk full": disk_full,
    "file limit": file_limit,
    "read-only folder": read_only,
    "torn checkpoint": damage(torn),
    "flipped bit": damage(flipped),
    "no manifest": damage(without_manifest),
    "half-written leftover": damage(leftover),
    "damaged plan": damage(damaged_plan),
    "damaged metrics": damage(damaged_metrics),
    "damaged job": damaged_job,
    "two runs in a folder": two_runs,
    "restart in a restart": restart_in_restart,
}
