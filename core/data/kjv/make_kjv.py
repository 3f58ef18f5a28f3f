#!/usr/bin/python3
"""Makes the text beside it: Genesis, and Exodus 1 to 20, of the King James Bible.

    apt-get install bible-kjv bible-kjv-text
    core/data/kjv/make_kjv.py                  # rewrites kjv.txt.gz, byte for byte the same each time

One verse a line, without its number. The same arrangement as `--data text:kjv` makes of the whole.
"""
import gzip
import pathlib
import subprocess

VERSES = "gen1:1-exo20:26"


def main():
    listed = subprocess.run(["bible", "-f", VERSES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [line.split(" ", 1)[1] for line in listed.splitlines()]
    text = "\n".join(lines) + "\n"
    packed = gzip.compress(text.encode("ascii"), compresslevel=9, mtime=0)
    pathlib.Path(__file__).with_name("kjv.txt.gz").write_bytes(packed)
    print(f"{len(lines):,} verses, {len(text):,} characters, {len(packed):,} bytes packed")


if __name__ == "__main__":
    main()
