"""GIF, BMP and TIFF files, as Pillow writes them and other programs may, decoded beside Pillow."""

from __future__ import annotations

import io
import struct
import warnings
from typing import Any, Literal

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
import tifffile
from pictures import picture
from PIL import Image

Mode = Literal["RGB", "L", "RGBA", "LA", "P", "I;16"]
RNG = np.random.default_rng(3)
#: Widths that end inside a byte, and inside the four bytes to which BMP rounds a row.
SIZES = [(1, 1), (7, 5), (16, 9), (33, 20)]


def decode(data: bytes, mode: Mode = "RGB", **options: Any) -> np.ndarray:
    return next(iter(fb.from_dict({"image": [data]}).decode_image("image", mode=mode, **options)))["image"]


def file(image: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def drawn(mode: str, width: int, height: int) -> Image.Image:
    """Returns an image of a mode of Pillow's."""
    if mode == "I;16":
        return Image.fromarray(RNG.integers(0, 65536, (height, width)).astype(np.uint16))
    if mode == "1":
        return Image.fromarray(RNG.random((height, width)) < 0.4)
    if mode == "CMYK":
        return Image.fromarray(RNG.integers(0, 256, (height, width, 4)).astype(np.uint8), "CMYK")
    image = Image.fromarray(picture(int(RNG.integers(99)), height, width))
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray(RNG.integers(0, 256, (height, width)).astype(np.uint8)))
    return image.quantize(13) if mode == "P" else image.convert(mode)


def same(data: bytes, *modes: Mode) -> None:
    """Checks that an image has Pillow's pixels in these modes."""
    with Image.open(io.BytesIO(data)) as opened:
        opened.load()
        for mode in modes:
            want = np.array(opened.convert(mode))
            got = decode(data, mode)
            assert np.array_equal(got, want.reshape(got.shape)), (mode, opened.mode, opened.size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_a_bmp_has_the_pixels_of_pillows(mode, size):
    same(file(drawn(mode, *size), "BMP"), "RGB", "L", "RGBA", "LA")


def test_a_bmp_may_have_few_bits_and_begin_at_the_top():
    def bmp(bits: int, pixels: bytes, size: tuple[int, int], compression: int = 0, masks: bytes = b"") -> bytes:
        palette = RNG.integers(0, 256, 4 * (1 << bits)).astype(np.uint8).tobytes() if bits <= 8 else b""
        start = 14 + 40 + len(masks) + len(palette)
        header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(pixels), 0, 0, 0, 0)
        return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + masks + palette + pixels

    def noise(stride: int) -> bytes:
        return RNG.integers(0, 256, stride * 6).astype(np.uint8).tobytes()

    for bits, stride in ((1, 4), (4, 8), (8, 12), (16, 20), (24, 28), (32, 36)):
        for height in (6, -6):
            same(bmp(bits, noise(stride), (9, height)), "RGB", "L", "RGBA")
    for bits, stride, masks in (
        (16, 20, (0xF800, 0x7E0, 0x1F)),
        (16, 20, (0x7C00, 0x3E0, 0x1F)),
        (32, 36, (0xFF0000, 0xFF00, 0xFF)),
        (32, 36, (0xFF000000, 0xFF0000, 0xFF00)),
    ):
        same(bmp(bits, noise(stride), (9, 6), 3, struct.pack("<III", *masks)), "RGB", "L")
    numbers = decode(bmp(4, bytes(range(0x12, 0x72)), (13, 12)), "P")
    assert numbers[-1, :4, 0].tolist() == [1, 2, 1, 3]
    with pytest.raises(E.DataError, match="a bmp of 8 bits and compression 1 is not read"):
        decode(bmp(8, noise(12), (9, 6), compression=1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", [{}, {"interlace": 0}, {"transparency": 3}])
def test_a_gif_has_the_pixels_of_pillows_first_frame(size, options):
    data = file(drawn("P", *size), "GIF", **options)
    same(data, "RGB", "L", "RGBA", "LA")
    with Image.open(io.BytesIO(data)) as opened:
        assert np.array_equal(decode(data, "P")[..., 0], np.array(opened))
    frames = [drawn("RGB", *size) for _ in range(3)]
    same(file(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=20), "RGB", "RGBA")


@pytest.mark.parametrize("transparent", [None, 1])
def test_a_gif_whose_frame_covers_a_part_of_its_screen(transparent):
    data = bytearray(file(drawn("P", 6, 4), "GIF", **({} if transparent is None else {"transparency": transparent})))
    data[6:10] = struct.pack("<HH", 11, 9)
    at = data.index(b"\x2c")
    data[at + 1 : at + 5] = struct.pack("<HH", 3, 2)
    same(bytes(data), "RGB", "RGBA")
    data[at + 1 : at + 5] = struct.pack("<HH", 8, 2)
    with pytest.raises(E.DataError, match="damaged gif"):
        decode(bytes(data))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "CMYK"])
def test_a_tiff_has_the_pixels_of_pillows(mode, compression, size):
    same(file(drawn(mode, *size), "TIFF", compression=compression), "RGB", "L", "RGBA", "LA")


@pytest.mark.parametrize("size", SIZES)
def test_a_faxed_tiff_has_the_pixels_of_pillows(size):
    same(file(drawn("1", *size), "TIFF", compression="group4"), "RGB", "L")


def test_levels_of_16_bits_are_kept_or_their_upper_byte():
    image = drawn("I;16", 13, 8)
    levels = np.array(image)
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate"):
        data = file(image, "TIFF", compression=compression)
        assert np.array_equal(decode(data, "I;16")[..., 0], levels)
        assert np.array_equal(decode(data, "L")[..., 0], levels >> 8)
    with pytest.raises(E.DataError, match="has no grey levels of 16 bits"):
        decode(file(drawn("L", 4, 4), "TIFF"), "I;16")


def test_tiles_planes_pages_and_byte_orders(tmp_path):
    pixels = RNG.integers(0, 256, (40, 50, 3)).astype(np.uint8)
    deep = RNG.integers(0, 65536, (40, 50, 3)).astype(np.uint16)
    for number, (array, options) in enumerate(
        (
            (pixels, {"tile": (16, 32)}),
            (pixels, {"tile": (16, 32), "compression": "deflate", "predictor": True}),
            (pixels, {"rowsperstrip": 7, "compression": "deflate"}),
            (pixels, {"byteorder": ">"}),
            (np.moveaxis(pixels, -1, 0).copy(), {"planarconfig": "separate"}),
            (deep, {"byteorder": ">"}),
            (deep, {"compression": "deflate", "predictor": True}),
            (pixels, {"bigtiff": True}),
        )
    ):
        path = tmp_path / f"{number}.tif"
        tifffile.imwrite(path, array, photometric="rgb", **options)
        want = deep >> 8 if array is deep else pixels
        assert np.array_equal(decode(path.read_bytes()), want), options
    pages = [drawn("RGB", 9, 7) for _ in range(3)]
    data = file(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert np.array_equal(decode(data), np.array(pages[0]))


def test_pixels_that_are_not_read_say_so():
    floats = Image.fromarray(RNG.random((4, 5)).astype(np.float32))
    fax, jpeg = {"compression": "group3"}, {"compression": "jpeg"}
    for image, options, what in (
        (floats, {}, r"a tiff is not read: Gray\(32\)"),
        (drawn("P", 8, 8), {}, "a tiff is not read: "),
        (drawn("1", 8, 8), fax, "a tiff is not read: compression method Fax3"),
        (drawn("RGB", 16, 16), jpeg, "a tiff is not read: compression method ModernJPEG"),
    ):
        with pytest.raises(E.DataError, match=what) as caught:
            decode(file(image, "TIFF", **options))
        assert "hint: save it as RGB or grey" in str(caught.value)
    with pytest.raises(E.DataError, match="a tiff is not read: "):
        decode(file(drawn("P", 8, 8), "TIFF"), "P")
    with pytest.raises(E.DataError, match="a tiff of colours or grey levels has no palette"):
        decode(file(drawn("L", 8, 8), "TIFF"), "P")
    for format in ("BMP", "GIF"):
        with pytest.raises(E.DataError, match="has no grey levels of 16 bits"):
            decode(file(drawn("L", 4, 4), format), "I;16")


def test_planes_beyond_the_colours_are_left_out(tmp_path):
    path = tmp_path / "planes.tif"
    planes = RNG.integers(0, 256, (600, 20, 30)).astype(np.uint8)
    tifffile.imwrite(path, planes, photometric="rgb", planarconfig="separate", compression="deflate")
    assert np.array_equal(decode(path.read_bytes()), np.moveaxis(planes[:3], 0, -1))


def test_a_tiff_is_turned_by_its_orientation_on_request():
    image = drawn("RGB", 12, 7)
    data = file(image, "TIFF", tiffinfo={274: 6})
    assert np.array_equal(decode(data), np.array(image))
    assert np.array_equal(decode(data, orientation="exif"), np.rot90(np.array(image), -1))


@pytest.mark.parametrize("format", ["GIF", "BMP", "TIFF"])
def test_damage_is_an_error_or_other_pixels_and_a_crop_sees_what_the_image_has(format):
    """Every prefix, and random bytes: never a panic, and a fused crop fails where the image fails."""
    data = file(drawn("P" if format == "GIF" else "RGB", 21, 17), format)
    whole, cuts = decode(data), fb.from_dict({"image": [data[:cut] for cut in range(len(data))]}).decode_image("image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pixels = [row["image"] for row in cuts.iter(on_error="skip", error_budget=1.0)]
    # A GIF ends with bytes that no pixel needs.
    assert len(pixels) <= (20 if format == "GIF" else 0)
    assert all(np.array_equal(image, whole) for image in pixels)
    damaged = []
    for _ in range(400):
        copy = bytearray(data)
        for place in RNG.integers(0, min(len(data), 400), 3):
            copy[place] = RNG.integers(0, 256)
        damaged.append(bytes(copy))
    ds = fb.from_dict({"n": list(range(400)), "image": damaged}).decode_image("image")

    def small(ds: fb.Dataset, **options: Any) -> dict[int, bytes]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {row["n"]: row["image"].tobytes() for row in ds.iter(on_error="skip", error_budget=1.0, **options)}

    cropped = ds.center_crop("image", 5)
    assert small(cropped, threads=1) == small(cropped, threads=3)
    cut_later = ds.cast({"image": "int16"}).cast({"image": "uint8"}).center_crop("image", 5)
    assert small(cropped) == small(cut_later)
