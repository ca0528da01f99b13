"""Images of 16 bits, and images with opacity."""

from __future__ import annotations

from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay import errors as E
from pictures import encoded

DEPTH = np.random.default_rng(1).integers(0, 1 << 16, (9, 14), dtype=np.uint16)


def of(*images: Any, **options: Any) -> fb.Dataset:
    return fb.from_dict({"image": [encoded(image, "PNG", **options) for image in images]})


def test_levels_of_16_bits_are_those_of_the_file():
    ds = of(DEPTH, DEPTH[:5]).decode_image("image", mode="I;16")
    assert str(ds.schema["image"]) == "uint16[?, ?, 1]"
    first, second = (row["image"] for row in ds)
    assert first.dtype == np.uint16
    assert np.array_equal(first[..., 0], DEPTH)
    assert np.array_equal(second[..., 0], DEPTH[:5])


def test_an_image_of_16_bits_is_moved_and_normalised():
    ds = of(DEPTH).decode_image("image", mode="I;16")
    (row,) = ds.crop("image", (4, 5), top=2, left=3).random_flip("image", p=1.0).pad("image", 1)
    want = np.zeros((6, 7), np.uint16)
    want[1:-1, 1:-1] = DEPTH[2:6, 3:8][:, ::-1]
    assert np.array_equal(row["image"][..., 0], want)
    (row,) = ds.random_flip("image", p=1.0).normalize("image", mean=0.25, std=0.5, layout="CHW")
    levels = DEPTH[None, :, ::-1].astype(np.float32)
    assert np.array_equal(row["image"], (levels / np.float32(65535) - np.float32(0.25)) / np.float32(0.5))
    (batch,) = of(DEPTH, DEPTH + 7).decode_image("image", mode="I;16").resize("image", 6).batch(2)
    assert batch["image"].dtype == np.uint16
    assert batch["image"].shape == (2, 6, 6, 1)


@pytest.mark.parametrize(
    ("image", "kind", "what"),
    [
        (DEPTH.astype(np.uint8), "PNG", "a grey png of 8 bits"),
        (np.zeros((4, 4, 3), np.uint8), "PNG", "a png of colours"),
        (np.zeros((4, 4, 3), np.uint8), "JPEG", "a jpeg"),
    ],
)
def test_other_images_have_no_levels_of_16_bits(image, kind, what):
    ds = fb.from_dict({"image": [encoded(image, kind)]}).decode_image("image", mode="I;16")
    with pytest.raises(E.DataError, match=f"{what}.* has no grey levels of 16 bits") as caught:
        next(iter(ds))
    assert 'mode="L"' in caught.value.hint


def test_ops_on_levels_take_8_bits_without_opacity():
    deep = of(DEPTH).decode_image("image", mode="I;16")
    clear = of(np.zeros((4, 4, 4), np.uint8)).decode_image("image", mode="RGBA")
    for ds in (deep, clear):
        for write in (
            lambda ds: ds.color_jitter("image", brightness=0.5),
            lambda ds: ds.random_rotation("image", 9),
            lambda ds: ds.resize("image", 8, antialias=False),
            lambda ds: ds.encode_image("image", "png"),
        ):
            with pytest.raises(E.InvalidPipelineError) as caught:
                write(ds)
            assert caught.value.hint
    with pytest.raises(E.InvalidPipelineError, match="fill"):
        deep.pad("image", 1, fill=3)
    (row,) = clear.pad("image", 1, fill=[1, 2, 3, 4])
    assert row["image"][0, 0].tolist() == [1, 2, 3, 4]
    assert row["image"][1, 1].tolist() == [0, 0, 0, 0]
