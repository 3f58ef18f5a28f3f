"""The campaign itself: how long it lets ranks wait, and that an interrupt ends it soon, with its results and nothing left behind.

    campaign_test.py --mpirun mpirun --millrace bin/millrace
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import campaign
from ring_job import processes_with, require

END_WITHIN = 300  # seconds on a busy machine


def waits_by_load():
    require(campaign.silence_at(0.5, 2) == 3, "an idle machine")
    require(campaign.silence_at(4, 2) == 6, "two processes for each core")
    require(campaign.silence_at(15, 2) == 23, "a busy machine")
    require(campaign.silence_at(500, 2) == 30, "no longer than train waits unasked")


def ends_when_interrupted(arguments):
    with tempfile.TemporaryDirectory(prefix="millrace_campaign_") as folder:
        results = Path(folder) / "results.jsonl"
        words = [sys.executable, "-B", campaign.__file__, "--mpirun", arguments.mpirun, "--millrace", arguments.millrace, "--short", "--count", "4",
                 "--seed", "7", "--jobs", "2", "--results", str(results)]
        word = f"MILLRACE_CAMPAIGN_TEST={folder}"
        with subprocess.Popen(["env", word, f"TMPDIR={folder}", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while not results.exists() and job.poll() is None:
                time.sleep(0.05)
            began = time.monotonic()
            job.send_signal(signal.SIGINT)
            try:
                said = job.communicate(timeout=END_WITHIN)[1]
            except subprocess.TimeoutExpired:
                for pid in processes_with(word):
                    subprocess.run(["kill", "-9", str(pid)], check=False)
                raise
        require(job.returncode == campaign.INTERRUPTED, f"status {job.returncode}:\n{said}")
        require("interrupted" in said and "Traceback" not in said, said)
        kept = [json.loads(line) for line in results.read_text().splitlines()]
        require(kept and all(result.get("kept") or "skipped" in result for result in kept), f"faults that were cut off count as broken: {kept}")
        require(not processes_with(word), f"still there: {processes_with(word)}")
        require(not list(Path(folder).glob("millrace_faults_*")), "a scratch folder is left")
        print(f"ended after {time.monotonic() - began:.1f} s with {len(kept)} results")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--millrace", required=True)
    arguments = parser.parse_args()
    waits_by_load()
    ends_when_interrupted(arguments)


if __name__ == "__main__":
    main()
