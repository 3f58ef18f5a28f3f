#!/usr/bin/env python3
"""How long training waits for pictures that one thread decodes (python3-pil, python3-numpy):

    /usr/bin/python3 tests/benchmarks/picture_training.py --millrace build/release/bin/millrace [--pictures 2000] [--epochs 3] [--out FILE.json]

Trains vgg11-cifar on folders of generated JPEGs, ten classes, brought to 3x32x32, with random parts and flips: sides of 32 to 64 pixels, where training is
to wait less than 2% of its time, then up to 500 and up to 2,000, which only report it. Beside them stands the same network on as many images that lie
in memory: what is left of the wait there is what training with nothing to decode waits for as well. All figures are measured.
Ends with 1 when the small pictures make training wait 2% or more.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from PIL import Image

CLASSES = 10
LIMIT = 0.02


def generate(folder, count, longest, seed):
    draw = numpy.random.default_rng(seed)
    pixels = 0
    for i in range(count):
        rows, columns = (int(side) for side in 32 * (longest / 32) ** draw.random(2))
        small = draw.integers(0, 256, (max(2, rows // 8), max(2, columns // 8), 3)).astype(numpy.uint8)
        place = folder / f"class{i % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize((columns, rows), Image.Resampling.BICUBIC).save(place / f"{i:06}.jpg", quality=int(draw.integers(70, 96)))
        pixels += rows * columns
    return pixels / count


def train(options, data, out, *augmentation):
    command = [options.millrace, "train", "--model", "vgg11-cifar", "--data", data, "--epochs", str(options.epochs), "--mini-batch", "32",
               "--evaluate-every", "0", "--out", str(out), *augmentation]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = [event for event in events if event["event"] == "done"][-1]
    pace = [event["images_per_second"] for event in events if event.get("images_per_second")]
    return {"seconds": last["seconds"], "data_wait_seconds": last["data_wait_seconds"], "wait_share": last["data_wait_seconds"] / last["seconds"],
            "images_per_second": pace[-1] if pace else None, "peak_memory_MB": round(last["peak_memory_bytes"] / 1e6, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default="build/release/bin/millrace")
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for longest in (64, 500, 2000):
            folder = Path(place) / f"pictures{longest}"
            mean = generate(folder, options.pictures, longest, longest)
            row = {"longest_side": longest, "mean_pixels": round(mean)}
            row.update(train(options, f"pictures:{folder},size=3x32x32,threads=1", Path(place) / f"run{longest}", "--crop-area", "0.25", "--flip"))
            rows.append(row)
            print(json.dumps(row), flush=True)
        row = {"longest_side": 0, "mean_pixels": 1024}
        row.update(train(options, f"synthetic:3x32x32:{CLASSES}:{options.pictures * 4 // 5}", Path(place) / "run0", "--flip"))
        rows.append(row)
        print(json.dumps(row), flush=True)
    result = {"what": "share of training's time spent waiting for samples, one decoding thread; measured", "model": "vgg11-cifar", "pictures": options.pictures,
              "epochs": options.epochs, "machine": platform.processor() or platform.machine(), "rows": rows}
    if options.out:
        Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    return 0 if rows[0]["wait_share"] < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
