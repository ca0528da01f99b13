"""`decode_image(mode="P")`: the numbers of a PNG's palette, as Pillow returns them."""

from __future__ import annotations

import io
import struct
import zlib

import forebay as fb
import numpy as np
import pytest
from PIL import Image

ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(numbers: np.ndarray, bits: int, interlaced: bool, colour: int = 3) -> bytes:
    """Writes an image in forms that Pillow cannot write: interlaced, of any depth."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def rows(part: np.ndarray) -> bytes:
        levels = np.unpackbits(part[..., None], axis=-1)[..., 8 - bits :].reshape(len(part), -1)
        return b"".join(b"\0" + np.packbits(row).tobytes() for row in levels)

    parts = [numbers[y::down, x::right] for y, x, down, right in ADAM7] if interlaced else [numbers]
    data = b"".join(rows(part) for part in parts if part.size)
    height, width = numbers.shape
    palette = bytes((i * 37 + c * 91) % 256 for i in range(2**bits) for c in range(3))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced)))
        + (chunk(b"PLTE", palette) if colour == 3 else b"")
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def decoded(images: list[bytes], **how: object) -> fb.Dataset:
    return fb.from_dict({"mask": images}).decode_image("mask", mode="P", **how)


def test_numbers_of_a_palette_are_pillows() -> None:
    draw = np.random.default_rng(1)
    images = []
    for bits in (1, 2, 4, 8):
        for interlaced in (False, True):
            for height, width in ((1, 1), (3, 5), (8, 8), (13, 31), (40, 23)):
                numbers = draw.integers(0, 2**bits, (height, width), dtype=np.uint8)
                images.append(png(numbers, bits, interlaced))
                assert np.array_equal(np.asarray(Image.open(io.BytesIO(images[-1]))), numbers)
    # Twice, in two orders: the bits of an interlaced image are combined in memory that other images have used.
    for order in (images, images[::-1]):
        for row, image in zip(decoded(order).iter(threads=1), order, strict=True):
            assert np.array_equal(row["mask"][..., 0], np.asarray(Image.open(io.BytesIO(image))))


def test_a_crop_of_classes_is_a_crop() -> None:
    numbers = np.random.default_rng(2).integers(0, 16, (30, 40), dtype=np.uint8)
    masks = decoded([png(numbers, 4, False)]).center_crop("mask", (10, 12))
    (row,) = masks
    assert np.array_equal(row["mask"][..., 0], numbers[10:20, 14:26])
    assert "decode_image(mask, mode=P)" in str(masks.explain())


def written(form: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, form)
    return file.getvalue()


@pytest.mark.parametrize(
    ("image", "what"),
    [
        (written("JPEG"), "a jpeg has no palette"),
        (written("WEBP"), "a webp has no palette"),
        (written("PNG"), "a png of colours or grey levels has no palette"),
        (png(np.zeros((4, 4), np.uint8), 4, False, colour=0), "a png of colours or grey levels has no palette"),
    ],
)
def test_an_image_without_a_palette_is_refused(image: bytes, what: str) -> None:
    with pytest.raises(fb.errors.DataError, match=what) as info:
        list(decoded([image]))
    assert "mode=" in str(info.value)


@pytest.mark.parametrize("mode", ["RGB", "P"])
@pytest.mark.parametrize("more", [1, 2])
def test_a_palette_that_ends_inside_a_colour_is_damage(mode, more):
    image = png(np.zeros((4, 4), np.uint8), 2, interlaced=False)
    start = image.index(b"PLTE")
    length = struct.unpack(">I", image[start - 4 : start])[0]
    palette = b"PLTE" + image[start + 4 : start + 4 + length] + bytes(more)
    longer = struct.pack(">I", length + more) + palette + struct.pack(">I", zlib.crc32(palette))
    image = image[: start - 4] + longer + image[start + 8 + length :]
    with pytest.raises(fb.errors.DataError, match=f"a palette of {length + more} bytes ends inside a colour"):
        list(fb.from_dict({"image": [image]}).decode_image("image", mode=mode).iter())
