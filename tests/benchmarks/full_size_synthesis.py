#!/usr/bin/env python3
"""Whole devices of large networks through Verilator's lint and Yosys: slices and blocks beside what `rtl` counts.

    tests/benchmarks/full_size_synthesis.py [--millrace build/release/bin/millrace] [--only vgg16]
        [--out tests/benchmarks/results/full_size_synthesis.json]

One device each of alexnet, vgg16 and resnet18, as planned, with at least 900 multipliers a phase. Yosys keeps the hierarchy, so that what is
alike is synthesised once and counted as often as it is there; DSP slices and blocks are there before logic is mapped to LUTs, which is
left out. Memories of UltraRAM are asked for as such. Counts are Yosys's and the resource model's, nothing is placed. Each command is limited
in time and memory. Standard library alone.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LEAST = 900  # multipliers of FP
MEMORY = 8 << 30
CASES = (("vgg16", "vc709x15", [], "xc7"), ("alexnet", "vc709x15", [], "xc7"), ("resnet18", "u280x8", ["--batch-norm", "running"], "xcup"))


def run(command, seconds, folder=None):
    started = time.monotonic()
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=folder, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return None, f"took more than {seconds} s", time.monotonic() - started
    return done, "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-300:], time.monotonic() - started


def cells(statistics):
    """Of the whole design, which Yosys tells last."""
    counts = {}
    for name, count in re.findall(r"^\s+(\w+)\s+(\d+)$", statistics[statistics.rindex("=== design hierarchy ==="):], re.M):
        counts[name] = counts.get(name, 0) + int(count)
    blocks = {kind: sum(count for name, count in counts.items() if name.startswith(kind)) for kind in ("DSP48E", "RAMB18E", "RAMB36E", "URAM288")}
    return {"dsp": blocks["DSP48E"], "bram36": blocks["RAMB36E"] + blocks["RAMB18E"] / 2, "uram": blocks["URAM288"]}


def of_device(millrace, model, cluster, more, family, seconds):
    row = {"model": model, "cluster": cluster}
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        plan = str(folder / "plan.textproto")
        done, why, _ = run([millrace, "plan", "--model", model, "--cluster", cluster, *more, "--out", plan], seconds)
        if why:
            return {**row, "reason": why}
        done, why, _ = run([millrace, "rtl", "--plan", plan, "--check", "--json"], seconds)
        if why:
            return {**row, "reason": why}
        large = [d for d in json.loads(done.stdout)["devices"] if d["generated"] and d["built_multipliers"]["fp"] >= LEAST]
        if not large:
            return {**row, "reason": f"no device has {LEAST} multipliers a phase"}
        device = next((d for d in large if d["fits"]), large[0])
        row.update({"device": device["index"], "multipliers": device["built_multipliers"], "fits": device["fits"],
                    "modelled": {name: device[name] for name in ("dsp", "bram36", "uram", "lut")}})
        rtl = folder / "rtl"
        _, why, row["generate_seconds"] = run([millrace, "rtl", "--plan", plan, "--device", str(device["index"]), "--out", str(rtl)], seconds)
        if why:
            return {**row, "reason": why}
        row["bytes"] = sum(file.stat().st_size for file in rtl.rglob("*") if file.is_file())
        _, why, row["lint_seconds"] = run(["make", "lint"], seconds, rtl)
        row["lint"] = why or "clean"
        sources = [str(file) for file in sorted((rtl / "rtl").glob("*.sv"))]
        script = f"read_verilog -sv {' '.join(sources)}; synth_xilinx -family {family}{' -uram' if family == 'xcup' else ''} " \
                 f"-top millrace_device_{device['index']} -run begin:fine; tee -o {rtl}/statistics.txt stat -top millrace_device_{device['index']}"
        _, why, row["yosys_seconds"] = run(["yosys", "-q", "-p", script], seconds, rtl)
        if why:
            return {**row, "yosys": why}
        row["yosys"] = cells((rtl / "statistics.txt").read_text())
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--only", choices=[case[0] for case in CASES])
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/full_size_synthesis.json"))
    options = parser.parse_args()
    rows = []
    for case in CASES:
        if options.only in (None, case[0]):
            rows.append(of_device(options.millrace, *case, options.seconds))
            print(json.dumps(rows[-1]), flush=True)
    yosys = subprocess.run(["yosys", "-V"], capture_output=True, text=True, check=False).stdout.split("(")[0].strip()
    result = {"what": "one device each, at full size: lint, and slices and blocks as Yosys and as the resource model count them",
              "command": "millrace plan; millrace rtl; make lint; synth_xilinx -run begin:fine, hierarchy kept", "tool": yosys,
              "origin": "modelled: the resource model; yosys: counted in its netlist before placement", "devices": rows}
    pathlib.Path(options.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
