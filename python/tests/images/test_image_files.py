"""Images encoded and decoded: formats, opacity, EXIF orientation; and several crops of one image. Beside Pillow."""

from __future__ import annotations

import io
from typing import Any

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from pictures import picture
from PIL import Image, ImageOps

PIXELS = [picture(i, 20 + i, 33 - 2 * i) for i in range(6)]
ORIENTATION = 0x0112


def images(ds: fb.Dataset, **options: Any) -> list[np.ndarray]:
    return [row["image"] for row in ds.iter(**options)]


def pictures(pixels: list[np.ndarray] = PIXELS) -> fb.Dataset:
    return fb.from_map_dataset([{"image": image} for image in pixels])


def file(image: Image.Image, format: str, orientation: int | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    if orientation is not None:
        exif = Image.Exif()
        exif[0x010F] = "a maker"
        exif[ORIENTATION] = orientation
        options["exif"] = exif
    image.save(out, format, **options)
    return out.getvalue()


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("quality", [None, 30, 95])
def test_a_jpeg_has_the_pixels_of_pillows(grey, quality):
    pixels = [image[..., :1].copy() for image in PIXELS] if grey else PIXELS
    files = images(pictures(pixels).encode_image("image", quality=quality))
    for ours, image in zip(files, pixels, strict=True):
        with Image.open(io.BytesIO(ours)) as got:
            assert got.format == "JPEG"
            assert got.mode == ("L" if grey else "RGB")
            theirs = file(Image.fromarray(image[..., 0] if grey else image), "JPEG", quality=quality or 75)
            with Image.open(io.BytesIO(theirs)) as want:
                assert np.array_equal(np.array(got), np.array(want))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_keeps_every_pixel(channels):
    pixels = [image[..., :channels].copy() for image in PIXELS] + [np.full((1, 1, channels), 9, np.uint8)]
    encoded = pictures(pixels).encode_image("image", "png")
    again = images(encoded.decode_image("image", mode="L" if channels == 1 else "RGB"))
    assert all(np.array_equal(a, b) for a, b in zip(again, pixels, strict=True))
    assert images(encoded, threads=3) == images(encoded)


def test_encoded_images_are_saved_and_read_again(tmp_path):
    pictures().resize("image", 16).encode_image("image", "png").rename(image="png").save(str(tmp_path), format="tar")
    read = fb.from_tar(str(tmp_path / "*.tar")).decode_image("png")
    want = images(pictures().resize("image", 16))
    assert all(np.array_equal(row["png"], image) for row, image in zip(read, want, strict=True))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_an_image_is_turned_as_exif_transpose_turns_it(format, orientation):
    options = {"lossless": True} if format == "WEBP" else {}
    data = file(Image.fromarray(PIXELS[0]), format, orientation, **options)
    ds = fb.from_dict({"image": [data]})
    with Image.open(io.BytesIO(data)) as opened:
        upright = ImageOps.exif_transpose(opened).convert("RGB")
        stored = np.array(opened.convert("RGB"))
    decoded = ds.decode_image("image", orientation="exif")
    assert np.array_equal(images(decoded)[0], np.array(upright))
    assert np.array_equal(images(ds.decode_image("image"))[0], stored)
    # Fused with ops that read a part, or that mirror.
    want = np.array(upright.crop((3, 2, 15, 12)).resize((7, 9), Image.Resampling.BILINEAR))
    small = decoded.crop("image", (10, 12), top=2, left=3).resize("image", (9, 7))
    assert "one pass" in small.explain()
    assert np.array_equal(images(small)[0], want)
    flipped = decoded.random_flip("image", p=1).random_flip("image", p=1, direction="vertical")
    assert np.array_equal(images(flipped)[0], np.array(upright)[::-1, ::-1])


@pytest.mark.parametrize("cut", range(20, 80, 3))
def test_damaged_exif_data_state_no_orientation(cut):
    data = bytearray(file(Image.fromarray(PIXELS[0]), "PNG", 6))
    start = data.index(b"eXIf") + 4
    # The offset of the directory, its length, or an entry.
    data[start + cut % 26] ^= 0xFF
    row = images(fb.from_dict({"image": [bytes(data)]}).decode_image("image", orientation="exif"))[0]
    assert sorted(row.shape[:2]) == sorted(PIXELS[0].shape[:2])


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("of", ["RGBA", "LA", "RGB", "L", "P"])
def test_opacity_is_that_of_pillow(mode, of):
    image = Image.fromarray(PIXELS[1]).convert("RGBA")
    image.putalpha(Image.fromarray(PIXELS[1][..., 2]))
    data = file(image.convert(of), "PNG")
    with Image.open(io.BytesIO(data)) as opened:
        want = np.array(opened.convert(mode))
    got = images(fb.from_dict({"image": [data]}).decode_image("image", mode=mode))[0]
    assert got.shape[-1] == len(mode)
    assert np.array_equal(got, want)
    jpeg = images(fb.from_dict({"image": [file(image.convert("RGB"), "JPEG")]}).decode_image("image", mode=mode))[0]
    assert (jpeg[..., -1] == 255).all()


def test_five_crops_are_the_corners_and_the_middle():
    ds = pictures().five_crop("image", (10, 8), into="part")
    for row, image in zip(ds, PIXELS, strict=True):
        assert np.array_equal(row["part_top_left"], image[:10, :8])
        assert np.array_equal(row["part_top_right"], image[:10, -8:])
        assert np.array_equal(row["part_bottom_left"], image[-10:, :8])
        assert np.array_equal(row["part_bottom_right"], image[-10:, -8:])
        assert row["part_center"].shape == (10, 8, 3)
    shifted = images(pictures().crop("image", (10, 8), top=3, left=1, corner="bottom_right"))
    assert all(np.array_equal(got, image[-13:-3, -9:-1]) for got, image in zip(shifted, PIXELS, strict=True))
    with pytest.raises(E.DataError, match="a crop of"):
        images(pictures().crop("image", (40, 8), corner="bottom_right"))


def test_each_crop_of_several_has_a_draw_of_its_own():
    ds = pictures().multi_crop("image", 16, 2, into="large", scale=(0.5, 1)).multi_crop("image", 8, 3, into="small")
    rows = list(ds.drop("image").iter(seed=1))
    names = ["large_0", "large_1", "small_0", "small_1", "small_2"]
    assert [sorted(row) for row in rows] == [names] * len(PIXELS)
    assert [rows[0][name].shape[0] for name in names] == [16, 16, 8, 8, 8]
    assert not np.array_equal(rows[0]["small_0"], rows[0]["small_1"])
    again = list(ds.drop("image").iter(seed=1, threads=3))
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(rows, again, strict=True) for name in names)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.encode_image("image", "gif"), "format 'gif'"),
        (lambda ds: ds.encode_image("image", quality=101), "quality=101"),
        (lambda ds: ds.encode_image("image", "png", quality=80), 'quality with format="png"'),
        (lambda ds: ds.encode_image("image").encode_image("image"), "encoded already"),
        (lambda ds: ds.normalize("image", mean=[0.5] * 3, std=[0.5] * 3).encode_image("image"), "float32"),
        (lambda ds: ds.encode_image("image").multi_crop("image", 8, 2, into="a"), "not decoded yet"),
        (lambda ds: ds.multi_crop("image", 8, 0, into="a"), "count=0"),
        (lambda ds: ds.five_crop("image", 8).five_crop("image", 8), "there is a column 'image_top_left' already"),
        (lambda ds: ds.five_crop("nothing", 8), "nothing"),
        (lambda ds: ds.crop("image", 8, corner="middle"), "corner 'middle'"),
        (lambda ds: ds.encode_image("image").decode_image("image", orientation="up"), "orientation 'up'"),
    ],
)
def test_wrong_arguments_are_named(make, says):
    with pytest.raises((E.InvalidPipelineError, E.NotFoundError), match=says):
        make(fb.from_numpy({"image": np.zeros((2, 20, 20, 3), np.uint8)}))
