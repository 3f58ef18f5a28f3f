"""What a build of the command does, as digests: 20 trainings, 60 plans, 20 simulations and 10 generated devices.

    record_digests.py MILLRACE > digests.json [--only WORD]

Each case runs in a folder of its own. Its digest is over the exit status, what is printed without what is measured, and every file that is
written, byte by byte; two builds that do the same write the same document. same_results.py runs two builds and says what differs.
"""

import hashlib
import itertools
import json
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
    models = ("vgg16", "alexnet", "resnet18 --batch-norm running", "vgg19-cifar", "lenet5", "vgg11-cifar", "digits-cnn", "fashion-cnn",
              "vgg16-cifar", "char-rnn")
    for model, cluster in itertools.product(models, ("vc709x5", "vc709x15", "u280x2+h200x2", "cpux4", "zc706x2+cpu")):
        yield f"plan --model {model} --cluster {cluster} --accounting fpdeep --out plan.textproto"
    for words in ("--strategy layer", "--strategy data", "--strategy model", "--bits 32", "--explain", "--mini-batch 32", "--alignment flush",
                  "--alignment 1f1b", "--alignment stash", "--alignment zero-bubble"):
        yield f"plan --model vgg11 --cluster vc709x8 --accounting fpdeep --json {words}"


def simulations():
    for model, cluster in (("vgg16", "vc709x15"), ("alexnet", "vc709x5"), ("googlenet --batch-norm running", "vc709x10"), ("lenet5", "vc709x3"), ("vgg16", "vc709x40")):
        for words in ("", "--straggler 1=1.5", "--jitter-us 3", "--act-ram 1"):
            yield f"simulate --model {model} --cluster {cluster} --accounting fpdeep --images 16 --json {words}"


def devices():
    for model, count in (("digits-cnn", 4), ("lenet5", 3), ("fashion-cnn", 3)):
        for index in range(count):
            yield (f"plan --model {model} --cluster vc709x{count} --accounting fpdeep --out plan.textproto && "
                   f"$MILLRACE rtl --plan plan.textproto --device {index} --out rtl")


KINDS = {"trainings": trainings, "plans": plans, "simulations": simulations, "devices": devices}


def outcome(millrace, words):
    """Exit status, the weights' digests, what is printed without measurements, the files that are written; and the finished process."""
    with tempfile.TemporaryDirectory(prefix="millrace-same-") as folder:
        done = subprocess.run(["bash", "-c", f"$MILLRACE {words}"], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                              env=dict(os.environ, MILLRACE=str(millrace), NO_COLOR="1"))
        weights = DIGEST.findall(done.stdout)
        printed = MEASURED.sub("", done.stdout + done.stderr).replace(str(millrace), "millrace")
        files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
        return (done.returncode, weights, printed, files), done


def digest_of(found):
    status, weights, printed, files = found
    total = hashlib.sha256(f"{status} {weights} {printed}".encode())
    for name, content in files.items():
        total.update(name.encode() + hashlib.sha256(content).digest())
    return total.hexdigest()[:32]


def main(arguments):
    millrace = Path(arguments[0]).resolve()
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    record = {}
    for kind, cases in KINDS.items():
        record[kind] = {}
        for words in cases():
            if only not in f"{kind} {words}":
                continue
            found, done = outcome(millrace, words)
            record[kind][words] = {"status": done.returncode, "digest": digest_of(found)}
    print(json.dumps(record, indent=1))
    for kind, cases in record.items():
        failed = sum(case["status"] != 0 for case in cases.values())
        print(f"{len(cases)} {kind}, {failed} of them end with an error", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
