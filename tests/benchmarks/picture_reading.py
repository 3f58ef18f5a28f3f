#!/usr/bin/env python3
"""Pictures per second on one thread, Millrace's reader beside Pillow's (python3-pil, python3-numpy), in one run:

    /usr/bin/python3 tests/benchmarks/picture_reading.py --bench build/release/bin/bench_picture_reading [--pictures 10000] [--size 64] [--out FILE.json]

Generates JPEGs with sides from 32 to 2,000 pixels, one in two hundred cut short. Pillow opens, converts, resizes (bilinear, draft off) and divides. Both are
measured in processor seconds, in rounds that take turns, so that a busy machine disturbs both alike. Pixels of whole pictures are compared.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from PIL import Image


def generate(folder, count, seed=3):
    draw = numpy.random.default_rng(seed)
    cut = set()
    largest = 0
    for i in range(count):
        rows, columns = (int(side) for side in 32 * (2000 / 32) ** draw.random(2))  # as many small ones as large ones
        largest = max(largest, 3 * rows * columns)
        small = draw.integers(0, 256, (max(2, rows // 16), max(2, columns // 16), 3)).astype(numpy.uint8)
        picture = Image.fromarray(small).resize((columns, rows), Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=int(draw.integers(70, 96)))
        content = buffer.getvalue()
        if i % 200 == 199:
            content = content[: len(content) // 2]
            cut.add(i)
        (folder / f"{i:06}.jpg").write_bytes(content)
    return cut, largest


def read_with_pillow(files, size):
    pixels = []
    began = time.process_time()
    for file in files:
        try:
            with Image.open(file) as picture:
                resized = picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
            values = numpy.asarray(resized)
            values.astype(numpy.float32) / numpy.float32(255)
            pixels.append(values)
        except OSError:
            pixels.append(None)
    return time.process_time() - began, pixels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default="build/release/bin/bench_picture_reading")
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pictures"
        folder.mkdir()
        cut, largest = generate(folder, options.pictures)
        files = sorted(folder.iterdir())
        ours, theirs = [], []
        for _ in range(options.rounds):
            seconds, pixels = read_with_pillow(files, options.size)
            theirs.append(seconds)
            raw = Path(place) / "pixels"
            found = json.loads(subprocess.run([options.bench, folder, str(options.size), raw], check=True, capture_output=True, text=True).stdout)
            ours.append(found["processor_seconds"])
        mine = numpy.fromfile(raw, numpy.uint8).reshape(len(files), 3, options.size, options.size).transpose(0, 2, 3, 1)
        worst = max(int(numpy.abs(mine[i].astype(int) - pixels[i]).max()) for i in range(len(files)) if i not in cut)
    row = {"pictures": options.pictures, "size": options.size, "damaged": found["damaged"], "cut": len(cut), "pillow_per_second": options.pictures / min(theirs),
           "millrace_per_second": options.pictures / min(ours), "ratio": min(theirs) / min(ours), "worst_difference": worst, "peak_memory_MB": found["peak_memory_MB"], "largest_picture_MB": largest / 1e6,
           "pillow": Image.__version__}
    print(json.dumps(row))
    if options.out:
        Path(options.out).write_text(json.dumps(row, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
