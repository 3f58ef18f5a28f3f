"""What bundle.py packs, run from a folder of its own where no GPU is to be seen: it loads, refuses in words, and every slice is accounted for.

    python3 bundle_test.py build/release/bin

Exit status 77 where the build has no CUDA module. A machine's own GPUs are hidden from the programs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

BUNDLE = Path(__file__).resolve().parent / "bundle.py"
failures = []


def expect(condition, what, seen=""):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}: {seen}")


def stand_in(folder, sees_a_gpu):
    """An nvidia-smi that finds a GPU, or none, before any of the machine's."""
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text('#!/bin/sh\ncase "$*" in *name*) echo "A GPU" ;; esac\n' if sees_a_gpu else "#!/bin/sh\nexit 9\n", encoding="utf-8")
    tool.chmod(0o755)
    return folder


def main():
    binaries = Path(sys.argv[1])
    if not (binaries / "libmillrace_cuda.so").exists():
        print("skipped: this build has no CUDA module")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        packed = work / "packed"
        subprocess.run([sys.executable, "-B", BUNDLE, binaries, packed], check=True)
        nothing = work / "empty"
        nothing.mkdir()

        def run(*command, tools=None):
            path = f"{tools}:/usr/bin:/bin" if tools else "/usr/bin:/bin"
            environment = {"PATH": path, "CUDA_VISIBLE_DEVICES": "", "HOME": str(work)}
            return subprocess.run([str(word) for word in command], cwd=nothing, env=environment, capture_output=True, text=True, check=False)

        refused = "skipped: needs a GPU"
        plain, report = run(packed / "run.sh"), run(packed / "run.sh", "--json")
        expect(plain.returncode == 77 and plain.stdout.startswith(refused), "the device's check refuses", plain)
        expect(report.returncode == 77 and report.stdout == "" and report.stderr.startswith(refused), "a report that is none stays empty", report)
        expect(run(packed / "run.sh", "--fast").returncode == 2, "a wrong word")
        expect(len((packed / "commit").read_text(encoding="utf-8").split()) == 1, "the commit")
        if not (packed / "run_on_gpu.sh").exists():
            print("without the recurrent kernels' programs, which are not built")
            return 1 if failures else 0

        without = run(packed / "run_on_gpu.sh", tools=stand_in(work / "without", sees_a_gpu=False))
        expect(without.returncode == 1 and "no GPU here" in without.stderr, "no GPU", without)
        expect(not (packed / "gpu-results").exists(), "nothing is left where nothing ran")
        # A driver that promises a GPU which the programs then do not find: nothing passes, and nothing is tried for ever.
        day = run(packed / "run_on_gpu.sh", tools=stand_in(work / "with", sees_a_gpu=True))
        results = packed / "gpu-results"
        expect(day.returncode == 1 and "makes no progress" in day.stderr, "a day without a result", day)
        for name in ("correctness", "device-check"):
            outcome = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
            expect((outcome["outcome"], outcome["status"]) == ("skipped", 77), f"{name} is accounted for", outcome)
            expect(f"{name} did not pass" in day.stderr, f"{name} is told", day.stderr)
        for name in ("quick", "grid"):
            expect((results / f"{name}.given_up").exists(), f"{name} is given up")
            expect("GPU" in (results / f"{name}.log").read_text(encoding="utf-8"), f"why {name} did not run")
            expect(f"{name} was given up" in day.stderr, f"{name} is told", day.stderr)
        expect("No such file" not in day.stderr, "no error of the script's own", day.stderr)
    if not failures:
        print("what is packed runs from anywhere, and says what it could not do")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
