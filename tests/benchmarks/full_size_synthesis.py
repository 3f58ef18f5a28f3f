#!/usr/bin/env python3
"""Whole devices of large networks through Verilator and Yosys: bits, slices, blocks and logic beside what `rtl` counts.

    tests/benchmarks/full_size_synthesis.py [--millrace build/release/bin/millrace] [--only vgg16] [--work build/full-size]
        [--steps lint,simulate,count] [--logic] [--out tests/benchmarks/results/full_size_synthesis.json]

One device each of alexnet, vgg16 and resnet18, as planned, with at least 900 multipliers a phase, and a small one (lenet5), which is counted
both ways. Verilator lints the device and runs its testbench: a few rows of every map, with pauses, bit by bit as the functional model.

Yosys counts by module: the device is elaborated once, every module with its parameters is synthesised alone, with those below it as black
boxes, and counts as often as it is there. Nothing is optimised across modules, which a vendor's tool would do; `flat` of the small device
says how much that is. Without --logic it ends where slices and blocks are there (some minutes a device); with it LUTs and flip-flops are
mapped, too. Counts are Yosys's and the resource model's, nothing is placed.

What is done stays in the work folder, module by module under the digest of its text, so that a run that was stopped goes on. Seconds are
processor seconds. Ends with 1 when a bit differs, or a slice or block that is not explained. Standard library alone.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LEAST = 900  # multipliers of FP
MEMORY = 8 << 30
NORMS = ["--batch-norm", "running"]
CASES = (("lenet5", "zc706x2", [], "xc7", 1), ("alexnet", "vc709x15", [], "xc7", 1), ("vgg16", "vc709x15", [], "xc7", 4),
         ("resnet18", "u280x8", NORMS, "xcup", 7))  # and the device
SMALL = "lenet5"
# What synth_xilinx does to prepare, but for `check`, which changes nothing and takes longer than all the rest on streams of thousands of bits.
PREPARE = "tribuf -logic; deminout; opt_expr; opt_clean; opt -nodffe -nosdff; fsm; opt; wreduce; peepopt; opt_clean; pmux2shiftx; clean"
KINDS = {"dsp": r"DSP48E", "bram18": r"RAMB18E", "bram36": r"RAMB36E", "uram": r"URAM288", "lut": r"LUT[1-6]$", "carry": r"CARRY", "ff": r"FD[A-Z]+$",
         "lutram": r"RAM(32|64|128|256|512)[XM]", "srl": r"SRL"}


def run(command, seconds, folder=None, out=None):
    """Why it failed, or nothing; and what it took of the processor."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=folder, preexec_fn=limit)
        why = "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-300:] or f"status {done.returncode}"
        if out is not None:
            out.write_text(done.stdout)
    except subprocess.TimeoutExpired:
        why = f"took more than {seconds} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return why, round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def modules_of(text):
    """Of a design in Yosys's own format: each module's text, with the attributes before it."""
    found = {}
    for block in re.findall(r"^(?:attribute [^\n]*\n)*module \S+\n.*?^end$", text, re.M | re.S):
        found[re.search(r"^module (\S+)$", block, re.M)[1]] = block
    return found


def cells_of(block):
    return collections.Counter(re.findall(r"^  cell (\S+) \S+$", block, re.M))


def black_box(block):
    ports = re.findall(r"^  wire (?:[a-z]+ \d+ )*(?:input|output|inout) \d+ (?:signed )?\S+$", block, re.M)
    name = re.search(r"^module (\S+)$", block, re.M)[1]
    return "\n".join(["attribute \\blackbox 1", "module " + name, *ports, "end"])


def instances(modules, top):
    """How often each is there, those in others included."""
    below = {name: {cell: count for cell, count in cells_of(block).items() if cell in modules} for name, block in modules.items()}
    counts = collections.Counter()

    def visit(name, times):
        counts[name] += times
        for cell, count in below[name].items():
            visit(cell, times * count)

    visit(top, 1)
    return counts


def counted(text):
    cells = sum((cells_of(block) for name, block in modules_of(text).items()), collections.Counter())
    return {kind: sum(count for name, count in cells.items() if re.match(r"\\" + pattern, name)) for kind, pattern in KINDS.items()}


def script_of(sources, family, logic, flat):
    """One process for many modules: the library of cells is read once."""
    synth = f"synth_xilinx -family {family}{' -uram' if family == 'xcup' else ''} -noiopad -noclkbuf"
    lines = ["read_verilog -lib -specify +/xilinx/cells_sim.v", "read_verilog -lib +/xilinx/cells_xtra.v", "design -save library"]
    for top, source in sources:  # a name with a dollar is a word of its own in a script, so no semicolons
        lines += ["design -load library", f"read_rtlil {source}", f"hierarchy -check -top {top}", *(["flatten"] if flat else []), *PREPARE.split("; "),
                  f"{synth} -run map_dsp:map_cells", *([f"{synth} -run map_cells:check"] if logic else []), f"select -module {top}",
                  f"write_rtlil -selected {source}.part", "select -clear", f"exec -expect-return 0 -- mv {source}.part {source}.done"]
    return "\n".join(lines) + "\n"


def synthesised(work, modules, family, logic, seconds, jobs, flat=False):
    """Cells of each module (name: text with what is below), kept under its digest; and the processor's seconds of those that were not there."""
    place = work / "modules"
    place.mkdir(parents=True, exist_ok=True)
    keys = {name: hashlib.sha256(f"{family} {logic} {flat} {PREPARE}\n{text}".encode()).hexdigest()[:24] for name, text in modules.items()}
    missing = sorted((name for name in modules if not (place / f"{keys[name]}.json").exists()), key=lambda name: len(modules[name]))
    for name in missing:
        (place / f"{keys[name]}.il").write_text(modules[name] + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)

    def some(which):
        script = place / f"batch{os.getpid()}_{which}.ys"
        script.write_text(script_of([(name, place / f"{keys[name]}.il") for name in missing[which::jobs]], family, logic, flat))
        return run(["yosys", "-q", str(script)], seconds)[0]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        whys = [why for why in pool.map(some, range(jobs)) if why]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for name in missing:
        done = place / f"{keys[name]}.il.done"
        if done.exists():
            (place / f"{keys[name]}.json").write_text(json.dumps(counted(done.read_text())))
            done.unlink()
    found = {name: json.loads((place / f"{key}.json").read_text()) for name, key in keys.items() if (place / f"{key}.json").exists()}
    return found, "; ".join(whys), round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def counts_of_device(work, rtl, top, family, options, flat):
    elaborated = rtl / "elaborated.il"
    sources = " ".join(str(file.relative_to(rtl)) for file in sorted((rtl / "rtl").glob("*.sv")))
    if not elaborated.exists():
        temporary = rtl / "elaborated.part"
        why, _ = run(["yosys", "-q", "-p", f"read_verilog -sv {sources}; hierarchy -check -top {top}; proc; write_rtlil {temporary}"], options.seconds, rtl)
        if why:
            return {"why": why}
        os.replace(temporary, elaborated)
    # Where sources lie is no part of what they are.
    text = re.sub(r"^ *attribute \\(src|hdlname|dynports|cells_not_processed|top) .*\n", "", elaborated.read_text(), flags=re.M)
    modules = modules_of(text)
    times = instances(modules, "\\" + top)
    texts = {name: "\n".join([modules[name], *(black_box(modules[cell]) for cell in sorted(cells_of(modules[name])) if cell in modules)]) for name in times}
    found, why, seconds = synthesised(work, texts, family, options.logic, options.seconds, options.jobs)
    totals, by_name = collections.Counter(), collections.defaultdict(collections.Counter)
    for name, count in sorted(times.items()):
        own = by_name[re.sub(r"^\$paramod(\$[0-9a-f]{40})?|\\", "", name)]
        own["times"] += count
        for kind in KINDS:
            totals[kind] += count * found.get(name, {}).get(kind, 0)
            own[kind] += count * found.get(name, {}).get(kind, 0)
    result = {"modules": len(times), "instances": sum(times.values()), **as_blocks(totals, options.logic), "seconds": seconds}
    if why or len(found) < len(times):
        result["why"] = f"{len(found)} of {len(times)} modules: {why}"
    elif flat:
        top_name = "\\" + top
        one, why, seconds = synthesised(work, {top_name: "\n".join(modules[name] for name in times)}, family, options.logic, options.seconds, 1, True)
        result["flat"] = {"why": why} if why else {**as_blocks(one[top_name], options.logic), "seconds": seconds}
    result["by_module"] = {name: {kind: count for kind, count in kinds.items() if count} for name, kinds in sorted(by_name.items())}
    return result


def as_blocks(cells, logic):
    kinds = {kind: cells[kind] for kind in KINDS if kind != "bram18" and (logic or kind not in ("lut", "carry", "ff"))}
    kinds["bram36"] += cells["bram18"] / 2
    return kinds


def simulated(rtl, seconds):
    """The device's own testbench, in files that a compiler ends with, and with little optimisation: it runs a few rows."""
    sources = [str(file.relative_to(rtl)) for file in sorted((rtl / "rtl").glob("*.sv"))]
    spent = {}
    for name, command in (("verilate", ["verilator", "--cc", "--exe", "--main", "--timing", "-O3", "-Wno-fatal", "--Mdir", "obj_verilator", "--top-module", "testbench",
                                        "-o", "testbench", "--output-split", "20000", "--output-split-cfuncs", "2000", *sources, "testbench.sv"]),
                          ("compile", ["make", "-C", "obj_verilator", "-f", "Vtestbench.mk", "OPT_FAST=-O1", "OPT_SLOW=-O0", "testbench"]),
                          ("run", ["./obj_verilator/testbench"])):
        why, spent[name] = run(command, seconds, rtl, rtl / f"{name}.out")
        if why:
            return {"why": f"{name}: {why}", "seconds": spent}
    said = (rtl / "run.out").read_text().strip().splitlines()
    return {"passes": any(line.startswith("PASS") for line in said), "says": [line for line in said if not line.startswith("- ")][-1], "seconds": spent}


def of_device(options, work, model, cluster, more, family, index):
    row = {"model": model, "cluster": cluster, "family": family}
    folder = work / model
    folder.mkdir(parents=True, exist_ok=True)
    plan = str(folder / "plan.textproto")
    why, _ = run([options.millrace, "plan", "--model", model, "--cluster", cluster, *more, "--out", plan], options.seconds)
    why = why or run([options.millrace, "rtl", "--plan", plan, "--check", "--json"], options.seconds, None, folder / "check.json")[0]
    if why:
        return {**row, "reason": why}
    device = json.loads((folder / "check.json").read_text())["devices"][index]
    if not device["generated"] or (model != SMALL and device["built_multipliers"]["fp"] < LEAST):
        return {**row, "reason": f"device {index} is not generated, or has fewer than {LEAST} multipliers a phase: choose another"}
    rtl = folder / f"device_{index}"
    why, row["generate_seconds"] = run([options.millrace, "rtl", "--plan", plan, "--device", str(index), "--out", str(rtl)], options.seconds)
    if why:
        return {**row, "reason": why}
    modelled = json.loads((rtl / "resources.json").read_text())["generated"]
    row.update({"device": index, "multipliers": device["built_multipliers"], "fits": device["fits"], "modelled": modelled,
                "bytes": sum(file.stat().st_size for file in rtl.rglob("*") if file.is_file())})
    if "lint" in options.steps:
        why, spent = run(["make", "lint"], options.seconds, rtl)
        row["lint"] = {"says": why or "clean", "seconds": spent}
    if "simulate" in options.steps:
        row["simulated"] = simulated(rtl, options.seconds)
    if "count" in options.steps:
        found = row["yosys"] = counts_of_device(work, rtl, f"millrace_device_{index}", family, options, model == SMALL)
        if "why" not in found:
            row["yosys_over_model"] = {kind: round(found[kind] / modelled[kind], 4) for kind in ("dsp", "bram36", "uram", "lut", "ff") if kind in found and modelled[kind]}
    return row


def good(row):
    return "reason" not in row and row.get("lint", {}).get("says", "clean") == "clean" and row.get("simulated", {}).get("passes", True) and \
        "why" not in row.get("yosys", {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(SOURCE / "build/release/bin/millrace"))
    parser.add_argument("--only", choices=[case[0] for case in CASES])
    parser.add_argument("--steps", default="lint,simulate,count")
    parser.add_argument("--logic", action="store_true", help="LUTs and flip-flops, too")
    parser.add_argument("--seconds", type=int, default=3600, help="the most that one command may take by the clock")
    parser.add_argument("--jobs", type=int, default=2, help="of Yosys at once")
    parser.add_argument("--work", default=str(SOURCE / "build/full-size"))
    parser.add_argument("--out", default=str(SOURCE / "tests/benchmarks/results/full_size_synthesis.json"))
    options = parser.parse_args()
    options.millrace = str(pathlib.Path(options.millrace).resolve())
    work = pathlib.Path(options.work).resolve()
    out = pathlib.Path(options.out)
    kept = {row["model"]: row for row in json.loads(out.read_text())["devices"]} if out.exists() else {}
    yosys = subprocess.run(["yosys", "-V"], capture_output=True, text=True, check=False).stdout.split("(")[0].strip()
    fine = True
    for case in CASES:
        if options.only not in (None, case[0]):
            continue
        row = of_device(options, work, *case)
        fine = fine and good(row)
        print(json.dumps({name: value for name, value in row.items() if name != "yosys"}), flush=True)
        kept[case[0]] = {**kept.get(case[0], {}), **row}
        result = {"what": "one device each, at full size: lint, a few rows bit by bit, and what Yosys and the resource model count",
                  "command": "full_size_synthesis.py --logic", "tool": yosys,
                  "origin": "modelled: the resource model; yosys: counted in its netlists, module by module, before placement; seconds: of the processor",
                  "devices": [kept[one[0]] for one in CASES if one[0] in kept]}
        temporary = pathlib.Path(str(out) + ".part")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(temporary, out)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
