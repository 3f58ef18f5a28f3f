#!/usr/bin/python3
"""Makes labelled passages out of the text beside it: in which of four stories do twenty words stand?

    core/data/kjv/make_passages.py FOLDER
    millrace train --model text-classifier --data arrays:FOLDER,layout=ids ...

The stories: Adam to Babel (Genesis 1 to 11), Abraham and Isaac (12 to 26), Jacob and Joseph (27 to 50), Moses (Exodus 1 to 20).
Words in small letters, without punctuation. Of every 200 words of a story the last 40 are for testing, as passages that share no word;
the others are for training, a passage from every tenth word on. Words that the training part has less than twice are one and the same,
number 0; the others are numbered by how often they are there. The same files each time; the standard library alone.
"""
import collections
import gzip
import pathlib
import re
import struct
import sys

# Verses up to the story's end.
STORIES = {"Adam to Babel": 299, "Abraham and Isaac": 728, "Jacob and Joseph": 1533, "Moses": 2078}
WORDS, STRIDE, STRETCH, HELD_OUT = 20, 10, 200, 40


def write_array(path, kind, shape, values):
    """NumPy's format, version 1; kind "f" are floats of 4 bytes, "i" whole numbers of 8."""
    header = f"{{'descr': '<{kind}{8 if kind == 'i' else 4}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    content = struct.pack(f"<{len(values)}{'q' if kind == 'i' else 'f'}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def stretches_of(verses):
    """Of each story, stretches of words for training and for testing: (part, label, words)."""
    first = 0
    for label, end in enumerate(STORIES.values()):
        words = re.findall(r"[a-z]+", " ".join(verses[first:end]).lower())
        for begin in range(0, len(words), STRETCH):
            stretch = words[begin : begin + STRETCH]
            yield "train", label, stretch[: STRETCH - HELD_OUT]
            yield "test", label, stretch[STRETCH - HELD_OUT :]
        first = end


def write_passages(folder):
    """Writes the arrays, and returns how many different words they have."""
    verses = gzip.decompress(pathlib.Path(__file__).with_name("kjv.txt.gz").read_bytes()).decode("ascii").splitlines()
    stretches = list(stretches_of(verses))
    counts = collections.Counter(word for part, _, words in stretches if part == "train" for word in words)
    known = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    numbers = {word: 1 + place for place, word in enumerate(known)}
    for part, stride in (("train", STRIDE), ("test", WORDS)):
        ids, labels = [], []
        for of_part, label, words in stretches:
            for begin in range(0, len(words) - WORDS + 1, stride) if of_part == part else ():
                ids += [numbers.get(word, 0) for word in words[begin : begin + WORDS]]
                labels.append(label)
        write_array(folder / f"x_{part}.npy", "i", (len(labels), WORDS), ids)
        write_array(folder / f"y_{part}.npy", "i", (len(labels),), labels)
        print(f"{part}: {len(labels):,} passages,", ", ".join(f"{labels.count(i)} {name}" for i, name in enumerate(STORIES)))
    (folder / "classes.txt").write_text("\n".join(STORIES) + "\n")
    return 1 + len(numbers)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{write_passages(folder):,} different words")


if __name__ == "__main__":
    main()
