"""Runs one case file: commands with the exact output people are to see.

    python3 run_case.py MILLRACE CASE.txt

A case file reads like a terminal:

    # Text for the reader.
    ? grep -q avx /proc/cpuinfo || echo no AVX    what the case needs: words on standard output skip it, and say why
    $ millrace eval --checkpoint nowhere          a bash command; every case runs in a fresh folder of its own
    ! millrace: nowhere: holds no ...             one line of standard error
    = 1                                           the exit status, when it is not 0
    $ millrace train --json | tail -n 1           a failing part of a pipe fails the whole
    {"event":"done","weights_digest":"<digest:A>"...}

Lines without a mark are standard output. Within an expected line `...` stands for any text, `<n>` for a number, of any width in a
column (two spaces or more before or behind it are any number of spaces); alone on
its line `...` stands for any lines. `<digest:A>` is 32 hexadecimal digits, the same wherever A stands; `<digest:not A>`
other ones. A command without `$`, in lines that start with `>`, continues the one before.
Blank lines do not count, nor do lines of progress on standard error, which a slow machine has more of. Everything else does: output that
the file does not foresee is a failure. Beside `millrace`, the commands of tools/ are there.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

SECONDS_PER_COMMAND = 300
SKIPPED = 77
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PLACEHOLDER = re.compile(r"(\.\.\.| {2,}<n>(?: {2,})?|<n>(?: {2,})?|<digest:(?:not )?\w+>)")
NEED = "? "
PROGRESS = re.compile(r"[^:]+: \d+/\d+ \(\d+%\), .* left\b.*")


@dataclass
class Step:
    line: int
    command: str
    output: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    status: int = 0


def parse(text):
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("#", NEED)) or not line.strip():
            continue
        mark, rest = line[:2], line[2:]
        if mark == "$ ":
            steps.append(Step(number, rest))
            continue
        if not steps:
            raise ValueError(f"line {number}: output before the first command: {line}")
        step = steps[-1]
        if mark == "> ":
            step.command += "\n" + rest
        elif mark == "! ":
            step.errors.append(rest)
        elif mark == "= ":
            step.status = int(rest)
        else:
            step.output.append(line)
    if not steps:
        raise ValueError("no command in it")
    return steps


class Digests:
    """The digests seen under each name, over a whole case."""

    def __init__(self):
        self.known = {}

    def agree(self, names, values):
        """Takes in all of one line, or tells what does not agree."""
        for name, value in zip(names, values):
            if name.startswith("not "):
                if self.known.get(name[4:]) == value:
                    return f"digest {value} is that of {name[4:]}, expected another"
            elif self.known.setdefault(name, value) != value:
                return f"digest {value} is not that of {name}, {self.known[name]}"
        return None


def line_differs(expected, actual, digests):
    """None when the line is the expected one, else why not."""
    pattern, names = "", []
    for part in PLACEHOLDER.split(expected):
        if part == "...":
            pattern += ".*"
        elif part.strip() == "<n>":
            pattern += (" +" if part[0] == " " else "") + NUMBER + (" +" if part[-1] == " " else "")
        elif part.startswith("<digest:"):
            names.append(part[len("<digest:") : -1])
            pattern += "([0-9a-f]{32})"
        else:
            pattern += re.escape(part)
    match = re.fullmatch(pattern, actual)
    if match is None:
        return "the line differs"
    return digests.agree(names, match.groups())


def differs(expected, actual, digests):
    """None when the lines are as expected, else why not. A lone `...` takes as few lines as it can."""
    at = 0
    for i, line in enumerate(expected):
        if line == "...":
            rest = expected[i + 1 :]
            reason = "too few lines"
            for skip in range(at, len(actual) + 1):
                reason = differs(rest, actual[skip:], digests)
                if reason is None:
                    return None
            return reason
        if at == len(actual):
            return f"missing: {line}"
        reason = line_differs(line, actual[at], digests)
        if reason is not None:
            return f"{reason}\n  expected: {line}\n  actual:   {actual[at]}"
        at += 1
    return None if at == len(actual) else f"unforeseen: {actual[at]}"


def environment(millrace):
    tools = pathlib.Path(__file__).resolve().parent / "tools"
    values = dict(os.environ)
    values["PATH"] = os.pathsep.join([str(pathlib.Path(millrace).resolve().parent), str(tools), values["PATH"]])
    values.update(LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1")
    values.pop("MILLRACE_DATA_DIR", None)
    for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"):  # in instrumented builds, too: no memory is an error, not an abort
        values[name] = ":".join(filter(None, [values.get(name), "allocator_may_return_null=1"]))
    return values


def missing(text, millrace):
    """What the case needs and this machine lacks, in words; empty where it can run."""
    for line in text.splitlines():
        if line.startswith(NEED):
            shell = ["bash", "-o", "pipefail", "-c", line[len(NEED) :]]
            done = subprocess.run(shell, env=environment(millrace), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_PER_COMMAND)
            if done.stderr or (done.returncode != 0 and not done.stdout):
                raise ValueError(f"{line}: exit status {done.returncode} {done.stderr}")
            if done.stdout.strip():
                return done.stdout.strip()
    return ""


def run(steps, millrace):
    """Failures as texts; stops at the first, since later commands build on earlier ones."""
    digests = Digests()
    instrumented = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ  # the presets set them
    with tempfile.TemporaryDirectory(prefix="millrace-case-") as folder:
        for step in steps:
            if "ulimit" in step.command and instrumented:
                print(f"line {step.line}: left out, no limit leaves a sanitizer the addresses and files of its own")
                continue
            shell = ["bash", "-o", "pipefail", "-c", step.command]
            try:
                done = subprocess.run(
                    shell, cwd=folder, env=environment(millrace), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_PER_COMMAND
                )
            except subprocess.TimeoutExpired:
                return [f"line {step.line}: $ {step.command}\nstill running after {SECONDS_PER_COMMAND} s"]
            reasons = []
            if done.returncode != step.status:
                reasons.append(f"exit status {done.returncode}, expected {step.status}")
            for what, expected, actual in (("standard output", step.output, done.stdout), ("standard error", step.errors, done.stderr)):
                lines = [line for line in actual.splitlines() if line.strip()]
                if what == "standard error":
                    lines = [line for line in lines if not PROGRESS.fullmatch(line)]
                reason = differs(expected, lines, digests)
                if reason is not None:
                    reasons.append(f"{what}: {reason}")
            if reasons:
                shown = f"--- standard output\n{done.stdout}--- standard error\n{done.stderr}"
                return [f"line {step.line}: $ {step.command}\n" + "\n".join(reasons) + "\n" + shown]
    return []


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the check may run under nohup, whose deaf ear commands would inherit
    millrace, case = arguments
    text = pathlib.Path(case).read_text(encoding="utf-8")
    steps = parse(text)
    lack = missing(text, millrace)
    if lack:
        print(f"skipped: {lack}")
        return SKIPPED
    failures = run(steps, millrace)
    for failure in failures:
        print(f"{case}: {failure}", file=sys.stderr)
    if not failures:
        print(f"{len(steps)} commands as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
