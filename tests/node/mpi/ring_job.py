"""A training under mpirun, watched: its records as they come, signals to single ranks, and what it leaves behind.

    with RingJob(tools, ranks=3, arguments=["train", "--out", "run", ...]) as job:
        job.wait_for(lambda record: record.get("step") == 7)
        job.signal_rank(1, signal.SIGKILL)
        end = job.end(within=10)            # .status, .seconds, .failures: in time, no process left, nothing in shared memory

Every job has a folder of its own in shared memory and one for Open MPI's session, so that what it leaves is told from what
others use. Its processes are known by a word in their environment. On leaving the block all of them are ended.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ADVICE = ["--oversubscribe", "--bind-to", "none", "--mca", "odls_base_num_threads", "0"]


class Failure(Exception):
    """A promise that was not kept."""


def require(condition, text):
    if not condition:
        raise Failure(text)


@dataclass
class Tools:
    mpirun: str
    millrace: str
    scratch: Path


@dataclass
class End:
    status: int | None
    seconds: float  # from the moment given to end()
    failures: list = field(default_factory=list)


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def processes_with(word):
    """Whatever their state; those that are only waited for have no environment any more."""
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in numbers if word.encode() in environment_of(pid) and pid != os.getpid()]


class RingJob:
    def __init__(self, tools, ranks, arguments, launch=None):
        """`launch`: the words before the program's own instead of mpirun's on this machine; ranks 0: the program alone."""
        self.memory = Path(tempfile.mkdtemp(prefix="millrace_test_", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.session = Path(tempfile.mkdtemp(prefix="millrace_test_session_"))
        self.word = f"MILLRACE_TEST_JOB={self.memory}"
        environment = dict(os.environ, MILLRACE_TEST_JOB=str(self.memory), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_btl_vader_backing_directory=str(self.memory), OMPI_MCA_orte_tmpdir_base=str(self.session))
        if launch is None:
            launch = [tools.mpirun, "-n", str(ranks), *ADVICE] if ranks > 0 else []
        self.command = [*launch, tools.millrace, "--no-progress", *arguments]
        self.ranks = ranks
        self.records, self.said = [], []
        self.changed = threading.Condition()
        self.ranks_found = {}
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.readers = [threading.Thread(target=self.read_records, daemon=True), threading.Thread(target=self.read_words, daemon=True)]
        for reader in self.readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in processes_with(self.word):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        shutil.rmtree(self.memory, ignore_errors=True)
        shutil.rmtree(self.session, ignore_errors=True)

    def read_records(self):
        for line in self.process.stdout:
            try:
                record = json.loads(line)
            except ValueError:
                record = {"event": "not a record", "line": line.rstrip("\n")}
            with self.changed:
                self.records.append(record)
                self.changed.notify_all()

    def read_words(self):
        for line in self.process.stderr:
            with self.changed:
                self.said.append(line.rstrip("\n"))
                self.changed.notify_all()

    def output(self):
        return "\n".join(self.said)

    def wait_until(self, condition, what, within=300):
        """`condition` is looked at whenever something was printed; False when the job ended before."""
        deadline = time.monotonic() + within
        with self.changed:
            while not condition():
                if self.process.poll() is not None and not any(reader.is_alive() for reader in self.readers):
                    return False
                if time.monotonic() > deadline:
                    raise Failure(f"waited {within} s for {what}; said so far:\n{self.output()}")
                self.changed.wait(0.05)
        return True

    def wait_for(self, matches, what="a record", within=300):
        return self.wait_until(lambda: any(matches(record) for record in self.records), what, within)

    def wait_for_step(self, step, within=300):
        return self.wait_for(lambda record: record.get("event") == "step" and record["step"] >= step, f"step {step}", within)

    def rank_process(self, rank, within=300):
        """The process of a rank; None when the job ended before one was seen."""
        deadline = time.monotonic() + within
        mark = f"OMPI_COMM_WORLD_RANK={rank}".encode()
        while rank not in self.ranks_found:
            for pid in processes_with(self.word):
                if mark in environment_of(pid) and os.path.basename(executable_of(pid)) == os.path.basename(self.command_program()):
                    self.ranks_found[rank] = pid
            if self.process.poll() is not None:
                return self.ranks_found.get(rank)
            require(time.monotonic() < deadline, f"no process of rank {rank} after {within} s")
        return self.ranks_found[rank]

    def command_program(self):
        return self.command[self.command.index("--no-progress") - 1]

    def signal_rank(self, rank, number):
        """False when it has ended already."""
        pid = self.rank_process(rank)
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def end(self, within, since=None):
        """Waits for the end and judges it. `since`: when the clock began to run, else now."""
        since = time.monotonic() if since is None else since
        failures = []
        try:
            status = self.process.wait(timeout=max(0.1, since + within - time.monotonic()))
        except subprocess.TimeoutExpired:
            return End(None, time.monotonic() - since, [f"did not end within {within} s"])
        seconds = time.monotonic() - since
        patience = time.monotonic() + 30  # the last ones may still be on their way out
        while processes_with(self.word) and time.monotonic() < patience:
            time.sleep(0.05)
        left = processes_with(self.word)
        if left:
            failures.append(f"{len(left)} processes were left behind")
        for reader in self.readers:
            reader.join(timeout=30)
        for folder, name in ((self.memory, "shared memory"), (self.session, "Open MPI's session folder")):
            if os.listdir(folder):
                failures.append(f"left in {name}: {', '.join(sorted(os.listdir(folder)))}")
        return End(status, seconds, failures)

    def finish(self, within=300, status=0):
        """To its end, which must be as expected."""
        end = self.end(within)
        require(not end.failures, "; ".join(end.failures) + "\n" + self.output())
        require(end.status == status, f"status {end.status}, expected {status}: {' '.join(self.command)}\n{self.output()}")
        return self

    def last_record(self, event):
        found = [record for record in self.records if record.get("event") == event]
        require(found, f'no "{event}" record; said:\n{self.output()}')
        return found[-1]

    def lines_with(self, text):
        return [line for line in self.said if text in line]

    def require_said(self, text, times=None):
        found = len(self.lines_with(text))
        require(found > 0 if times is None else found == times,
                f'"{text}" was said {found} times, expected {"at least once" if times is None else times}:\n{self.output()}')


def executable_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def run(tools, ranks, arguments, status=0, within=300):
    """A job from beginning to end."""
    with RingJob(tools, ranks, arguments) as job:
        return job.finish(within, status)
