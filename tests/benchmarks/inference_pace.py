"""The pace of plans for inference by three readers: the planner, the simulator, and the engines as they are built.

    PATH=build/release/bin:$PATH python3 tests/benchmarks/inference_pace.py [RESULT.json]

All figures are modelled or simulated in virtual time; nothing is measured but the seconds that planning takes. Fails where two readers
differ by more than 1%.
"""

import json
import subprocess
import sys
import tempfile

MODELS = ("lrcn-lstm-256", "lrcn-lstm-512", "char-rnn", "text-classifier")
BOARDS = ("zc706", "vc709")


def told(*words):
    done = subprocess.run(["millrace", *words, "--json"], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main():
    rows, worst = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            for board in BOARDS:
                file = f"{folder}/{model}-{board}.textproto"
                plan = told("plan", "--model", model, "--cluster", board, "--inference", "--out", file)
                simulation = told("simulate", "--plan", file)
                built = told("rtl", "--plan", file, "--check")
                planned, simulated = plan["images_per_second"], simulation["images_per_second"]
                as_built = planned * built["pace_ratio"]
                worst = max(worst, abs(simulated / planned - 1), abs(as_built / planned - 1))
                rows.append({"model": model, "board": board, "planned": planned, "simulated": simulated, "built": as_built,
                             "planning_seconds": plan["solve_seconds"], "engines": built["engines"]})
                print(model, board, planned, simulated, as_built, flush=True)
    result = {"what": "sequences a second of plans for inference, by planner, simulator and engines as built", "largest_difference": worst,
              "origin": "planned, built: modelled; simulated: in virtual time; planning_seconds: measured", "rows": rows}
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=1) + "\n")
    return worst > 0.01


if __name__ == "__main__":
    sys.exit(main())
