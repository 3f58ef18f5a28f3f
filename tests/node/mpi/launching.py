"""millrace launch: ranks are killed, stopped and told to stop, hosts go and come back, and the training ends as if nothing had happened."""

import json
import os
import signal
import time

from link_cut import SCRIPT, Hosts
from ring_job import RingJob, environment_of, processes_with, require, run
from run_folder import checkpoints_of, history_of, require_same_folder

STEPS = 40
LONG = 600  # steps of what is changed on its way, so that the change is noticed before the end on fast machines, too
TRAINING = ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", "cpux4", "--alignment", "fpdeep", "--mini-batch", "192",
            "--micro-batch", "32", "--log-every", "1", "--json", "--steps", str(STEPS), "--checkpoint-every", "6", "--keep", "1000"]


class Launched(RingJob):
    """Its process is the launcher; ranks change from attempt to attempt."""

    def __init__(self, tools, flags, training, before=()):
        super().__init__(tools, 0, ["launch", "--pause", "0.1s", "--mpirun", tools.mpirun, *flags, "--", *training], list(before))

    def ranks_now(self):
        found = {}
        for pid in processes_with(self.word):
            for entry in environment_of(pid):
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(entry.split(b"=")[1])] = pid
        return found

    def strike(self, rank, number, within=300):
        deadline = time.monotonic() + within
        while True:
            pid = self.ranks_now().get(rank)
            if pid is not None:
                try:
                    return os.kill(pid, number)
                except ProcessLookupError:
                    pass
            require(time.monotonic() < deadline, f"no rank {rank} to be struck:\n{self.output()}")
            time.sleep(0.02)

    def wait_for_records(self, count, step):
        """Until steps from `step` on have been told of `count` times, each in another attempt."""
        seen = lambda: sum(record.get("event") == "step" and record.get("step") == step for record in self.records)
        require(self.wait_until(lambda: seen() >= count, f"step {step}, {count} times"), f"ended before step {step}:\n{self.output()}")

    def summary(self):
        return self.last_record("launch")


def undisturbed(tools):
    folder = tools.scratch / "undisturbed"
    if not folder.exists():
        run(tools, 0, [*TRAINING, "--log-samples", "--out", str(folder)])
    return folder


def digest_in(folder):
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["weights_digest"]


def require_as_undisturbed(tools, out, history=True):
    whole = undisturbed(tools)
    require(digest_in(out) == digest_in(whole), f"weights {digest_in(out)}, undisturbed {digest_in(whole)}")
    require(sorted(checkpoints_of(out))[-1] == STEPS, f"checkpoints {sorted(checkpoints_of(out))}")
    require_same_folder(checkpoints_of(out)[STEPS], checkpoints_of(whole)[STEPS])
    other = [pair for pair in zip(history_of(out), history_of(whole)) if pair[0] != pair[1]]
    require(not history or history_of(out) == history_of(whole), f"metrics.jsonl of {out} tells another history: {other[:3]}")


def samples_of(folder):
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def launch_restarts(tools):
    """Two ranks killed one after the other: two restarts, and the weights, checkpoints and records of the undisturbed run."""
    out = tools.scratch / "run"
    with Launched(tools, ["--ranks", "3"], [*TRAINING, "--log-samples", "--out", str(out)]) as job:
        job.wait_for_step(9)
        job.strike(1, signal.SIGKILL)
        job.wait_for_step(20)
        job.strike(0, signal.SIGKILL)
        job.finish()
        summary = job.summary()
        statuses = [attempt["status"] for attempt in summary["attempts"]]
        require(summary["restarts"] == 2 and summary["status"] == 0 and statuses == [137, 137, 0], f"{summary}")
        require([attempt["from_step"] for attempt in summary["attempts"]][0] == 0, f"{summary}")
        require(summary["lost_steps"] == sum(max(0, a["last_step"] - a["checkpoint_step"]) for a in summary["attempts"][:2]), f"{summary}")
    require_as_undisturbed(tools, out)
    require(samples_of(out) == samples_of(undisturbed(tools)), "the log of samples is another one than the undisturbed run's")


def launch_gives_up(tools):
    """More failures than allowed: the last one's status, and the checkpoints stay. Bad input is not tried again."""
    out = tools.scratch / "given_up"
    with Launched(tools, ["--ranks", "2", "--max-restarts", "1"], [*TRAINING, "--out", str(out)]) as job:
        job.wait_for_step(7)
        job.strike(1, signal.SIGKILL)
        job.wait_for_step(14)
        job.strike(0, signal.SIGKILL)
        job.finish(status=137)
        summary = job.summary()
        require(summary["reason"].startswith("gives up after 1 restart") and len(summary["attempts"]) == 2, f"{summary}")
    with Launched(tools, ["--ranks", "2"], [*TRAINING, "--out", str(out)]) as job:
        job.finish(status=2)
        job.require_said("already holds a run", times=1)
        require(len(job.summary()["attempts"]) == 1, f"{job.summary()}")
    with Launched(tools, ["--ranks", "2", "--continue"], [*TRAINING, "--out", str(out)]) as job:
        job.finish()
    require_as_undisturbed(tools, out)


def launch_stops(tools):
    """SIGTERM to the launcher leaves the ranks the time for a checkpoint; --continue goes on from it."""
    out = tools.scratch / "stopped"
    endless = [word if word != str(STEPS) else "1000000" for word in TRAINING]
    with Launched(tools, ["--ranks", "3"], [*endless, "--out", str(out)]) as job:
        job.wait_for_step(5)
        job.process.send_signal(signal.SIGTERM)
        job.finish(status=4)
        done = job.last_record("done")
        require(done["reason"] == "signal" and max(checkpoints_of(out)) == done["step"], f"{done}, checkpoints {sorted(checkpoints_of(out))}")
        require(len(job.summary()["attempts"]) == 1 and job.summary()["status"] == 4, f"{job.summary()}")
    further = [word if word != str(STEPS) else str(done["step"] + 3) for word in TRAINING]
    with Launched(tools, ["--ranks", "2", "--continue"], [*further, "--out", str(out)]) as job:
        job.finish()
        job.require_said(f"resumed at step {done['step']} ", times=1)


def launch_unsticks(tools):
    """A single process that is stopped has no neighbour to notice: the launcher does, and starts it again."""
    out = tools.scratch / "stuck"
    with Launched(tools, ["--ranks", "1", "--stalled-after", "4s"], [*TRAINING, "--out", str(out)]) as job:
        job.wait_for_step(9)
        for pid in processes_with(job.word):
            if b"train" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0") and pid != job.process.pid:
                os.kill(pid, signal.SIGSTOP)
        job.finish()
        job.require_said("has had no record for")
        statuses = [attempt["status"] for attempt in job.summary()["attempts"]]
        require(statuses == [75, 0], f"{job.summary()}")
    require_as_undisturbed(tools, out, history=False)  # it is evaluated once more where it was ended


def launch_plans_again(tools):
    """Fewer devices in the middle, all of them again later: the same mini-batch, alignment and samples, one after the other."""
    out, hosts = tools.scratch / "elastic", tools.scratch / "hosts"
    longer = [word if word != str(STEPS) else str(LONG) for word in TRAINING]
    hosts.write_text("localhost slots=4\n")
    with Launched(tools, ["--hosts", str(hosts), "--min-devices", "2", "--look-every", "0.2s"], [*longer, "--log-samples", "--out", str(out)]) as job:
        job.wait_for_step(20)
        hosts.write_text("localhost slots=3  # one is gone\n")
        job.wait_until(lambda: len(job.lines_with("planned again: 3 devices")) > 0, "a plan for 3 devices")
        reached = max(record["step"] for record in job.records if record.get("event") == "step")
        job.wait_for_step(reached + 20)
        job.strike(1, signal.SIGKILL)
        job.wait_for_step(reached + 40)
        hosts.write_text("localhost slots=4\n")
        job.finish()
        summary = job.summary()
        devices = [attempt["devices"] for attempt in summary["attempts"]]
        require(devices == [4, 3, 3, 4] and summary["replans"] == 2 and summary["restarts"] == 1, f"{summary}\n{job.output()}")
        job.require_said("images/s (modelled)", times=2)
        job.require_said("training goes on from the checkpoint's weights", times=2)
    whole = tools.scratch / "elastic_undisturbed"
    run(tools, 0, [*longer, "--log-samples", "--out", str(whole)])
    mine, theirs = samples_of(out), samples_of(whole)
    require(mine == theirs, "committed updates have other samples than those of the undisturbed run")
    require([line["step"] for line in mine] == list(range(1, LONG + 1)), "an update is missing or there twice")
    epoch = [sample for line in mine[7:14] for sample in line["samples"]]  # the second: 7 updates of 192
    require(len(set(epoch)) == len(epoch), "a sample is twice in an epoch")
    plan = (out / "plan.textproto").read_text()
    require("mini_batch: 192" in plan and "micro_batch: 32" in plan, plan[:400])


def launch_loses_a_host(tools):
    """A host is cut off in the middle: on with the devices of the other; it is back later, and so are its devices."""
    with Hosts(tools) as hosts:
        if not hosts.allowed:
            return False
        out, listed = tools.scratch / "lost", tools.scratch / "listed"
        listed.write_text("10.91.7.1 slots=2\n10.91.7.2 slots=2\n")
        longer = [word if word != str(STEPS) else "600" for word in TRAINING]
        longer[longer.index("--checkpoint-every") + 1] = "20"
        longer[longer.index("--keep") + 1] = "3"
        before = [str(SCRIPT), "run", str(hosts.folder)]
        flags = ["--hosts", str(listed), "--min-devices", "2", "--look-every", "0.5s", *hosts.words_for_launch()]
        with Launched(tools, flags, [*longer, "--log-samples", "--deadline", "8s", "--out", str(out)], before) as job:
            job.wait_for_step(30)
            hosts.tell("cut")
            job.wait_until(lambda: len(job.lines_with("planned again: 2 devices on 1 host")) > 0, "a plan for one host")
            reached = max(record["step"] for record in job.records if record.get("event") == "step")
            job.wait_for_step(reached + 20)
            hosts.tell("heal")
            job.wait_until(lambda: len(job.lines_with("planned again: 4 devices on 2 hosts")) > 0, "a plan for both hosts")
            job.finish()
            devices = [attempt["devices"] for attempt in job.summary()["attempts"]]
            require(devices[0] == 4 and 2 in devices and devices[-1] == 4, f"{job.summary()}")
            print(json.dumps(job.summary()), flush=True)
        require([line["step"] for line in samples_of(out)] == list(range(1, 601)), "an update is missing or there twice")
    return True
