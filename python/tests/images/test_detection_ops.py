"""Random ops that move boxes, masks and points: maps, SSD's crop and expansion, policies."""

from __future__ import annotations

from typing import Any

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest

HEIGHT, WIDTH = 60, 80

MOVES = {
    "random_affine": lambda ds: ds.random_affine("image", 40, translate=(0.2, 0.2), scale=(0.7, 1.5), shear=20),
    "random_perspective": lambda ds: ds.random_perspective("image", 0.4, p=1, interpolation="nearest"),
    "random_zoom_out": lambda ds: ds.random_zoom_out("image", side_range=(1, 2), p=0.7),
    "random_iou_crop": lambda ds: ds.random_iou_crop("image"),
    "trivial_augment": lambda ds: ds.trivial_augment("image").random_perspective("image", 0.3),
}


def sample(number: int) -> dict[str, Any]:
    """Makes an image whose first two channels say where each pixel was: three times its column and its row, plus 1."""
    draw = np.random.default_rng(number)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    corner = draw.uniform(0, 0.6, (6, 2)) * [WIDTH, HEIGHT]
    far = corner + draw.uniform(0.1, 0.4, (6, 2)) * [WIDTH, HEIGHT]
    return {
        "image": np.stack([3 * columns + 1, 3 * rows + 1, columns * 0], axis=-1).astype(np.uint8),
        "mask": (3 * columns + 1).astype(np.uint8),
        "boxes": np.concatenate([corner, far], axis=1).astype(np.float32),
        "labels": np.arange(6),
        "points": np.concatenate([(corner + far) / 2, np.ones((6, 1))], axis=1).astype(np.float32),
    }


def detection(rows: int = 60, **how: Any) -> fb.Dataset:
    ds = fb.from_map_dataset([sample(number) for number in range(rows)])
    return ds.annotate("image", boxes="boxes", labels="labels", masks="mask", points="points", **how)


@pytest.mark.parametrize("op", MOVES)
def test_points_and_masks_stay_on_their_pixels(op):
    seen = 0
    for number, row in enumerate(MOVES[op](detection()).iter(seed=4)):
        given = sample(number)
        image, height, width = row["image"].astype(float), *row["image"].shape[:2]
        if op == "trivial_augment" and image[..., 2].any():
            continue  # Other colours.
        is_same = op != "trivial_augment"
        assert not is_same or np.array_equal(row["mask"], row["image"][..., 0])
        for (x, y, visible), (was_x, was_y, _) in zip(row["points"], given["points"], strict=True):
            at = image[min(int(y), height - 1), min(int(x), width - 1)]
            if visible and at[1] and is_same:
                # A pixel of the result may cover some of the image.
                assert abs((at[0] - 1) / 3 + 0.5 - was_x) < 3.5
                assert abs((at[1] - 1) / 3 + 0.5 - was_y) < 3.5
                seen += 1
        assert len(row["boxes"]) == len(row["labels"])
        assert (row["boxes"][:, :2] >= 0).all()
        assert (row["boxes"][:, 2:] <= [width, height]).all()
    assert seen > 100 or op == "trivial_augment"


def test_an_iou_crop_keeps_boxes_whose_centres_are_inside():
    cropped = 0
    for number, row in enumerate(detection().random_iou_crop("image").iter(seed=2)):
        given = sample(number)["boxes"]
        left, top = (row["image"][0, 0, :2].astype(int) - 1) // 3
        height, width = row["image"].shape[:2]
        cropped += (height, width) != (HEIGHT, WIDTH)
        if (height, width) == (HEIGHT, WIDTH):
            assert row["labels"].tolist() == list(range(6))
            continue
        assert 0.5 <= width / height <= 2
        assert width >= 0.29 * WIDTH
        assert height >= 0.29 * HEIGHT
        centres = (given[:, :2] + given[:, 2:]) / 2
        inside = ((centres > [left, top]) & (centres < [left + width, top + height])).all(axis=1)
        assert row["labels"].tolist() == np.flatnonzero(inside).tolist()
        want = np.clip(given[inside] - [left, top] * 2, 0, [width, height] * 2)
        np.testing.assert_allclose(row["boxes"], want, atol=1e-4)
    assert cropped > 30


def test_an_iou_crop_needs_its_boxes_also_if_nothing_else_does():
    crops = [row["image"] for row in detection().random_iou_crop("image").select("image").iter(seed=2)]
    want = [row["image"] for row in detection().random_iou_crop("image").iter(seed=2)]
    assert all(np.array_equal(a, b) for a, b in zip(crops, want, strict=True))
    alone = detection().with_column("x", fb.lit(1)).random_iou_crop("image").with_column("y", fb.lit(1))
    assert all(np.array_equal(row["image"], b) for row, b in zip(alone.iter(seed=2), want, strict=True))


def test_an_image_without_boxes_is_left_as_it_is():
    row = {**sample(0), "boxes": np.zeros((0, 4), np.float32), "labels": np.zeros(0, int)}
    ds = fb.from_map_dataset([row] * 3).annotate("image", boxes="boxes", labels="labels")
    assert [r["image"].shape for r in ds.random_iou_crop("image", overlaps=[0.1])] == [(HEIGHT, WIDTH, 3)] * 3


def test_the_recipe_of_ssd_runs_as_it_is_written():
    ds = (
        detection(min_area=4)
        .random_zoom_out("image", fill=(123, 117, 104))
        .random_iou_crop("image")
        .random_flip("image")
        .resize("image", 32)
        .batch(8, pad=0, lengths={"labels": "count"})
    )
    first = list(ds.iter(seed=5))
    assert first[0]["image"].shape == (8, 32, 32, 3)
    for one, other in zip(first, ds.iter(seed=5, threads=3), strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"overlaps": []}, "overlaps=0"),
        ({"overlaps": [-0.1]}, "overlaps=-0.1"),
        ({"trials": 0}, "trials=0"),
        ({"scale": (0.5, 1.5)}, "scale"),
        ({"ratio": (2, 1)}, "ratio"),
    ],
)
def test_wrong_arguments_of_an_iou_crop_are_named(arguments, says):
    with pytest.raises(E.InvalidPipelineError, match=rf"{says}[^\n]*\n  hint"):
        detection().random_iou_crop("image", **arguments)
