"""A link cut for good between two hosts: either side ends in time by itself, and the resumed training knows nothing of it."""

import os
import shlex
import subprocess
import time
from pathlib import Path

from killing import STEPS, training
from ring_job import RingJob, environment_of, processes_with, require, run
from run_folder import checkpoints_of, history_of, require_part_of, require_same_folder

SCRIPT = Path(__file__).with_name("hosts.sh")
RANKS = 4
# Open MPI's daemons notice the cut after 5 s with the settings below. Deadlines should be longer: a message that mpirun sends to the
# lost daemon before it has noticed, to end the job, keeps it waiting for minutes.
DEADLINE = 8
ENDED_WITHIN = 300  # a machine that stands still for minutes included
LOST = 205  # what mpirun itself ends with then
SETTINGS = {"plm": "rsh", "btl": "tcp,vader,self", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "odls_base_num_threads": "0",
            "oob_tcp_keepalive_time": "2", "oob_tcp_keepalive_intvl": "1", "oob_tcp_keepalive_probes": "3"}


class Hosts:
    def __init__(self, tools, number=2):
        self.tools, self.number = tools, number
        self.folder = tools.scratch / "hosts"

    def __enter__(self):
        self.allowed = os.geteuid() == 0 and subprocess.run([SCRIPT, "up", self.folder, str(self.number)], check=False).returncode == 0
        if self.allowed:
            self.agent = self.folder / "agent"
            self.agent.write_text(f"#!/bin/sh\nexec {shlex.quote(str(SCRIPT))} agent {shlex.quote(str(self.folder))} \"$@\"\n")
            self.agent.chmod(0o755)
        return self

    def __exit__(self, *_):
        if self.folder.exists():
            subprocess.run([SCRIPT, "down", self.folder], check=True)

    def tell(self, word, *more):
        subprocess.run([SCRIPT, word, self.folder, *map(str, more)], check=True)

    def agent_by_network(self):
        """As ssh does: by the network, or not at all. A host that can be reached refuses at once."""
        agent = self.folder / "by_network"
        agent.write_text(f'#!/bin/bash\ntimeout 1 bash -c "exec 3<>/dev/tcp/$1/1" 2>/dev/null\n[ $? -ne 124 ] || exit 255\n'
                         f'exec {SCRIPT} agent {self.folder} "$@"\n')
        agent.chmod(0o755)
        return agent

    def words_for_launch(self):
        """Behind `millrace launch --hosts FILE`."""
        mca = " ".join(f"--mca {name} {value}" for name, value in SETTINGS.items() if name.startswith(("btl", "oob_tcp_if")))
        return ["--agent", str(self.agent_by_network()), "--mpi", mca]

    def launch(self):
        settings = [word for name, value in {**SETTINGS, "plm_rsh_agent": str(self.agent)}.items() for word in ("--mca", name, value)]
        hosts = f"10.91.7.1:{RANKS // 2},10.91.7.2:{RANKS - RANKS // 2}"
        return [str(SCRIPT), "run", str(self.folder), self.tools.mpirun, "--host", hosts, "-n", str(RANKS), "--oversubscribe", "--bind-to",
                "none", *settings]


def ranks_of(job):
    """Those still there: rank -> process."""
    found = {}
    for pid in processes_with(job.word):
        for entry in environment_of(pid):
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(entry.split(b"=")[1])] = pid
    return found


def link_is_cut(tools):
    """False when this machine does not permit namespaces."""
    with Hosts(tools) as hosts:
        if not hosts.allowed:
            return False
        reference, out = tools.scratch / "reference", tools.scratch / "run"
        whole = run(tools, 0, training("digits", "fpdeep", reference, "--checkpoint-every", "1", "--keep", "1000")).last_record("done")
        with RingJob(tools, RANKS, training("digits", "fpdeep", out, "--checkpoint-every", "3", "--deadline", f"{DEADLINE}s"), hosts.launch()) as job:
            job.wait_for_step(10)
            require(len(ranks_of(job)) == RANKS, f"ranks {sorted(ranks_of(job))} were found")
            hosts.tell("cut")
            cut = time.monotonic()
            gone = {}
            while len(gone) < RANKS and time.monotonic() < cut + ENDED_WITHIN:
                there = ranks_of(job)
                for rank in range(RANKS):
                    if rank not in there:
                        gone.setdefault(rank, round(time.monotonic() - cut, 1))
                time.sleep(0.1)
            end = job.end(ENDED_WITHIN, since=cut)
            print(f"seconds from the cut to the end of each rank: {gone}; of mpirun: {end.seconds:.1f}, status {end.status}", flush=True)
            require(len(gone) == RANKS and not end.failures, f"{end.failures}, ended: {gone}\n{job.output()}")
            require(end.status == LOST, f"status {end.status}, expected {LOST}\n{job.output()}")
            job.require_said("lost communication")
            job.require_said("waiting for")
        require_part_of(out, reference)
        newest = max(checkpoints_of(out))
        hosts.tell("heal")
        with RingJob(tools, RANKS, ["train", "--resume", str(out), "--log-every", "1", "--json", "--deadline", "30s"], hosts.launch()) as job:
            job.finish()
            job.require_said(f"resumed at step {newest} ", times=1)
            digest = job.last_record("done")["weights_digest"]
        require(digest == whole["weights_digest"], f"weights {digest}, uninterrupted {whole['weights_digest']}")
        require_same_folder(checkpoints_of(out)[STEPS], checkpoints_of(reference)[STEPS])
        require(history_of(out) == history_of(reference), "metrics.jsonl tells another history than that of the uninterrupted run")
        print(f"resumed at step {newest}: bitwise as if never cut", flush=True)
    return True
