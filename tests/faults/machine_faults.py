"""Faults of what a training runs on: its clock, its disk, links between hosts, boards behind XRT's emulation.

    outcome = KINDS["slow disk"](tools, references, draw(seed=1, kind="slow disk"), out)      # KINDS: those of faults.py, too
"""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import faults
from faults import (AGAIN, TASKS_APART, Fault, Skipped, await_moment, check_whole, end_of, go_on, newest, signal_some, started, task_of)
from launching import Launched
from link_cut import SCRIPT, SETTINGS, Hosts
from ring_job import processes_with, require


def loaded_before(references, name):
    """One of the sources here, as a library that a program loads before all others."""
    library = references.folder / f"{name}.so"
    if not library.exists():
        if shutil.which("cc") is None:
            raise Skipped(f"no C compiler for {name}")
        made = library.with_name(f"{name}.{os.getpid()}.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, Path(__file__).with_name(f"{name}.c")], check=True)
        made.rename(library)
    return library


def slow_disk(tools, references, fault, out):
    """Flushing takes 50 to 300 ms, so that checkpoints queue up; of two trainings one is killed then."""
    library, flush = loaded_before(references, "slow_disk"), 50 + fault.seed % 251
    before = ["env", f"LD_PRELOAD={library}", f"MILLRACE_TEST_FLUSH_MS={flush}"]
    flags = ["--ranks", str(fault.ranks), "--max-restarts", "3"]  # nobody is silent who waits for a disk
    with Launched(tools, flags, references.training(fault, out, "--deadline", "60s"), before) as job:
        struck = await_moment(job, fault, out)
        if struck and fault.seed % 2 == 0:
            struck = signal_some(job, fault, signal.SIGKILL) is not None
        before = newest(out)
        end = end_of(job, (0,))
        restarts = job.records[-1]["restarts"]
    require(newest(out) >= before, f"the newest checkpoint is of step {newest(out)}, there was one of step {before}")
    check_whole(references, fault, out)
    return {"struck": struck, "status": end.status, "restarts": restarts, "flush_milliseconds": flush}


def xrt_device(number, statuses):
    """What happens to a process of XRT's emulation, which stands for a board."""

    def fault_of(tools, references, fault, out):
        if missing := emulation_missing(tools):
            raise Skipped(f"XRT emulation: {missing}")
        fault = Fault(**{**asdict(fault), "task": "xrt", "ranks": 1 + fault.ranks % 2, "step": min(fault.step, TASKS_APART["xrt"].steps - 6)})
        references.of(fault)
        before_all = set(Path("/tmp").glob("millrace-xrt-*"))
        with started(tools, references, fault, out) as job:
            struck = await_moment(job, fault, out)
            devices = [pid for pid in processes_with(job.word) if name_of(pid) == "genericpciemode"]
            if struck and devices:
                os.kill(devices[fault.seed % len(devices)], number)
            struck = struck and bool(devices)
            before = newest(out)
            end = end_of(job, statuses if struck else (0,))
            restarts = job.records[-1]["restarts"]
            if end.status != 0:
                job.require_said("was killed by signal")
        if end.status != 0:
            go_on(tools, references, fault, out, before)
        else:
            check_whole(references, fault, out)
        deadline = time.monotonic() + 60  # a session removes its folder a moment after its program
        while set(Path("/tmp").glob("millrace-xrt-*")) - before_all and time.monotonic() < deadline:
            time.sleep(0.1)
        return {"struck": struck, "status": end.status, "restarts": restarts}

    return fault_of


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def emulation_missing(tools):
    report = json.loads(subprocess.run([tools.millrace, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    finding = next(finding for finding in report["findings"] if finding["name"] == "XRT emulation")
    return None if finding["present"] else finding["detail"]


def clock_jumps(tools, references, fault, out):
    """Ahead by a day and back by two in the middle, for the launcher, mpirun and all ranks."""
    library = loaded_before(references, "clock_jump")
    with started(tools, references, fault, out, before=["env", f"LD_PRELOAD={library}"]) as job:
        struck = await_moment(job, fault, out) and signal_some(job, fault, signal.SIGKILL) is not None
        end = end_of(job, (0,))
        summary = job.records[-1]
    require(all(0 <= attempt["lost_seconds"] <= attempt["seconds"] for attempt in summary["attempts"]), f"{summary}")
    check_whole(references, fault, out)
    return {"struck": struck, "status": end.status}


def on_two_hosts(act):
    def fault_of(tools, references, fault, out):
        if task_of(fault.task).least_ranks > 1 or fault.task == "homes":
            fault = Fault(**{**asdict(fault), "task": "cnn"})
        references.of(fault)
        scratch = out.parent / f"{out.name}_hosts"
        scratch.mkdir()
        lab = Hosts(type(tools)(tools.mpirun, tools.millrace, scratch))
        with lab as hosts:
            if not hosts.allowed:
                raise Skipped("network namespaces are not permitted")
            listed = scratch / "listed"
            half = task_of(fault.task).devices // 2
            listed.write_text(f"10.91.7.1 slots={half}\n10.91.7.2 slots={half}\n")
            mca = " ".join(f"--mca {name} {value}" for name, value in SETTINGS.items() if name.startswith(("btl", "oob_tcp_if")))
            flags = ["--hosts", str(listed), "--agent", f"{SCRIPT} agent {hosts.folder}", "--mpi", mca]
            training = references.training(fault, out, "--deadline", "20s")
            with Launched(tools, [*flags, "--max-restarts", "3"], training, [str(SCRIPT), "run", str(hosts.folder)]) as job:
                struck = await_moment(job, fault, out)
                if struck:
                    act(hosts)
                end = end_of(job, (0,))
                restarts = job.records[-1]["restarts"]
        check_whole(references, fault, out)
        return {"struck": struck, "status": end.status, "restarts": restarts}

    return fault_of


def cut_and_heal(hosts):
    hosts.tell("cut")
    time.sleep(2)
    hosts.tell("heal")


def slow_link(hosts):
    pid = (hosts.folder / "host2.pid").read_text().strip()
    made = subprocess.run(["nsenter", "--target", pid, "--net", "--", "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst",
                           "20kb", "latency", "50ms"], check=False, capture_output=True)
    if made.returncode != 0:
        raise Skipped("this kernel has no tbf to slow a link down")


def lossy_link(hosts):
    pid = (hosts.folder / "host2.pid").read_text().strip()
    made = subprocess.run(["nsenter", "--target", pid, "--net", "--", "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "loss", "3%"],
                          check=False, capture_output=True)
    if made.returncode != 0:
        raise Skipped("this kernel has no netem to lose packets with")


KINDS = {
    **faults.KINDS,
    "clock jumps": clock_jumps,
    "link cut and healed": on_two_hosts(cut_and_heal),
    "link slow": on_two_hosts(slow_link),
    "packets lost": on_two_hosts(lossy_link),
    "slow disk": slow_disk,
    "XRT device killed": xrt_device(signal.SIGKILL, AGAIN),
    "XRT device silent": xrt_device(signal.SIGSTOP, AGAIN),
}
