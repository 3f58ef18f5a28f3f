"""Rings of FPGAs behind XRT's software emulation: the millrace command under mpirun, held against the functional model.

    xrt_ring.py --mpirun mpirun --millrace bin/millrace same_weights     20 updates on 4 ranks: the same files, byte by byte
    xrt_ring.py --millrace bin/millrace device_killed                    one rank's device dies: every rank ends and says why
    xrt_ring.py --millrace bin/millrace no_session                       a build without XRT says so
    xrt_ring.py --millrace bin/millrace rtl_weights      the same with simulated RTL behind one of two ranks: builds engines first,
                                                         minutes where $MILLRACE_COSIM_CACHE has none
    xrt_ring.py --millrace bin/millrace measure [--json FILE]            images per second beside the functional model's

Exit status 0 all promises kept, 1 not, 77 this machine or build has no XRT emulation.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
RANKS = 4
# Two convolutions, the second over all devices, and a dense layer.
MODEL = """version: 1
name: "small-cnn"
input { channels: 1 height: 8 width: 8 }
layers { name: "conv1" conv2d { out_channels: 8 kernel: 3 pad: 1 } }
layers { name: "relu1" relu {} }
layers { name: "pool1" max_pool { kernel: 2 stride: 2 } }
layers { name: "conv2" conv2d { out_channels: 16 kernel: 3 pad: 1 } }
layers { name: "relu2" relu {} }
layers { name: "flatten" flatten {} }
layers { name: "fc" dense { out_features: 10 } }
layers { name: "loss" softmax_cross_entropy {} }
"""


# Few multipliers: for simulated RTL.
TINY = MODEL.replace("out_channels: 8 ", "out_channels: 4 ").replace("out_channels: 16", "out_channels: 4").replace("small", "tiny")


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def emulation_missing(tools):
    """Why XRT's emulation cannot be tried here, or None."""
    report = json.loads(subprocess.run([tools.millrace, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    finding = next(finding for finding in report["findings"] if finding["name"] == "XRT emulation")
    return None if finding["present"] else finding["detail"]


def train(tools, folder, kind, steps=20, ranks=RANKS, model="small.textproto", more=()):
    """The run's folder and the process, started."""
    (folder / "small.textproto").write_text(MODEL)
    command = [tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), tools.millrace, "train", "--model", model,
               "--data", "digits", "--cluster", f"{kind}x{RANKS}", "--steps", str(steps), "--mini-batch", "16", "--micro-batch", "16",
               "--seed", "3", "--out", kind, "--json", *more]
    return folder / kind, subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process, seconds=200):
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise Failure(f"still running after {seconds} s: {errors[-2000:]}")
    return output, errors


def done_event(output):
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return next(event for event in events if event["event"] == "done")


def checkpoint_of(run):
    """{file: digest} of the newest checkpoint's tensors."""
    newest = sorted((run / "checkpoints").iterdir())[-1]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(newest.glob("*.safetensors"))}


def same_weights(tools, folder):
    found = {}
    for kind in ("emulated-fpga", "xrt-emulated-fpga"):
        run, process = train(tools, folder, kind)
        output, errors = finished(process)
        expect(process.returncode == 0, f"{kind}: status {process.returncode}: {errors[-2000:]}")
        expect(done_event(output)["step"] == 20, f"{kind}: {output[-500:]}")
        found[kind] = checkpoint_of(run)
        print(kind, found[kind])
    expect(len(found["emulated-fpga"]) == 2, "weights and the optimizer's slots are two files")
    expect(found["emulated-fpga"] == found["xrt-emulated-fpga"], "XRT's emulation and the functional model trained different weights")


def rtl_weights(tools, folder):
    (folder / "tiny.textproto").write_text(TINY)
    found = {}
    for cluster in ("emulated-fpgax2", "xrt-emulated-fpga+xrt-cosim"):
        run = folder / cluster
        started = time.monotonic()
        result = subprocess.run([tools.mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", tools.millrace, "train", "--model", "tiny.textproto",
                                 "--data", "digits", "--cluster", cluster, "--steps", "20", "--mini-batch", "4", "--micro-batch", "4", "--seed", "3",
                                 "--evaluate-every", "0", "--out", cluster, "--json"], cwd=folder, capture_output=True, text=True, check=False, timeout=1800)
        expect(result.returncode == 0, f"{cluster}: status {result.returncode}: {result.stderr[-2000:]}")
        found[cluster] = checkpoint_of(run)
        print(f"{cluster}: {time.monotonic() - started:.0f} s with building, {done_event(result.stdout)['seconds']:.1f} s of training", found[cluster])
    expect(len(set(map(str, found.values()))) == 1, "simulated RTL and the functional model trained different weights")


def processes_of(name, ancestor):
    """Numbers of the processes of a name below `ancestor`."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        names[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
        parents[int(entry.name)] = int(text[text.rindex(")") + 2 :].split()[1])

    def below(number):
        while number in parents and number > 1:
            number = parents[number]
            if number == ancestor:
                return True
        return False

    return [number for number, found in names.items() if found == name and below(number)]


def device_killed(tools, folder):
    before = set(Path("/tmp").glob("millrace-xrt-*"))
    run, process = train(tools, folder, "xrt-emulated-fpga", steps=100000)
    deadline = time.monotonic() + 180
    while not (run / "metrics.jsonl").exists() or "step" not in (run / "metrics.jsonl").read_text():
        if process.poll() is not None:
            raise Failure(f"it ended by itself: {finished(process)[1][-2000:]}")
        if time.monotonic() > deadline:
            process.terminate()
            raise Failure("no update within three minutes")
        time.sleep(0.05)
    devices = processes_of("genericpciemode", process.pid)
    if len(devices) != RANKS:
        process.terminate()
        raise Failure(f"{len(devices)} device processes of {RANKS} ranks")
    killed_at = time.monotonic()
    os.kill(devices[2], signal.SIGKILL)
    _, errors = finished(process, 180)
    print(f"ended {time.monotonic() - killed_at:.1f} s after the device was killed")
    expect(process.returncode == 75, f"a ring that lost a device ended with status {process.returncode}, which `launch` takes as final")
    wanted = f"the emulated device's process {devices[2]} was killed by signal 9"
    expect(wanted in errors, f"\"{wanted}\" is not said: {errors[-3000:]}")
    gone = time.monotonic() + 60
    while set(Path("/tmp").glob("millrace-xrt-*")) - before and time.monotonic() < gone:
        time.sleep(0.1)
    left = set(Path("/tmp").glob("millrace-xrt-*")) - before
    expect(not left, f"left behind: {left}")


def no_session(tools, folder):
    # The command alone in a folder: nothing of XRT lies beside it.
    alone = folder / "bin"
    alone.mkdir()
    shutil.copy(tools.millrace, alone / "millrace")
    result = subprocess.run([alone / "millrace", "train", "--model", "digits-cnn", "--data", "digits", "--cluster", "xrt-emulated-fpga", "--steps", "1"],
                            cwd=folder, capture_output=True, text=True, check=False, timeout=200)
    expect(result.returncode == 1, f"status {result.returncode}: {result.stderr}")
    expect("this build does not drive FPGAs through XRT" in result.stderr and "libxrt-dev" in result.stderr, result.stderr)
    result = subprocess.run([alone / "millrace", "train", "--model", "digits-cnn", "--data", "digits", "--cluster", "xrt-fpga", "--steps", "1"],
                            cwd=folder, capture_output=True, text=True, check=False, timeout=200,
                            env={name: text for name, text in os.environ.items() if name != "MILLRACE_XCLBIN"})
    expect(result.returncode == 2 and "MILLRACE_XCLBIN" in result.stderr, result.stderr)


def measure(tools, folder, path):
    """Both kinds in turn, three times: one device and four, the small network and digits-cnn."""
    rows = []
    for model in ("small.textproto", "digits-cnn"):
        for ranks in (1, RANKS):
            rates = {"emulated-fpga": [], "xrt-emulated-fpga": []}
            for attempt in range(3):
                for kind in rates:
                    place = folder / f"{model}-{ranks}-{attempt}"
                    place.mkdir(exist_ok=True)
                    _, process = train(tools, place, kind, ranks=ranks, model=model)
                    output, errors = finished(process)
                    expect(process.returncode == 0, errors[-2000:])
                    rates[kind].append(done_event(output)["images_per_second"])
            best = {kind: max(values) for kind, values in rates.items()}
            rows.append({"model": model.removesuffix(".textproto"), "devices": RANKS, "ranks": ranks, "images_per_second": rates,
                         "slower_by": best["emulated-fpga"] / best["xrt-emulated-fpga"]})
            print(f"{model} on {ranks} ranks: functional model {best['emulated-fpga']:.0f}/s, through XRT {best['xrt-emulated-fpga']:.0f}/s")
    result = {"origin": "measured", "what": "4 emulated devices, mini-batch and micro-batch 16, 20 updates, best of 3",
              "processors": os.cpu_count(), "load_average": os.getloadavg(), "rows": rows}
    if path:
        Path(path).write_text(json.dumps(result, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["same_weights", "device_killed", "no_session", "rtl_weights", "measure"])
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--json", help="where measure writes what it found")
    arguments = parser.parse_args()
    arguments.millrace = str(Path(arguments.millrace).resolve())
    if arguments.case != "no_session" and (missing := emulation_missing(arguments)):
        print(f"skipped: XRT emulation: {missing}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        try:
            if arguments.case == "measure":
                measure(arguments, Path(name), arguments.json)
            else:
                {"same_weights": same_weights, "device_killed": device_killed, "no_session": no_session,
                 "rtl_weights": rtl_weights}[arguments.case](arguments, Path(name))
        except Failure as failure:
            print(f"{arguments.case}: {failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
