"""Every op against the library that users trust for it."""

from __future__ import annotations

import io
import math

import forebay as fb
import numpy as np
import pytest
from pictures import encoded, picture
from PIL import Image

X = np.random.default_rng(5).standard_normal(200)
I = np.random.default_rng(6).integers(-50, 50, 200)  # noqa: E741


def numbers() -> fb.Dataset:
    return fb.from_numpy({"x": X, "i": I, "f": X.astype(np.float32), "u": (I + 50).astype(np.uint8)})


def whole(ds: fb.Dataset) -> dict:
    (batch,) = list(ds.batch(10_000))
    return batch


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_allclose(
        got, want, rtol=1e-6, atol=0
    ) if want.dtype.kind == "f" else np.testing.assert_array_equal(got, want)


c = fb.col


@pytest.mark.parametrize(
    ("expression", "numpy"),
    [
        (c("x") * 2 + 1, X * 2 + 1),
        (c("f") * 2 + 1, X.astype(np.float32) * 2 + 1),
        (c("i") // 7, I // 7),
        (c("i") % 7, I % 7),
        (c("i") / 4, I / 4),
        (c("u") + 1, (I + 50).astype(np.uint8) + 1),
        (c("u") + c("i"), (I + 50).astype(np.uint8) + I),
        (-c("x"), -X),
        (abs(c("i")), abs(I)),
        (c("x") > 0, X > 0),
        ((c("x") > 0) & ~(c("i") == 3), (X > 0) & ~(I == 3)),
        ((c("i") >= 10) | (c("i") <= -10), (I >= 10) | (I <= -10)),
        (abs(c("x")).log1p(), np.log1p(abs(X))),
        (c("x").exp(), np.exp(X)),
        (abs(c("x")).sqrt(), np.sqrt(abs(X))),
        (c("x").floor(), np.floor(X)),
        (c("x").clip(-0.5, 0.5), X.clip(-0.5, 0.5)),
        (fb.where(c("x") > 0, c("x"), 0.0), np.where(X > 0, X, 0.0)),
        (c("x").cast("float32"), X.astype(np.float32)),
        (c("i").cast("float64"), I.astype(np.float64)),
    ],
    ids=str,
)
def test_expressions_are_numpys(expression, numpy):
    same(whole(numbers().with_column("y", expression))["y"], numpy)


def test_filters_by_expression_and_by_function_agree():
    by_expression = whole(numbers().filter((c("x") > 0.3) & (c("i") % 2 == 0)))
    by_function = whole(numbers().filter(lambda r: r["x"] > 0.3 and r["i"] % 2 == 0))
    by_columns = whole(numbers().filter(lambda b: (b["x"] > 0.3) & (b["i"] % 2 == 0), batched=True))
    keep = (X > 0.3) & (I % 2 == 0)
    for got in (by_expression, by_function, by_columns):
        np.testing.assert_array_equal(got["x"], X[keep])
        np.testing.assert_array_equal(got["i"], I[keep])


def test_hash_mod_is_stable_and_even():
    ds = fb.range(10_000).with_column("h", c("id").hash_mod(10)).batch(10_000)
    (a,), (b,) = list(ds), list(ds)
    np.testing.assert_array_equal(a["h"], b["h"])
    counts = np.bincount(a["h"], minlength=10)
    assert counts.sum() == 10_000
    assert counts.min() > 850


def test_columns_are_selected_dropped_renamed_and_cast():
    ds = numbers()
    assert list(ds.select("u", "x").schema) == ["u", "x"]
    assert list(ds.select(["u", "x"]).schema) == ["u", "x"]
    assert list(ds.drop("x", "i").schema) == ["f", "u"]
    assert list(ds.rename({"x": "y"}, i="j").schema) == ["y", "j", "f", "u"]
    same(whole(ds.cast(x="float32", i="int16"))["i"], I.astype(np.int16))
    same(whole(ds.cast({"u": bool}))["u"], (I + 50).astype(bool))
    same(whole(ds.with_column("x", c("i") + 1))["x"], I + 1)
    same(whole(ds.rename(x="z"))["z"], X)


def test_order_ops_are_pythons():
    def ids(ds: fb.Dataset) -> list[int]:
        return [int(r["id"]) for r in ds]

    ds = fb.range(20)
    assert ids(ds.take(3)) == [0, 1, 2]
    assert ids(ds.skip(17)) == [17, 18, 19]
    assert ids(ds.shard(6, 2)) == [2, 8, 14]
    assert ids(ds.repeat(2)) == list(range(20)) * 2
    assert ids(ds.skip(2).take(5).repeat(2).shard(3, 1)) == ([2, 3, 4, 5, 6] * 2)[1::3]
    assert ids(ds.take(0)) == []
    assert ids(ds.skip(99)) == []
    assert ids(ds.filter(c("id") % 2 == 1).skip(1).take(4)) == [3, 5, 7, 9]
    assert sorted(ids(ds.shuffle())) == list(range(20))
    assert sorted(ids(ds.shuffle().repeat(3))) == sorted(list(range(20)) * 3)
    endless = iter(ds.repeat())
    assert [int(next(endless)["id"]) for _ in range(50)] == [i % 20 for i in range(50)]
    endless.close()


@pytest.mark.parametrize("n", [1, 2, 17, 1000])
def test_a_shuffle_is_a_permutation_and_differs_by_epoch_and_seed(n):
    ds = fb.range(n).shuffle().batch(n)
    orders = {(s, e): tuple(next(ds.iter(seed=s, epoch=e))["id"].tolist()) for s in (0, 1) for e in (0, 1)}
    assert all(sorted(o) == list(range(n)) for o in orders.values())
    if n >= 17:
        assert len(set(orders.values())) == 4
    assert next(ds.iter(seed=1, epoch=1))["id"].tolist() == list(orders[1, 1])


def test_cardinality_is_what_comes():
    for ds in (
        fb.range(100).batch(7),
        fb.range(100).batch(7, drop_remainder=True),
        fb.range(100).skip(3).shard(4, 1).repeat(2).batch(5),
        fb.range(100).take(9),
    ):
        assert ds.cardinality == len(list(ds))
    assert fb.range(9).repeat().cardinality == math.inf
    assert fb.range(9).filter(c("id") > 1).cardinality is None


IMAGES = {
    "png": (encoded(picture(1, 37, 53), "PNG"), 0),
    "grey.png": (encoded(picture(2, 20, 20)[..., 0], "PNG"), 0),
    "jpg": (encoded(picture(3, 40, 61), "JPEG", quality=90), 0),
    "420.jpg": (encoded(picture(4, 33, 47), "JPEG", quality=75, subsampling=2), 0),
    "webp": (encoded(picture(5, 30, 30), "WEBP", lossless=True), 0),
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_images_decode_as_pillow_does(name, mode):
    data, _ = IMAGES[name]
    (got,) = (row["image"] for row in fb.from_dict({"image": [data]}).decode_image("image", mode=mode))
    want = np.asarray(Image.open(io.BytesIO(data)).convert(mode))
    want = want[..., None] if mode == "L" else want
    assert got.shape == want.shape
    limit = 1 if mode == "L" and name != "grey.png" else 0
    assert np.abs(got.astype(int) - want).max() <= limit


@pytest.mark.parametrize("size", [(10, 14), (37, 53), (80, 90), (5, 100)])
def test_resize_is_pillows_bilinear_within_a_level(size):
    pixels = picture(7, 37, 53)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image").resize("image", size)
    assert ds.schema["image"] == ("uint8", (*size, 3))
    want = np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR))
    got = next(iter(ds))["image"]
    assert np.abs(got.astype(int) - want).max() <= 1


@pytest.mark.parametrize(
    ("shape", "max_size", "want"),
    [((37, 53), None, (16, 22)), ((53, 37), None, (22, 16)), ((37, 53), 20, (14, 20)), ((9, 9), 20, (16, 16))],
)
def test_resize_by_the_shorter_side_keeps_the_shape_as_torchvision_does(shape, max_size, want):
    pixels = picture(7, *shape)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image")
    ds = ds.resize("image", shorter=16, max_size=max_size)
    assert ds.schema["image"] == ("uint8", (None, None, 3))
    got = next(iter(ds))["image"]
    assert got.shape == (*want, 3)
    exact = Image.fromarray(pixels).resize(want[::-1], Image.Resampling.BILINEAR)
    assert np.abs(got.astype(int) - np.asarray(exact)).max() <= 1


def test_center_crop_cuts_and_pads():
    pixels = picture(8, 10, 20)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image")
    np.testing.assert_array_equal(next(iter(ds.center_crop("image", (6, 8))))["image"], pixels[2:8, 6:14])
    padded = next(iter(ds.center_crop("image", 20)))["image"]
    np.testing.assert_array_equal(padded[5:15], pixels)
    assert not padded[:5].any()
    assert not padded[15:].any()


def test_normalize_is_torchvisions_recipe():
    pixels = picture(9, 16, 16)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image")
    mean, std = np.array(fb.IMAGENET_MEAN, np.float32), np.array(fb.IMAGENET_STD, np.float32)
    want = (pixels.astype(np.float32) / 255 - mean) / std
    got = next(iter(ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)))["image"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    chw = next(iter(ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CHW")))["image"]
    assert chw.shape == (3, 16, 16)
    np.testing.assert_array_equal(chw, got.transpose(2, 0, 1))


def test_random_flip_flips_or_leaves():
    pixels = picture(10, 8, 8)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")] * 200}).decode_image("image").random_flip("image")
    flipped = [bool((row["image"] == pixels[:, ::-1]).all()) for row in ds]
    for row, f in zip(ds, flipped, strict=True):
        np.testing.assert_array_equal(row["image"], pixels[:, ::-1] if f else pixels)
    assert 60 < sum(flipped) < 140
    assert all((r["image"] == pixels).all() for r in ds.iter()) is False
    down = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image")
    down = down.random_flip("image", p=1, direction="vertical")
    np.testing.assert_array_equal(next(iter(down))["image"], pixels[::-1])
    np.testing.assert_array_equal(next(iter(down.random_flip("image", p=1)))["image"], pixels[::-1, ::-1])
    never = fb.from_dict({"image": [encoded(pixels, "PNG")]}).decode_image("image").random_flip("image", p=0)
    np.testing.assert_array_equal(next(iter(never))["image"], pixels)


def test_random_resized_crop_keeps_to_its_scale_and_ratio():
    # Each pixel encodes its place, so that a crop shows which part it has cut.
    y, x = np.mgrid[0:200, 0:200]
    pixels = np.stack([y, x, y * 0], -1).astype(np.uint8)
    ds = fb.from_dict({"image": [encoded(pixels, "PNG")] * 150}).decode_image("image")
    ds = ds.random_resized_crop("image", 50, scale=(0.25, 0.5), ratio=(0.8, 1.25))
    areas = []
    for row in ds:
        crop = row["image"].astype(float)
        height = (crop[-1, 0, 0] - crop[0, 0, 0]) * 50 / 49
        width = (crop[0, -1, 1] - crop[0, 0, 1]) * 50 / 49
        areas.append(height * width / 200**2)
        assert 0.7 < width / height < 1.4
    assert 0.2 < min(areas) < max(areas) < 0.56
    assert max(areas) - min(areas) > 0.12


def test_a_fused_chain_is_its_ops_one_after_another():
    data = [encoded(picture(i, 40 + i, 50), "JPEG") for i in range(6)]
    base = fb.from_dict({"image": data}).decode_image("image")
    fused = base.resize("image", (24, 20)).center_crop("image", 16).normalize("image", mean=[0.5] * 3, std=[0.25] * 3)
    for row, jpeg in zip(fused, data, strict=True):
        pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB").resize((20, 24), Image.Resampling.BILINEAR))
        want = (pixels[4:20, 2:18].astype(np.float32) / 255 - 0.5) / 0.25
        assert np.abs(row["image"] - want).max() <= 1.01 / 255 / 0.25


def test_clip_refuses_a_whole_number_that_its_bound_would_not_be():
    with pytest.raises(ValueError, match="no float64 is"):
        fb.col("id").clip(high=2**53 + 1)
    wide = fb.from_dict({"id": [2**60 + 7, 5]}).with_column("id", fb.col("id").clip(high=2**60))
    assert [int(row["id"]) for row in wide] == [2**60, 5]
