#!/usr/bin/python3
"""Makes the four files beside it from scikit-learn's copy of the UCI handwritten digits.

    apt-get install python3-sklearn
    core/data/digits/make_digits.py            # rewrites the files beside it, byte for byte the same each time

The split: of each digit, the 36 images whose pixels have the smallest SHA-256 are for testing (360), the rest for
training (1,437). That is stratified, needs no random generator, and keeps identical images together.
"""
import gzip
import hashlib
import pathlib
import struct

SOURCE = pathlib.Path("/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz")
TEST_IMAGES_PER_DIGIT = 36
SIDE = 8
FULL_SCALE = 16  # the source counts the set pixels of 4x4 cells


def read_source():
    samples = []
    for line in gzip.open(SOURCE, "rt"):
        *pixels, label = (int(float(field)) for field in line.split(","))
        assert len(pixels) == SIDE * SIDE and max(pixels) <= FULL_SCALE and 0 <= label < 10
        samples.append((bytes((pixel * 255 + FULL_SCALE // 2) // FULL_SCALE for pixel in pixels), label))
    assert len(samples) == 1797
    return samples


def split(samples):
    test = set()
    for digit in range(10):
        of_digit = [i for i, (_, label) in enumerate(samples) if label == digit]
        of_digit.sort(key=lambda i: (hashlib.sha256(samples[i][0]).digest(), i))
        test.update(of_digit[:TEST_IMAGES_PER_DIGIT])
    return ([s for i, s in enumerate(samples) if i not in test], [s for i, s in enumerate(samples) if i in test])


def write(name, dimensions, values):
    header = bytes([0, 0, 0x08, len(dimensions)]) + b"".join(struct.pack(">I", d) for d in dimensions)
    packed = gzip.compress(header + values, compresslevel=9, mtime=0)
    pathlib.Path(__file__).with_name(name).write_bytes(packed)
    print(f"{name}: {len(packed):,} bytes")


def main():
    for part, samples in zip(("train", "t10k"), split(read_source())):
        write(f"{part}-images-idx3-ubyte.gz", [len(samples), SIDE, SIDE], b"".join(pixels for pixels, _ in samples))
        write(f"{part}-labels-idx1-ubyte.gz", [len(samples)], bytes(label for _, label in samples))


if __name__ == "__main__":
    main()
