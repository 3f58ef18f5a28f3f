"""Two builds of the command do the same: the cases of record_digests.py, to the last byte.

    same_results.py BEFORE AFTER [--only WORD]     two paths of `millrace`, or BEFORE a document of record_digests.py

For changes that are to move code and no behaviour. Exit status 1 where anything differs, 77 where BEFORE is not there.
"""

import itertools
import json
import sys
from pathlib import Path

from record_digests import KINDS, digest_of, outcome


def difference(old, new):
    """The names of files, or the first lines, that differ."""
    if isinstance(old, dict):
        return ", ".join(name for name in sorted(set(old) | set(new)) if old.get(name) != new.get(name))
    if isinstance(old, str):
        lines = [f"{was.strip()} | {now.strip()}" for was, now in itertools.zip_longest(old.splitlines(), new.splitlines(), fillvalue="") if was != now]
        return "; ".join(lines[:3])
    return f"{old}, {new}"


def problems_of(before, kind, words, now):
    """What differs from BEFORE: a build, or a document."""
    if isinstance(before, dict):
        recorded = before.get(kind, {}).get(words, {}).get("digest")
        return [] if recorded == digest_of(now) else [f"{words}: another digest than recorded"]
    was, _ = outcome(before, words)
    return [f"{words}: another {what}: {difference(old, new)}"
            for what, old, new in zip(("exit status", "digest", "text", "files"), was, now) if old != new]


def main(arguments):
    before, after = (Path(name).resolve() for name in arguments[:2])
    if not before.is_file():
        print(f"{before} is not there: keep the build to compare with, or what record_digests.py says of it, and name it")
        return 77
    if before.suffix == ".json":
        before = json.loads(before.read_text(encoding="utf-8"))
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    problems, failed = [], 0
    for kind, cases in KINDS.items():
        chosen = [words for words in cases() if only in f"{kind} {words}"]
        for words in chosen:
            now, done = outcome(after, words)
            if done.returncode != 0:
                failed += 1
                print(f"ends with {done.returncode}: {words}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}")
            problems += problems_of(before, kind, words, now)
        print(f"{len(chosen)} {kind}")
    print(f"{failed} of them end with an error, before as after")
    print("\n".join(problems) or "all the same")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
