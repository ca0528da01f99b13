"""Mosaics: four images of a batch as one, with their boxes, labels, masks and points, against NumPy."""

from __future__ import annotations

from typing import Any

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from pipelines import fingerprint

N, H, W = 40, 20, 30
PER_BOX = ["boxes", "labels", "planes", "points"]
PLACES = np.stack(np.broadcast_arrays(np.zeros((H, W)), *np.mgrid[:H, :W]), axis=-1).astype(np.uint8)


def sample(number: int) -> dict[str, Any]:
    """Makes an image whose pixels are its number, their row and their column; a mask, and up to three boxes."""
    draw = np.random.default_rng(number)
    count = number % 4
    corner = draw.uniform(0, 0.7, (count, 2)) * [W, H]
    boxes = np.concatenate([corner, corner + draw.uniform(0.05, 0.3, (count, 2)) * [W, H]], axis=1)
    points = np.concatenate([corner, np.full((count, 1), 2)], axis=1)[:, None]
    return {
        "id": np.int64(number),
        "image": PLACES + np.array([number, 0, 0], np.uint8),
        "mask": draw.integers(0, 1000, (H, W), dtype=np.int32),
        "planes": draw.integers(1, 3, (count, H, W), dtype=np.uint8),
        "boxes": boxes.astype(np.float32),
        "labels": np.arange(count) + 10 * number,
        "points": points.astype(np.float32),
    }


SAMPLES = [sample(number) for number in range(N)]


def written(boxes: np.ndarray, format: str, relative: bool) -> np.ndarray:
    low, high = boxes[..., :2], boxes[..., 2:]
    first = (low + high) / 2 if format == "cxcywh" else low
    made = np.concatenate([first, high if format == "xyxy" else high - low], axis=-1)
    return (made / ([W, H, W, H] if relative else 1)).astype(np.float32)


def dataset(format: str = "xyxy", relative: bool = False, **rules: Any) -> fb.Dataset:
    scale = np.array([W, H, 1], np.float32)
    given = [{**row, "boxes": written(row["boxes"], format, relative)} for row in SAMPLES]
    given = [{**row, "points": row["points"] / scale} for row in given] if relative else given
    ds = fb.from_map_dataset(given).resize("image", (H, W), interpolation="nearest")
    masks = {"masks": ["mask", "planes"], "mask_fill": 9}
    return ds.annotate(
        "image", boxes="boxes", format=format, relative=relative, labels="labels", points="points", **masks, **rules
    )


def reference(image: np.ndarray, visible: float, area: float) -> dict[str, np.ndarray]:
    """Returns a mosaic and what belongs to it, by the pixels of its corners."""
    y, x = H - int(image[0, 0, 1]), W - int(image[0, 0, 2])
    sources = [SAMPLES[image[top, left, 0]] for top, left in [(0, 0), (0, -1), (-1, 0), (-1, -1)]]
    if (y, x) == (H, W):  # The image itself, of which annotate drops small boxes.
        boxes = sources[0]["boxes"].astype(np.float64)
        large = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) >= area
        return {name: sources[0][name] for name in ["image", "mask"]} | {n: sources[0][n][large] for n in PER_BOX}
    whole, mask, entries = np.zeros_like(image), np.zeros((H, W), np.int32), {name: [] for name in PER_BOX}
    for at, source in enumerate(sources):
        rows, columns = (slice(0, y), slice(y, H))[at // 2], (slice(0, x), slice(x, W))[at % 2]
        shift = np.array([(x - W, x)[at % 2], (y - H, y)[at // 2]])
        inner = (
            slice(rows.start - shift[1], rows.stop - shift[1]),
            slice(columns.start - shift[0], columns.stop - shift[0]),
        )
        whole[rows, columns], mask[rows, columns] = source["image"][inner], source["mask"][inner]
        for k, box in enumerate(source["boxes"].astype(np.float64)):
            low, high = (corner + shift for corner in (box[:2], box[2:]))
            low_c, high_c = (np.clip(v, [columns.start, rows.start], [columns.stop, rows.stop]) for v in (low, high))
            left = np.prod(high_c - low_c)
            if (high_c <= low_c).any() or left < area or left < visible * np.prod(high - low):
                continue
            plane = np.full((H, W), 9, np.uint8)
            plane[rows, columns] = source["planes"][k][inner]
            point = source["points"][k] + [*shift, 0]
            inside = (point[:, :2] >= [columns.start, rows.start]) & (point[:, :2] <= [columns.stop, rows.stop])
            entries["boxes"].append(np.concatenate([low_c, high_c]))
            entries["labels"].append(source["labels"][k])
            entries["planes"].append(plane)
            entries["points"].append(np.where(inside.all(1, keepdims=True), point, 0))
    shapes = {"boxes": (-1, 4), "labels": (-1,), "planes": (-1, H, W), "points": (-1, 1, 3)}
    return {"image": whole, "mask": mask} | {n: np.array(v).reshape(shapes[n]) for n, v in entries.items()}


@pytest.mark.parametrize(("format", "relative"), [("xyxy", False), ("xywh", False), ("cxcywh", True)])
def test_four_images_meet_with_what_belongs_to_them(format, relative):
    rules = {"min_visibility": 0.3, "min_area": 6}
    ds = dataset(format, relative, **rules).batch(16, ragged=PER_BOX).mosaic("image", center_range=(0.1, 0.9), p=0.8)
    assert ds.schema["boxes"] == ("float32", (None, 4))
    changed = kept = 0
    for batch in ds.iter(seed=4, epochs=3):
        for row, image in enumerate(batch["image"]):
            assert image[0, 0, 0] == batch["id"][row]
            want = reference(image, 0.3, 6)
            changed += len(set(image[..., 0].flat)) == 4
            kept += np.array_equal(image, SAMPLES[batch["id"][row]]["image"])
            for name in ["image", "mask", "labels", "planes"]:
                np.testing.assert_array_equal(batch[name][row], want[name], name)
            boxes = written(want["boxes"], format, relative)
            np.testing.assert_allclose(batch["boxes"][row], boxes, atol=1e-5)
            points = want["points"] / ([W, H, 1] if relative else 1)
            np.testing.assert_allclose(batch["points"][row], points, atol=1e-5)
    assert changed + kept == 3 * N
    assert 12 < kept < 40


def test_the_same_mosaics_wherever_they_are_computed():
    def mosaics(ds, **options):
        return [fingerprint(batch) for batch in ds.batch(7, ragged=True).mosaic("image").iter(seed=3, **options)]

    first = mosaics(dataset().shuffle())
    assert all(mosaics(dataset().shuffle(), threads=threads) == first for threads in (1, 5))
    assert mosaics(dataset().shuffle(), epoch=1) != first
    # A filter that keeps all rows gives the same batches, whose mosaics are made after the merge.
    assert mosaics(dataset().shuffle().filter(fb.col("id") >= 0)) == first


def test_each_image_is_a_partner_of_each_other_one_and_small_batches_give_images_again():
    pairs, image = set(), []
    for batch in dataset().take(5).batch(5, ragged=True).mosaic("image").iter(epochs=40):
        pairs |= {(image[0, 0, 0], image[-1, 0, 0]) for image in batch["image"]}
    assert len(pairs) == 20
    for rows in (1, 2, 3):
        (batch,) = dataset().take(rows).batch(5, ragged=True).mosaic("image")
        for image in batch["image"]:
            assert len(set(image[..., 0].flat)) == rows
            np.testing.assert_array_equal(image, reference(image, 0, 0)["image"])


def test_ops_behind_a_mosaic_move_its_boxes_and_float_images_have_mosaics():
    batches = dataset().batch(8, ragged=True).mosaic("image")
    scaled = {"mean": [0, 0, 0], "std": [1, 1, 1], "layout": "CHW"}
    before = dataset().normalize("image", **scaled).batch(8, ragged=True).mosaic("image")
    for float_first, uint8_first in zip(before, batches.normalize("image", **scaled), strict=True):
        assert fingerprint(float_first) == fingerprint(uint8_first)
    turned = batches.random_flip("image", p=1.0)
    for batch, other in zip(batches, turned, strict=True):
        np.testing.assert_array_equal(batch["image"][:, :, ::-1], other["image"])
        mirrored = [[W, 0, W, 0] - boxes[:, [2, 1, 0, 3]] * [1, -1, 1, -1] for boxes in batch["boxes"]]
        np.testing.assert_allclose(np.concatenate(mirrored), other["boxes"].values, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.mosaic("image"), "comes before batch"),
        (lambda ds: ds.batch(4, pad=0).mosaic("image"), "padded or stacked"),
        (lambda ds: ds.select("id", "image").batch(4).mosaic("image"), "has no boxes or masks"),
        (lambda ds: ds.batch(4, ragged=True).mosaic("mask"), 'column "mask" follows "image"'),
        (lambda ds: ds.batch(4, ragged=True).mosaic("image", center_range=(0.5, 1.5)), "center_range"),
        (lambda ds: ds.batch(4, ragged=True).mosaic("image", p=2), "p=2"),
        (lambda ds: ds.drop("boxes").batch(4, ragged=True).mosaic("image"), "one for each box"),
    ],
)
def test_a_wrong_argument_fails_when_written(make, says):
    with pytest.raises(E.InvalidPipelineError, match=says):
        make(dataset())


def test_a_row_that_does_not_fit_fails_also_where_no_mosaic_is_drawn():
    def cut(row):
        return {"labels": row["labels"][1:] if row["id"] == 6 else row["labels"]}

    labels = {"labels": ("int64", (None,))}
    ds = dataset().map(cut, reads=["id", "labels"], writes=["labels"], schema=labels)
    ds = ds.batch(4, ragged=True).mosaic("image", p=0)
    with pytest.raises(E.DataError, match=r'"labels" has 1 entries for 2 boxes') as caught:
        list(ds)
    assert caught.value.context["sample"]
