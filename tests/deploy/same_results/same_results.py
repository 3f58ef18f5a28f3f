"""Two builds of the command do the same: digests of trainings, plans, simulations and generated devices, to the last byte.

    same_results.py BEFORE AFTER [--only WORD]     two paths of `millrace`

For changes that are to move code and no behaviour. Each case runs in a folder of its own with either build; what both print is compared
without what they measure, and what they write byte by byte. Exit status 1 where anything differs, 77 where BEFORE is not there.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURED = re.compile(r"^.*\(measured.*$|\"(?:wall_|processor_|solve_|)seconds\": *[-\d.e+]+|planned in.*$|[\d.]+ m?s of (?:processor )?time",
                      re.MULTILINE)
DIGEST = re.compile(r"weights ([0-9a-f]{32})")


def trainings():
    alignments = ("flush", "1f1b", "zero-bubble", "fpdeep", "stash")
    for alignment, cluster in itertools.product(alignments, ("cpux2", "cpux4")):
        yield f"train --model digits-cnn --data digits --epochs 1 --cluster {cluster} --alignment {alignment}"
    for words in ("--cluster cpu --optimizer adam", "--cluster reference --steps 5", "--cluster reference64x2 --steps 5",
                  "--cluster emulated-fpgax2 --steps 3", "--cluster emulated-fpga-fp32x2 --steps 5", "--cluster vc709x2 --epochs 1",
                  "--cluster h200+cpu --epochs 1", "--cluster cpux2 --label-smoothing 0.1 --epochs 1",
                  "--cluster cpux2 --ema 0.9 --epochs 1", "--cluster cpux3 --micro-batch 4 --epochs 1"):
        yield f"train --model digits-cnn --data digits {words}"


def plans():
    models = ("vgg16", "alexnet", "resnet18 --batch-norm running", "vgg19-cifar", "lenet5")
    for model, cluster in itertools.product(models, ("vc709x5", "vc709x15", "u280x2+h200x2", "cpux4")):
        yield f"plan --model {model} --cluster {cluster} --accounting fpdeep --out plan.textproto"
    for words in ("--strategy layer", "--strategy data", "--strategy model", "--bits 32", "--explain", "--mini-batch 32"):
        yield f"plan --model vgg11 --cluster vc709x8 --accounting fpdeep --json {words}"


def simulations():
    for model, cluster in (("vgg16", "vc709x15"), ("alexnet", "vc709x5"), ("googlenet --batch-norm running", "vc709x10"), ("lenet5", "vc709x3"), ("vgg16", "vc709x40")):
        for words in ("", "--straggler 1=1.5", "--jitter-us 3", "--act-ram 1"):
            yield f"simulate --model {model} --cluster {cluster} --accounting fpdeep --images 16 --json {words}"


def devices():
    for index in range(4):
        yield (f"plan --model digits-cnn --cluster vc709x4 --accounting fpdeep --out plan.textproto && "
               f"$MILLRACE rtl --plan plan.textproto --device {index} --out rtl")


def words_of(kind):
    return {"trainings": trainings, "plans": plans, "simulations": simulations, "devices": devices}[kind]()


def outcome(millrace, words):
    """Exit status, what is printed without measurements, and the files that are written."""
    with tempfile.TemporaryDirectory(prefix="millrace-same-") as folder:
        done = subprocess.run(["bash", "-c", f"$MILLRACE {words}"], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                              env=dict(os.environ, MILLRACE=str(millrace), NO_COLOR="1"))
        digest = DIGEST.findall(done.stdout)
        printed = MEASURED.sub("", done.stdout + done.stderr)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
        return (done.returncode, digest, printed, files), done


def difference(old, new):
    """The names of files, or the first lines, that differ."""
    if isinstance(old, dict):
        return ", ".join(name for name in sorted(set(old) | set(new)) if old.get(name) != new.get(name))
    if isinstance(old, str):
        lines = [f"{was.strip()} | {now.strip()}" for was, now in itertools.zip_longest(old.splitlines(), new.splitlines(), fillvalue="") if was != now]
        return "; ".join(lines[:3])
    return f"{old}, {new}"


def main(arguments):
    before, after = (Path(name).resolve() for name in arguments[:2])
    if not before.is_file():
        print(f"{before} is not there: keep the build to compare with and name it")
        return 77
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    problems, failed = [], 0
    for kind in ("trainings", "plans", "simulations", "devices"):
        count = 0
        for words in words_of(kind):
            if only not in f"{kind} {words}":
                continue
            count += 1
            (was, _), (now, done) = outcome(before, words), outcome(after, words)
            if done.returncode != 0:
                failed += 1
                print(f"ends with {done.returncode}: {words}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}")
            for what, old, new in zip(("exit status", "digest", "text", "files"), was, now):
                if old != new:
                    problems.append(f"{words}: another {what}: {difference(old, new)}")
        print(f"{count} {kind}")
    print(f"{failed} of them end with an error, before as after")
    print("\n".join(problems) or "all the same")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
