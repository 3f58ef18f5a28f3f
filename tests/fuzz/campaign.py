#!/usr/bin/env python3
"""Fuzzes readers for so many processor seconds each, and writes down what that came to:

    tests/fuzz/campaign.py --bin build/fuzz/bin --only picture,npy --processor-seconds 600 --sanitizers address,undefined --out FILE.json

Takes the fuzzers as they were built: with clang and libFuzzer (cmake --preset asan -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DMILLRACE_FUZZERS=ON), which
follow coverage and keep what they discover in --work between slices and campaigns, or with our own driver, whose slices take one seed after another.
Processor seconds, not the clock's: a busy machine fuzzes as much, only later. Rows of an --out that is there are kept, of the same reader replaced, so that a
campaign may be divided. Ends with 1 at the first finding and says where the input lies.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
SLICE_SECONDS = 30


def corpus_of(reader):
    for folder in sorted(SOURCE.glob("*/corpus")):
        for name in (reader, reader.removesuffix("_document")):
            if (folder / name).is_dir():
                return folder / name
    own = SOURCE / reader / "corpus"
    return own if own.is_dir() else None


def children_seconds():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def fuzz(program, reader, seconds, work):
    work = work / reader
    (work / "discovered").mkdir(parents=True, exist_ok=True)
    guided = b"libFuzzer" in program.read_bytes()
    corpus = corpus_of(reader)
    row = {"reader": reader, "driver": "libFuzzer" if guided else "own", "inputs": 0, "findings": 0}
    began, slices = children_seconds(), 0
    while children_seconds() - began < seconds:
        slices += 1
        if guided:
            command = [program, f"-max_total_time={SLICE_SECONDS}", "-timeout=120", "-rss_limit_mb=4096", "-print_final_stats=1", f"-seed={slices}", work / "discovered"]
        else:
            command = [program, "--seconds", str(SLICE_SECONDS), "--seed", str(slices)]
        done = subprocess.run([*command, *([corpus] if corpus else [])], cwd=work, capture_output=True, text=True, errors="replace")
        count = re.search(r"number_of_executed_units: (\d+)|and (\d+) mutations", done.stderr)
        row["inputs"] += int(count[1] or count[2]) if count else 0
        if done.returncode != 0 or not count:
            row["findings"] += 1
            (work / "finding.log").write_text(done.stderr)
            break
    row["processor_seconds"] = round(children_seconds() - began, 1)
    if guided:
        row["discovered"] = len(list((work / "discovered").iterdir()))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--only", help="readers, with commas between [all that were built]")
    parser.add_argument("--processor-seconds", type=float, default=600)
    parser.add_argument("--sanitizers", default="none", help="what the fuzzers were built with, for the record")
    parser.add_argument("--work", type=Path, default=Path("fuzz-campaign"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    programs = {path.name.removeprefix("fuzz_"): path.resolve() for path in sorted(options.bin.glob("fuzz_*"))}
    wanted = options.only.split(",") if options.only else [reader for reader in programs if reader != "planted"]
    unknown = [reader for reader in wanted if reader not in programs]
    if unknown or not programs:
        sys.exit(f"{options.bin}: no fuzzer of {', '.join(unknown) or 'anything'}; built are {', '.join(programs) or 'none'}")
    rows = json.loads(options.out.read_text())["readers"] if options.out and options.out.exists() else []
    for reader in wanted:
        row = {**fuzz(programs[reader], reader, options.processor_seconds, options.work.resolve()), "sanitizers": options.sanitizers}
        print(json.dumps(row), flush=True)
        rows = sorted([other for other in rows if other["reader"] != reader] + [row], key=lambda one: one["reader"])
        if options.out:
            total = sum(one["inputs"] for one in rows)
            options.out.write_text(json.dumps({"what": "fuzz campaigns, measured", "inputs": total, "readers": rows}, indent=1) + "\n")
        if row["findings"]:
            sys.exit(f"{reader}: a finding; see {options.work / reader}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
