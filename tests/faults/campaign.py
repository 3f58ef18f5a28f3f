"""A campaign of faults: drawn from a seed, one after the other or side by side, resumable, with a report.

    campaign.py --millrace bin/millrace --count 300 --jobs 2 --results faults.jsonl --report faults
    campaign.py --millrace bin/millrace --short              what the check runs: small rings, most of them one process

A fault's number and the seed say all of it. --results takes a line per fault as it ends; started again with the same file, a campaign goes
on behind what is there. --report FOLDER writes faults.json, the table by kind, and index.html, the same as a page. --only NUMBER repeats one.

Ranks tell a neighbour that is silent from one that waits, but not from one that gets no core: the 3 s that they wait here, a tenth of what
`train` does unasked, are too short where other work takes the cores. So the wait is longer in proportion to the machine's load, up to the 30 s
of `train`, and each result says which it was; --silence sets it.

An interrupt (SIGINT, SIGTERM, SIGHUP) ends what runs, keeps the results of what had ended, and leaves with 130.
Exit status 0: every promise was kept; 1: not; 77: nothing could be tried here.
"""

import argparse
import concurrent.futures
import html
import json
import math
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import faults
from faults import References, Skipped, draw
from machine_faults import KINDS
from ring_job import Failure, Tools, processes_with

SKIPPED = 77
INTERRUPTED = 130
SHORTEST_SILENCE, LONGEST_SILENCE = faults.SILENCE, 30  # on an idle machine; what `train` waits unasked
DEADLINE_PER_SILENCE = faults.DEADLINE // faults.SILENCE
MARK = "MILLRACE_FAULTS"  # in the environment of all that a campaign starts
# What the check draws from: those that end within a second or two.
SHORT = ("kill a rank", "kill mpirun", "stop and continue", "crash a rank", "hang up", "terminate", "memory refused", "too little memory", "disk full",
         "file limit", "read-only folder", "torn checkpoint", "flipped bit", "no manifest", "half-written leftover", "damaged plan",
         "damaged metrics", "damaged job", "two runs in a folder", "clock jumps")
# Rarer than the others by so much: they take minutes of a machine.
RARE = {"link cut and healed": 6, "link slow": 6, "packets lost": 6, "stop a rank": 2, "two runs in a folder": 2, "XRT device killed": 2,
        "XRT device silent": 2}


def kind_of(number, short):
    """In turn; a rare one's turn goes to a kill, but for every so many rounds."""
    kinds = SHORT if short else tuple(KINDS)
    kind, turn = kinds[number % len(kinds)], number // len(kinds)
    return kind if turn % RARE.get(kind, 1) == 0 else "kill a rank"


def silence_at(load, processors):
    """Whole seconds: a rank that shares its core with n others is n times as slow."""
    return max(SHORTEST_SILENCE, min(LONGEST_SILENCE, math.ceil(SHORTEST_SILENCE * load / processors)))


def wait_for(silence):
    faults.SILENCE, faults.DEADLINE = silence, DEADLINE_PER_SILENCE * silence


def end_all(scratch):
    """What this campaign started, whoever its parent is by now."""
    for pid in processes_with(f"{MARK}={scratch}"):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def interrupt(*_):
    raise KeyboardInterrupt


def try_one(tools, references, seed, number, short):
    kind = kind_of(number, short)
    fault = draw(seed * 1_000_003 + number, kind, short)
    out = tools.scratch / f"fault_{number}"
    result = {"number": number, **fault.__dict__, "silence": faults.SILENCE, "load": round(os.getloadavg()[0], 1)}
    began = time.monotonic()
    try:
        seen = KINDS[kind](tools, references, fault, out)
        result.update({"kept": True, **seen})
    except Skipped as reason:
        result.update({"skipped": str(reason)})
    except Failure as failure:
        result.update({"kept": False, "why": str(failure)[-3000:]})
    except Exception:  # pylint: disable=broad-except
        result.update({"kept": False, "why": traceback.format_exc()[-3000:]})
    result["seconds"] = round(time.monotonic() - began, 1)
    if result.get("kept"):
        for left in tools.scratch.glob(f"fault_{number}*"):
            shutil.rmtree(left, ignore_errors=True)
    return result


def by_kind(results):
    table = {}
    for result in results:
        row = table.setdefault(result["kind"], {"tried": 0, "struck": 0, "kept": 0, "broken": 0, "skipped": 0, "restarts": 0, "longest_seconds": 0})
        if "skipped" in result:
            row["skipped"] += 1
            row["why_skipped"] = result["skipped"]
            continue
        row["tried"] += 1
        row["struck"] += bool(result.get("struck"))
        row["kept" if result["kept"] else "broken"] += 1
        row["restarts"] += result.get("restarts") or 0
        row["longest_seconds"] = max(row["longest_seconds"], result["seconds"])
    return table


def page_of(report):
    names = ("tried", "struck", "kept", "broken", "skipped", "restarts", "longest_seconds")
    rows = "".join(f"<tr><td>{html.escape(kind)}</td>" + "".join(f"<td>{row[name]}</td>" for name in names) + f"<td>{html.escape(row.get('why_skipped', ''))}</td></tr>\n"
                   for kind, row in report["kinds"].items())
    broken = "".join(f"<h3>fault {result['number']}: {html.escape(result['kind'])}</h3><pre>{html.escape(json.dumps({k: v for k, v in result.items() if k != 'why'}))}\n"
                     f"{html.escape(result['why'])}</pre>\n" for result in report["broken"])
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Faults</title>
<style>body{{font-family:sans-serif;max-width:70em;margin:2em auto}}td,th{{padding:.2em .7em;text-align:right;border-bottom:1px solid #ccc}}td:first-child,th:first-child{{text-align:left}}pre{{white-space:pre-wrap}}</style>
</head><body><h1>{report['kept']} of {report['tried']} faults survived</h1>
<p>Measured on {html.escape(report['machine'])}, commit {html.escape(report['commit'])}, seed {report['seed']}: {html.escape(report['command'])}. A fault
counts as survived when every end came in time, no checkpoint was lost, and what went on ended with the weights and the last checkpoint of the
undisturbed run, to the bit. "struck": the training was still under way when the fault came.</p>
<table><tr><th>fault</th>{''.join(f'<th>{name.replace("_", " ")}</th>' for name in names)}<th>skipped because</th></tr>
{rows}</table>
{broken}</body></html>
"""


def report_of(arguments, results):
    tried = [result for result in results if "skipped" not in result]
    broken = [result for result in tried if not result["kept"]]
    commit = os.popen(f"git -C {Path(__file__).parent} rev-parse --short HEAD 2>/dev/null").read().strip()
    return {"origin": "measured", "machine": f"{platform.machine()}, {os.cpu_count()} processors, busy with other work", "commit": commit,
            "seed": arguments.seed, "command": f"tests/faults/campaign.py --count {len(results)} --seed {arguments.seed}", "tried": len(tried),
            "struck": sum(bool(result.get("struck")) for result in tried), "kept": len(tried) - len(broken),
            "skipped": len(results) - len(tried), "kinds": by_kind(results), "broken": broken}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", default=str(Path(__file__).resolve().parents[2] / "build/release/bin/millrace"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--only", type=int, help="this number alone")
    parser.add_argument("--kind", help="only faults of this kind")
    parser.add_argument("--short", action="store_true", help="what the check runs")
    parser.add_argument("--jobs", type=int, default=1, help="so many side by side [1]")
    parser.add_argument("--silence", type=int, help="seconds that ranks wait for one that is silent; all else in proportion [by the machine's load]")
    parser.add_argument("--seconds", type=float, default=0, help="begin no fault after so many [0: all]")
    parser.add_argument("--results", type=Path, help="file of a line per fault; what it holds is not tried again")
    parser.add_argument("--report", type=Path, help="folder for faults.json and index.html")
    arguments = parser.parse_args()
    wait_for(arguments.silence or SHORTEST_SILENCE)
    scratch = Path(tempfile.mkdtemp(prefix="millrace_faults_"))
    os.environ[MARK] = str(scratch)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    tools = Tools(arguments.mpirun, arguments.millrace, scratch)
    (scratch / "references").mkdir()
    references = References(tools, scratch / "references")
    results = []
    if arguments.results and arguments.results.exists():
        results = [json.loads(line) for line in arguments.results.read_text().splitlines() if line.endswith("}")]
    done = {result["number"] for result in results}
    numbers = [number for number in range(arguments.count) if number not in done and arguments.only in (None, number)
               and arguments.kind in (None, kind_of(number, arguments.short))]
    began = time.monotonic()
    interrupted = threading.Event()

    def one(number):
        if interrupted.is_set() or arguments.seconds and time.monotonic() - began > arguments.seconds:
            return None
        if not arguments.silence:  # never less than before: other faults may be under way
            wait_for(max(faults.SILENCE, silence_at(os.getloadavg()[0], os.cpu_count())))
        result = try_one(tools, references, arguments.seed, number, arguments.short)
        return None if interrupted.is_set() else result

    pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)
    futures = []
    try:
        for number in numbers:  # made by one, used by all
            references.of(draw(arguments.seed * 1_000_003 + number, kind_of(number, arguments.short), arguments.short))
        futures = [pool.submit(one, number) for number in numbers]
        for future in concurrent.futures.as_completed(futures):
            result = future.result()
            if result is None:
                continue
            results.append(result)
            print(json.dumps(result), flush=True)
            if arguments.results:
                with arguments.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    except KeyboardInterrupt:
        interrupted.set()
        print("interrupted: what runs is ended", file=sys.stderr, flush=True)
        pool.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in futures):  # a fault goes on with what comes next, until it sees that it failed
            end_all(scratch)
            time.sleep(0.1)
    finally:
        pool.shutdown()
        end_all(scratch)
        shutil.rmtree(scratch, ignore_errors=True)
    report = report_of(arguments, sorted(results, key=lambda result: result["number"]))
    if arguments.report:
        arguments.report.mkdir(parents=True, exist_ok=True)
        (arguments.report / "faults.json").write_text(json.dumps(report, indent=1) + "\n")
        (arguments.report / "index.html").write_text(page_of(report))
    print(f"{report['kept']} of {report['tried']} faults survived, {report['struck']} of them struck, {report['skipped']} skipped (measured)")
    if interrupted.is_set():
        return INTERRUPTED
    if report["broken"]:
        return 1
    return 0 if report["tried"] else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
