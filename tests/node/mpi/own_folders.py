"""Hosts without a common file system: what a job names comes from the first host, where checkpoints go, and a resumed training begins there."""

import random
import signal
import struct

from launching import Launched, digest_in
from link_cut import SCRIPT, Hosts
from ring_job import require, run
from run_folder import checkpoints_of, require_same_folder

STEPS = 40
MODEL = """version: 1
name: "own"
input { channels: 1 height: 8 width: 8 }
layers { name: "conv" conv2d { out_channels: 8 kernel: 3 pad: 1 } }
layers { name: "relu" relu {} }
layers { name: "flatten" flatten {} }
layers { name: "fc1" dense { out_features: 32 } }
layers { name: "relu1" relu {} }
layers { name: "fc2" dense { out_features: 10 } }
layers { name: "loss" softmax_cross_entropy {} }
"""
CLUSTER = "version: 1\n" + "".join(f'devices {{ device: "cpu" host: "10.91.7.{host}" }}\n' for host in (1, 1, 2, 2))
JOB = """model: "own.textproto"
cluster: "ring.textproto"
data: "idx:pictures"
alignment: FPDEEP
mini_batch: 96
micro_batch: 16
checkpoint_every: 6
"""


def write_idx(folder, name, count, chance):
    """Pictures of 8x8 whose bright row or column is their class."""
    pictures, labels = bytearray(), bytearray()
    for _ in range(count):
        label = chance.randrange(10)
        picture = bytearray(chance.randrange(60) for _ in range(64))
        for i in range(8):
            picture[8 * (label % 8) + i if label < 8 else 8 * i + label % 8] = 255
        pictures += picture
        labels.append(label)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 8, 8) + pictures)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def write_job(work):
    """Everything that a training names, in one folder; returns its words."""
    (work / "pictures").mkdir(parents=True)
    chance = random.Random(7)
    write_idx(work / "pictures", "train", 960, chance)
    write_idx(work / "pictures", "t10k", 96, chance)
    for name, text in (("own.textproto", MODEL), ("ring.textproto", CLUSTER), ("job.textproto", JOB)):
        (work / name).write_text(text)
    return ["train", "--job", str(work / "job.textproto"), "--steps", str(STEPS), "--keep", "1000", "--log-every", "1", "--json"]


def strike_and_compare(tools, hosts, work, name, more):
    """A launch over both hosts whose rank 3, on the second, is killed: as undisturbed on one host."""
    training = [*write_job(work), *more]
    whole, out = tools.scratch / f"{name}_undisturbed", work / "run"
    run(tools, 4 if "--replicas" in more else 0, [*training, "--out", str(whole)])
    hosts.tell("own", work)
    copies, listed = tools.scratch / f"{name}_copies", tools.scratch / "listed"
    copies.mkdir()
    listed.write_text("10.91.7.1 slots=2\n10.91.7.2 slots=2\n")
    with Launched(tools, ["--hosts", str(listed), *hosts.words_for_launch()], [*training, "--deadline", "20s", "--out", str(out)],
                  ["env", f"TMPDIR={copies}", str(SCRIPT), "run", str(hosts.folder)]) as job:
        job.wait_for_step(15)
        require(len(job.ranks_now()) == 4, f"ranks {sorted(job.ranks_now())}")
        job.strike(3, signal.SIGKILL)
        job.finish()
        statuses = [attempt["status"] for attempt in job.summary()["attempts"]]
        require(statuses == [137, 0], f"{job.summary()}\n{job.output()}")
        for what in ("own.textproto", "pictures", "checkpoints"):
            require(any("are sent" in line and what in line for line in job.said), f"nothing was said of {what} being sent:\n{job.output()}")
    require(digest_in(out) == digest_in(whole), f"weights {digest_in(out)}, undisturbed {digest_in(whole)}")
    require_same_folder(checkpoints_of(out)[STEPS], checkpoints_of(whole)[STEPS])
    require(not list(copies.iterdir()), f"copies are left: {list(copies.iterdir())}")


def own_folders(tools):
    """The second host sees an empty folder where the first has job, model, cluster, data and run. False: no namespaces here."""
    with Hosts(tools) as hosts:
        if not hosts.allowed:
            return False
        strike_and_compare(tools, hosts, tools.scratch / "ring", "ring", [])
        strike_and_compare(tools, hosts, tools.scratch / "replicas", "replicas", ["--cluster", "cpux2", "--replicas", "2", "--mini-batch", "96"])
        written = [entry.name for entry in (hosts.folder / "host2.files").rglob("*") if entry.name in ("run", "checkpoints")]
        require(not written, f"on the second host: {written}")
    return True


def mixed_hosts(tools):
    """Cores on the first host and emulated boards on the second in one ring: the weights of one process. False: no namespaces here."""
    cluster = tools.scratch / "mixed.textproto"
    cluster.write_text("version: 1\n" + "".join(f'devices {{ device: "{kind}" host: "10.91.7.{host}" }}\n'
                                               for host, kind in ((1, "cpu"), (1, "cpu"), (2, "emulated-fpga"), (2, "emulated-fpga"))))
    training = ["train", "--model", "digits-cnn", "--data", "digits", "--cluster", str(cluster), "--alignment", "flush", "--mini-batch", "32",
                "--steps", "8", "--evaluate-every", "0", "--log-every", "1", "--json"]
    run(tools, 0, [*training, "--out", str(tools.scratch / "alone")])
    with Hosts(tools) as hosts:
        if not hosts.allowed:
            return False
        listed, out = tools.scratch / "listed", tools.scratch / "mixed"
        listed.write_text("10.91.7.1 slots=2\n10.91.7.2 slots=2\n")
        with Launched(tools, ["--hosts", str(listed), *hosts.words_for_launch()], [*training, "--out", str(out)],
                      [str(SCRIPT), "run", str(hosts.folder)]) as job:
            job.finish()
            require(job.summary()["attempts"][0]["hosts"] == 2 and job.summary()["attempts"][0]["ranks"] == 4, f"{job.summary()}")
    require(digest_in(out) == digest_in(tools.scratch / "alone"), f"weights {digest_in(out)}, of one process {digest_in(tools.scratch / 'alone')}")
    return True
