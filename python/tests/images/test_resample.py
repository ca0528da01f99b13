"""`interpolation=`: pixels that are Pillow's, of any filter, also of crops."""

from __future__ import annotations

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from PIL import Image

FILTERS = ["nearest", "box", "bilinear", "bicubic", "lanczos"]


#: Channels, and the bits of a level.
KINDS = [(1, 8), (2, 8), (3, 8), (4, 8), (1, 16)]


def picture(draw: np.random.Generator, channels: int, bits: int = 8) -> np.ndarray:
    height, width = draw.integers(1, 70, 2)
    if bits == 16:
        return draw.choice([0, 3_000, 41_000, 65_535], (height, width, 1)).astype(np.uint16)
    smooth = np.add.outer(np.arange(height) * 5, np.arange(width) * 3)[..., None] % 256
    noise = draw.integers(0, 90, (height, width, channels))
    return np.clip(smooth + noise - 40, 0, 255).astype(np.uint8)


def pillows(pixels: np.ndarray, size: tuple[int, int], interpolation: str) -> np.ndarray:
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if image.size == size[::-1]:
        return pixels
    opaque = {"LA": "La", "RGBA": "RGBa"}.get(image.mode) if interpolation != "nearest" else None
    if opaque:
        resized = image.convert(opaque)
        for part in [(size[1], image.height), size[::-1]]:
            resized = resized.resize(part, getattr(Image.Resampling, interpolation.upper()))
        return np.asarray(resized.convert(image.mode))
    how = getattr(Image.Resampling, interpolation.upper())
    # Columns, then rows, as Pillow did up to version 12. Version 13 begins with rows where that is less work.
    resized = image.resize((size[1], image.height), how).resize(size[::-1], how)
    return np.asarray(resized).reshape(*size, pixels.shape[2])


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize(("channels", "bits"), KINDS)
def test_resized_pixels_are_pillows(interpolation: str, channels: int, bits: int):
    if (interpolation, bits) == ("nearest", 16):
        pytest.skip("Pillow rounds the places of some pixels otherwise in mode I;16")
    draw = np.random.default_rng(FILTERS.index(interpolation))
    images = [picture(draw, channels, bits) for _ in range(40)]
    for size in [(1, 1), (7, 90), (64, 5), (33, 41)]:
        schema = {"image": (f"uint{bits}", (None, None, channels))}
        ds = fb.from_map_dataset([{"image": image} for image in images], schema=schema)
        ds = ds.resize("image", size, interpolation=interpolation)
        for row, image in zip(ds, images, strict=True):
            assert np.array_equal(row["image"], pillows(image, size, interpolation)), image.shape


@pytest.mark.parametrize("interpolation", FILTERS)
def test_a_random_part_is_resized_as_pillow_does(interpolation: str):
    draw = np.random.default_rng(5)
    # Each pixel encodes its place, and a resize to the size of the part changes no pixel, so the pixels show the part.
    place = np.stack(np.meshgrid(np.arange(60), np.arange(50)), axis=-1).astype(np.uint8)
    image = draw.integers(0, 256, (50, 60, 3), dtype=np.uint8)
    image[..., :2] = place
    for seed in range(20):
        ds = fb.from_numpy({"image": image[None]})
        (part,) = ds.random_crop("image", (21, 30)).iter(seed=seed)
        left, top = part["image"][0, 0, :2]
        (row,) = ds.random_crop("image", (21, 30)).resize("image", 16, interpolation=interpolation).iter(seed=seed)
        want = pillows(image[top : top + 21, left : left + 30], (16, 16), interpolation)
        assert np.array_equal(row["image"], want)


def test_a_filter_without_averaging_is_refused():
    ds = fb.from_numpy({"image": np.zeros((2, 8, 8, 3), np.uint8)})
    for op in (ds.resize, ds.random_resized_crop):
        with pytest.raises(E.InvalidPipelineError, match="antialias=False with interpolation"):
            op("image", 4, interpolation="bicubic", antialias=False)
        with pytest.raises(E.InvalidPipelineError, match="unknown interpolation"):
            op("image", 4, interpolation="cubic")  # type: ignore[arg-type]
    assert "resize(image, (4, 4), lanczos)" in ds.resize("image", 4, interpolation="lanczos").explain()


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (lambda ds: ds.crop("image", 6, top=3), "the part is outside"),
        (lambda ds: ds.crop("image", 0), "size"),
        (lambda ds: ds.pad("image", (1, 2, 3)), "is no border"),
        (lambda ds: ds.pad("image", -1), "padding"),
        (lambda ds: ds.pad("image", 1, fill=(1, 2)), "fill has 2 values for 3 channels"),
        (lambda ds: ds.random_crop("image", 9), "too small"),
        (lambda ds: ds.random_crop("image", 9, padding=1, fill=256), "fill"),
    ],
)
def test_wrong_parts_are_refused_where_they_are_written(write, what):
    with pytest.raises(E.InvalidPipelineError, match=what):
        write(fb.from_numpy({"image": np.zeros((2, 8, 8, 3), np.uint8)}))


def test_an_image_without_the_part_is_named():
    images = [np.zeros((side, side, 3), np.uint8) for side in (9, 8, 5, 9)]
    ds = fb.from_map_dataset([{"image": image} for image in images])
    for cut in (ds.crop("image", 6, left=1), ds.random_crop("image", 6)):
        with pytest.raises(
            E.DataError, match=r"a crop of \(6, 6\) .* of 5 rows, 5 columns|of an image of 5 rows"
        ) as info:
            list(cut)
        assert info.value.hint
        assert len(list(cut.iter(on_error="skip"))) == 3
