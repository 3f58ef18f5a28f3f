#!/usr/bin/env python3
"""Measures what convolutions reach by shape and instruction set, for the plans of CPU rings: core/cpu/convolution_rates.csv.

  tests/benchmarks/convolution_rates.py --machine "an Intel Xeon (Sapphire Rapids)" --out core/cpu/convolution_rates.csv

Each case, MODEL:MICRO_BATCHES, is measured by `millrace doctor --measure` once with everything the processor has and once with
ONEDNN_MAX_CPU_ISA=AVX2, a few times over. One thread, in its own processor time; the fastest of all runs counts, because other programs
only ever make one slower. All are written as shares of the peak with AVX-512, so that both instruction sets have one measure.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = "vgg16-cifar:1,8,32 resnet18-cifar:1,8,32 alexnet:8 vgg16:2"
PHASES = ("forward", "error_back", "parameter_gradient")
VALUE = re.compile(r'name: "([^"]+)"\s+(?:value|amount): ([-+.eE0-9]+)')


def measure(binary, isa, model, micro_batches):
    """By name, the device cpu's values."""
    environment = dict(os.environ)
    if isa == "avx2":
        environment["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    with tempfile.NamedTemporaryFile(suffix=".textproto") as file:
        command = [binary, "doctor", "--measure", "--model", model, "--micro-batch", micro_batches, "--catalogue-out", file.name]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment, timeout=1200)
        return {name: float(value) for name, value in VALUE.findall(pathlib.Path(file.name).read_text(encoding="utf-8"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/release/bin/millrace"))
    parser.add_argument("--machine", required=True, help="what it is")
    parser.add_argument("--state", default="quiet", help="of the machine meanwhile")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--isas", default="avx512_core,avx2")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    peak = 0.0
    rates = {}  # by instruction set and shape: multiply-adds per second in each phase
    for _ in range(arguments.runs):
        for case in arguments.cases.split():
            for isa in arguments.isas.split(","):
                values = measure(arguments.millrace, isa, *case.split(":"))
                macs = values["macs_per_second"]
                if isa == "avx512_core":
                    peak = max(peak, macs)
                shapes = {re.sub("_forward$", "", name) for name in values if re.fullmatch(r"efficiency_conv_\d.*_forward", name)}
                for shape in shapes:
                    best = rates.setdefault((isa, shape.removeprefix("efficiency_conv_")), [0.0] * len(PHASES))
                    for i, phase in enumerate(PHASES):
                        best[i] = max(best[i], macs * values[f"{shape}_{phase}"])
                print(f"{isa} {case}: peak {2e-9 * macs:.0f} GFLOP/s, {len(shapes)} shapes, load {os.getloadavg()[0]:.1f}", flush=True)
    if peak == 0:
        peak = max(max(best) for best in rates.values())
    day = datetime.date.today().isoformat()
    lines = [
        f"# on {arguments.machine}, {arguments.state}, {day}",
        f"# tests/benchmarks/convolution_rates.py, with AVX-512 and held to AVX2, fastest of {arguments.runs} runs, load {load:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores;"
        f" shares of {2e-9 * peak:.1f} GFLOP/s, one core's peak with AVX-512",
        "isa,convolution,forward,error_back,parameter_gradient",
    ]
    for (isa, shape), best in sorted(rates.items()):
        lines.append(f"{isa},{shape}," + ",".join(f"{rate / peak:.3g}" for rate in best))
    pathlib.Path(arguments.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
