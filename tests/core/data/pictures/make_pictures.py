"""Makes the pictures beside it and what Pillow makes of them (python3-pil, python3-numpy):

    /usr/bin/python3 make_pictures.py

Every format that people keep pictures in, small; expected.npz holds each picture brought to 16 rows of 20 pixels and to 70 rows of 50, in
colour and in grey, [channel][row][column].
"""

from pathlib import Path

import numpy
from PIL import Image

HERE = Path(__file__).parent
SIZES = {"small": (16, 20), "large": (70, 50)}


def scene(rows, columns, seed):
    """Soft colours with a few edges and some noise, as photographs have."""
    draw = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:rows, 0:columns]
    waves = [numpy.sin(x / draw.uniform(4, 12) + draw.uniform(0, 6)) * numpy.cos(y / draw.uniform(4, 12)) for _ in range(3)]
    picture = 128 + 80 * numpy.stack(waves, axis=-1)
    picture[rows // 4 : rows // 2, columns // 3 : 2 * columns // 3] += 60
    return numpy.clip(picture + draw.normal(0, 6, picture.shape), 0, 255).astype(numpy.uint8)


def main():
    colour = Image.fromarray(scene(47, 61, 1))
    grey = Image.fromarray(scene(53, 33, 2)[..., 0])
    clear = Image.fromarray(numpy.concatenate([scene(31, 40, 3), scene(31, 40, 4)[..., :1]], axis=-1), "RGBA")
    deep = Image.fromarray((scene(29, 37, 5)[..., 0].astype(numpy.uint16) * 257 + 13).astype(numpy.int32)).convert("I")
    pictures = {
        "colour.jpg": (colour, {"quality": 90}),
        "subsampled.jpg": (colour, {"quality": 75, "subsampling": 2}),
        "progressive.jpg": (colour, {"quality": 85, "progressive": True}),
        "grey.jpg": (grey, {"quality": 90}),
        "ink.jpg": (colour.convert("CMYK"), {"quality": 90}),
        "colour.png": (colour, {}),
        "grey.png": (grey, {}),
        "clear.png": (clear, {}),
        "palette.png": (colour.quantize(17), {}),
        "bits.png": (grey.convert("1"), {}),
        "deep.png": (deep, {}),
    }
    expected = {}
    for name, (picture, options) in pictures.items():
        picture.save(HERE / name, **options)
        read = Image.open(HERE / name)
        if name == "deep.png":  # Pillow keeps 16 bits; the upper eight are what is wanted
            read = Image.fromarray((numpy.asarray(read).astype(numpy.int64) >> 8).astype(numpy.uint8))
        for size, (rows, columns) in SIZES.items():
            for mode, suffix in (("RGB", "colour"), ("L", "grey")):
                resized = read.convert(mode).resize((columns, rows), Image.Resampling.BILINEAR)
                values = numpy.asarray(resized)
                expected[f"{name}.{size}.{suffix}"] = values[None] if mode == "L" else numpy.ascontiguousarray(values.transpose(2, 0, 1))
    numpy.savez_compressed(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
