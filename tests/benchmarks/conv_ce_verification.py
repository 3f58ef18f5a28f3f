#!/usr/bin/env python3
"""The generated convolution engine against its models: bits, cycles, multipliers kept busy, a second simulator.

    tests/benchmarks/conv_ce_verification.py [--build build/rtl-long] [--geometries 25] [--jobs 2] [--icarus 7]
        [--only 'dropout|_g[0-9]'] [--built] [--millrace build/release/bin/millrace] [--out tests/benchmarks/results/conv_ce_verification.json]

Makes the Verilated models of every set of engine parameters in a build folder of its own (a quarter of an hour on two idle cores;
what is made stays), then
  - runs each over random geometries, data and pauses on every stream, FP, EB and PG compared bit by bit with the functional model, and
    again with every dilation that its kernel can be of a smaller one,
  - compares cycles per row and of whole runs with the cycle model,
  - measures multiply-accumulates per cycle over shapes of layers, against the most that the engine can do,
  - writes whole devices with `millrace rtl` and runs their testbenches under Icarus, a second simulator.
With --built nothing is configured or made: the programs are those that the build folder has.
A program's result is kept beside it until the program changes, so a run that was stopped goes on where it was; start it with `nice`.
Ends with 1 when anything differs. Needs verilator; without iverilog the last part is left out. Standard library alone.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SEED = 2026
CYCLE_GEOMETRIES = 2
OTHERS = "cosimulation_(sbe|pe_chain)_"  # engines of recurrent layers

# Kernel and stride of the first layer of the devices that Icarus runs, input channels, its outputs, padding, pooling window.
DEVICES = ((3, 1, 3, 6, 1, "kernel: 3 stride: 2 pad: 1"), (5, 2, 3, 8, 2, "kernel: 3 stride: 2"), (1, 1, 4, 8, 0, ""),
           (7, 2, 3, 5, 3, "kernel: 2 stride: 2"), (3, 2, 5, 7, 1, ""),
           (5, 1, 1, 6, 0, "kernel: 2 stride: 2"), (3, 4, 2, 4, 0, ""))

# Whose multipliers are watched over shapes of layers, beside every set of kernel 3.
TABLES = ("cosimulation_k1s1_4x4_4", "cosimulation_k5s1_2x2_2", "cosimulation_k5s2_2x3_4", "cosimulation_k7s1_2x1_2")


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def ninja(build, jobs, targets):
    done = subprocess.run(["ninja", "-C", build, "-j", str(jobs), *targets], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(f"ninja -C {build} failed; run it by hand to see why")


def programs_of(build, jobs, only, built):
    if built:
        found = [path.name for path in (pathlib.Path(build) / "bin").iterdir() if path.name.startswith(("cosimulation_", "streamed_"))]
        return sorted(name for name in found if re.search(only, name) and not re.match(OTHERS, name))
    configured = run(["cmake", "-S", str(SOURCE), "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                      "-DMILLRACE_ALL_ENGINE_SETS=ON", "-DMILLRACE_WITH_CUDA=OFF"])
    if configured.returncode != 0:
        sys.exit(configured.stderr)
    targets = run(["ninja", "-C", build, "-t", "targets", "all"]).stdout
    names = sorted(name for name in set(re.findall(r"^bin/((?:cosimulation|streamed)_[a-z0-9_]+): ", targets, re.MULTILINE)) if re.search(only, name) and not re.match(OTHERS, name))
    if not names:
        sys.exit("no program to run: is verilator installed?")
    ninja(build, jobs, [f"bin/{name}" for name in names])
    return names


def kept(build, program, arguments):
    """The program's output and status, from the file beside it where the same program already ran with these arguments."""
    binary = pathlib.Path(build) / "bin" / program
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()
    place = pathlib.Path(build) / "verified" / f"{program}{'_'.join(arguments).replace('-', '')}.json"
    if place.exists():
        found = json.loads(place.read_text())
        if found["binary"] == digest:
            return found
    folder = pathlib.Path(build) / "verified"  # where programs leave what their modules read
    folder.mkdir(exist_ok=True)
    done = run([str(binary.resolve()), *arguments], cwd=folder)
    found = {"binary": digest, "status": done.returncode, "output": done.stdout}
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(found))
    return found


def set_of(program):
    k = re.fullmatch(r"cosimulation_k(\d+)s(\d+)_(\d+)x(\d+)_(\d+)(?:_g(\d+))?", program)
    if k:
        found = dict(zip(("kernel", "stride", "input_lanes", "output_lanes", "kernels_per_word"), map(int, k.groups()[:5])))
        return found if k[6] is None else {**found, "channel_groups": int(k[6])}
    streamed = re.fullmatch(r"streamed_k(\d+)s(\d+)_(\d+)x(\d+)_(\d+)_(\d+)", program)
    if streamed:
        return dict(zip(("kernel", "stride", "input_lanes", "output_lanes", "kernels_per_word", "streamed_beat_bits"),
                        map(int, streamed.groups())))
    norm = re.fullmatch(r"cosimulation_response_norm_(\d+)", program)
    if norm:
        return {"response_norm_lanes": int(norm[1])}
    smooth = re.fullmatch(r"cosimulation_smooth_(tangent|sigmoid)_(\d+)_(\d+)", program)
    if smooth:
        return {"activation": smooth[1], "fraction_bits": int(smooth[2]), "lanes": int(smooth[3])}
    dropout = re.fullmatch(r"cosimulation_dropout_(\d+)", program)
    if dropout:
        return {"dropout_lanes": int(dropout[1])}
    sorter = re.fullmatch(r"cosimulation_sorter_(\d+)_(\d+)", program)
    if sorter:
        return {"sorter_block_rows": int(sorter[1]), "lanes": int(sorter[2])}
    back = re.fullmatch(r"cosimulation_back_stages_(\d+)", program)
    if back:
        return {"back_stages": ["error_scaler", "relu_gate", "bias_gradient"], "lanes": int(back[1])}
    maps = re.fullmatch(r"cosimulation_map_stages_(\d+)_(\d+)_(\d+)_(\d+)", program)
    if maps:
        lanes, channels, from_lane, to_lane = map(int, maps.groups())
        return {"map_stages": ["map_adder", "map_fork", "channel_aligner", "running_norm_back"], "lanes": lanes, "channels": channels,
                "from_lane": from_lane, "to_lane": to_lane}
    adapter = re.fullmatch(r"cosimulation_adapter_(\d+)_(\d+)", program)
    if adapter:
        return {"adapter_lanes": [int(adapter[1]), int(adapter[2])]}
    oblong = re.fullmatch(r"cosimulation_(\w+)_p(\d+)by(\d+)s(\d+)by(\d+)_(\d+)(_leaky)?", program)
    if oblong:
        kernel, columns, stride, column_stride, lanes = map(int, oblong.groups()[1:6])
        return {"pooling": oblong[1], "kernel": [kernel, columns], "stride": [stride, column_stride], "lanes": lanes,
                **({"leaky": True} if oblong[7] else {})}
    p = re.fullmatch(r"cosimulation_(\w+)_p(\d+)s(\d+)_(\d+)(_leaky)?", program)
    found = {"pooling": p[1], "kernel": int(p[2]), "stride": int(p[3]), "lanes": int(p[4])}
    return {**found, "leaky": True} if p[5] else found


def reason_for(parameters, inputs, outputs, width):
    """What a row of this layer waits for, if not for its multipliers."""
    groups_in, groups_out = -(-inputs // parameters["input_lanes"]), -(-outputs // parameters["output_lanes"])
    load = -(-parameters["input_lanes"] * parameters["output_lanes"] // parameters["kernels_per_word"]) + 1
    computing, incoming = groups_in * groups_out * max(width, load), groups_in * width * parameters["stride"] ** 2
    reasons = []
    if incoming > computing:
        reasons.append("its input comes at one beat per cycle")
    elif width < load:
        reasons.append("a row is shorter than the reload of its kernels")
    if inputs % parameters["input_lanes"]:
        reasons.append("channels do not fill the lanes")
    return "; ".join(reasons)


def table_of(program, output):
    parameters = set_of(program)
    rows = []
    # As the program prints them: input and output channels, columns, cycles of a row, MACs per cycle, their share of the peak.
    for inputs, outputs, width, cycles, macs, share in re.findall(
            r"(\d+) -> (\d+), (\d+) wide\s+(\d+)\s+([\d.]+)\s+([\d.]+)%", output):
        row = {"inputs": int(inputs), "outputs": int(outputs), "width": int(width), "row_cycles": int(cycles),
               "macs_per_cycle": float(macs), "percent_of_peak": float(share)}
        row["below_peak_because"] = reason_for(parameters, row["inputs"], row["outputs"], row["width"])
        rows.append(row)
    tiles = parameters["input_lanes"] * parameters["output_lanes"]
    return {**parameters, "peak_macs_per_cycle": tiles * parameters["kernel"] ** 2, "layers": rows}


def verified(build, names, geometries):
    bits, cycles, tables = [], [], []
    for name in names:
        found = kept(build, name, ["--geometries", str(geometries), "--seed", str(SEED)])
        bits.append({**set_of(name), "geometries": geometries, "exact": found["status"] == 0})
        print(found["output"], end="", flush=True)
        kernel = set_of(name).get("kernel", 1) if name.startswith(("cosimulation_k", "streamed_k")) else 1
        for dilation in (d for d in range(2, kernel) if (kernel - 1) % d == 0):  # a smaller kernel with zeros between
            found = kept(build, name, ["--geometries", str(geometries), "--seed", str(SEED), "--dilation", str(dilation)])
            bits.append({**set_of(name), "dilation": dilation, "geometries": geometries, "exact": found["status"] == 0})
            print(found["output"], end="", flush=True)
        if not name.startswith("cosimulation_k"):
            continue
        found = kept(build, name, ["--cycles", str(CYCLE_GEOMETRIES), "--seed", str(SEED)])
        print(found["output"], end="", flush=True)
        numbers = re.search(r"(\d+) of (\d+) rows exact, whole runs within ([\d.]+)%", found["output"])
        cycles.append({**set_of(name), "rows": int(numbers[2]), "rows_exact": int(numbers[1]),
                       "whole_runs_within_percent": float(numbers[3]), "holds": found["status"] == 0})
        if (set_of(name)["kernel"] == 3 and "channel_groups" not in set_of(name)) or name in TABLES:
            tables.append(table_of(name, kept(build, name, ["--table"])["output"]))
    return bits, cycles, tables


def model_text(number, device):
    kernel, stride, inputs, outputs, pad, pooling = device
    size = kernel + stride * 4 + number % 5
    pool = f'layers {{ name: "pool1" max_pool {{ {pooling} }} }}\n' if pooling else ""
    return (f'name: "device{number}"\ninput {{ channels: {inputs} height: {size} width: {size - 1} }}\n'
            f'layers {{ name: "conv1" conv2d {{ out_channels: {outputs} kernel: {kernel} stride: {stride} pad: {pad} }} }}\n'
            f'layers {{ name: "relu1" relu {{}} }}\n{pool}'
            f'layers {{ name: "conv2" conv2d {{ out_channels: 4 kernel: 3 pad: 1 }} }}\n'
            'layers { name: "flat" flatten {} }\nlayers { name: "fc" dense { out_features: 3 } }\n'
            'layers { name: "loss" softmax_cross_entropy {} }\n')


def under_icarus(millrace, folder, count):
    """Whole devices: their testbench holds the functional model's streams and gradients, with pauses on every port."""
    if shutil.which("iverilog") is None or count == 0:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    ran = []
    for number in range(count):
        device = DEVICES[number % len(DEVICES)]
        model, plan, out = folder / f"{number}.model.textproto", folder / f"{number}.plan.textproto", folder / f"device_{number}"
        model.write_text(model_text(number, device))
        for command in ([millrace, "plan", "--model", str(model), "--cluster", "vc709x2", "--bits", "16", "--mini-batch", "4", "--pin",
                         "conv1=0", "--pin", "conv2=0", "--pin", "fc=1", "--balance", "never", "--out", str(plan)],
                        [millrace, "rtl", "--plan", str(plan), "--device", "0", "--seed", str(SEED + number), "--out", str(out)]):
            done = run(command)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: {done.stderr}")
        done = run(["make", "-C", str(out), "icarus"])
        passed = done.returncode == 0 and "PASS" in done.stdout
        ran.append({"kernel": device[0], "stride": device[1], "inputs": device[2], "outputs": device[3], "pad": device[4],
                    "pooling": device[5], "passes": passed})
        print(f"Icarus, device {number}: kernel {device[0]} stride {device[1]}: {'as' if passed else 'NOT as'} the functional model", flush=True)
    return ran


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/rtl-long")
    parser.add_argument("--geometries", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--icarus", type=int, default=7)
    parser.add_argument("--built", action="store_true", help="the programs that the build folder has, as they are")
    parser.add_argument("--only", default="", help="of the programs, those whose names match this expression")
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/conv_ce_verification.json"))
    options = parser.parse_args()
    names = programs_of(options.build, options.jobs, options.only, options.built)
    bits, cycles, tables = verified(options.build, names, options.geometries)
    icarus = under_icarus(str(pathlib.Path(options.millrace).resolve()), pathlib.Path(options.build) / "icarus", options.icarus)
    three = [row for table in tables if table["kernel"] == 3 and table["stride"] == 1 for row in table["layers"]]
    steady = [row["percent_of_peak"] for row in three if not row["below_peak_because"]]
    exact_sets = sum(one["exact"] for one in bits)
    modules = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((SOURCE / "fpga").glob("*/rtl/modules/*.sv"), key=lambda path: path.name)))
    summary = {
        "sets": len(bits), "sets_exact": exact_sets, "cases": sum(one["geometries"] for one in bits if one["exact"]),
        "cycle_configurations": CYCLE_GEOMETRIES * len(cycles), "rows": sum(one["rows"] for one in cycles),
        "rows_exact": sum(one["rows_exact"] for one in cycles),
        "whole_runs_within_percent": max((one["whole_runs_within_percent"] for one in cycles), default=None),
        "three_by_three_least_percent_of_peak_in_steady_state": min(steady, default=None),
        "icarus_devices": len(icarus), "icarus_pass": sum(one["passes"] for one in icarus)}
    result = {
        "what": "the convolution engine's RTL (Verilator) against functional model, cycle model and peak; Icarus on whole devices",
        "command": "tests/benchmarks/conv_ce_verification.py" + (" --built" if options.built else "") +
                   f" --geometries {options.geometries}" + (f" --only '{options.only}'" if options.only else ""), "seed": SEED,
        "commit": run(["git", "-C", str(SOURCE), "rev-parse", "HEAD"]).stdout.strip(),
        "rtl_sha256": modules.hexdigest(), "verilator": run(["verilator", "--version"]).stdout.strip(), "summary": summary,
        "bits": bits, "cycles": cycles,
        "cycles_left_out": "shapes whose computing and whose input take within 15% of each other: there only whole samples have a steady time",
        "macs_per_cycle": tables, "icarus": icarus}
    print(json.dumps(summary, indent=1))
    temporary = options.out + ".part"
    pathlib.Path(temporary).write_text(json.dumps(result, indent=1) + "\n")
    os.replace(temporary, options.out)
    good = exact_sets == len(bits) and all(one["holds"] for one in cycles) and all(one["passes"] for one in icarus) and min(steady, default=100) >= 95
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
