"""Boxes, masks and points that follow their image, in pipelines as users write them."""

from __future__ import annotations

import io
import re
from typing import Any

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from PIL import Image
from pipelines import fingerprint

ROWS = 24


def encoded(pixels: np.ndarray, palette: bool = False) -> bytes:
    image = Image.fromarray(pixels)
    if palette:
        image.putpalette([level for number in range(256) for level in (number, 255 - number, number // 2)])
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def sample(number: int) -> dict[str, Any]:
    """Makes an image whose mask is its red channel, with up to three boxes."""
    draw = np.random.default_rng(number)
    height, width = (int(side) for side in draw.integers(12, 40, 2))
    pixels = draw.integers(1, 256, (height, width, 3), dtype=np.uint8)
    count = number % 4
    corner = draw.uniform(0, 0.6, (count, 2)) * [width, height]
    far = corner + draw.uniform(0.1, 0.4, (count, 2)) * [width, height]
    return {
        "image": encoded(pixels),
        "mask": encoded(pixels[..., 0], palette=True),
        "boxes": np.concatenate([corner, far], axis=1).astype(np.float32),
        "labels": np.arange(count) + 10 * number,
        "points": np.concatenate([corner, np.full((count, 1), 2)], axis=1).astype(np.float32),
    }


def detection(**how: Any) -> fb.Dataset:
    ds = fb.from_map_dataset([sample(number) for number in range(ROWS)])
    ds = ds.decode_image("image").decode_image("mask", mode="P")
    return ds.annotate("image", boxes="boxes", labels="labels", masks="mask", points="points", **how)


def test_a_detection_pipeline_runs_as_it_is_written():
    ds = detection().random_resized_crop("image", (20, 24)).random_flip("image").resize("image", 32)
    assert str(ds.schema) == (
        "Schema(image: uint8[32, 32, 3], mask: uint8[32, 32, 1], boxes: float32[?, 4], labels: int64[?], "
        "points: float32[?, 3])"
    )
    batches = list(ds.batch(8, pad=0, lengths={"labels": "count"}).iter(seed=3))
    assert [batch["mask"].shape for batch in batches] == [(8, 32, 32, 1)] * 3
    for batch in batches:
        assert batch["boxes"].shape[:2] == batch["labels"].shape
        assert (batch["boxes"] >= 0).all()
        assert (batch["boxes"] <= 32).all()
    assert "random_flip(image, p=0.5; with boxes, labels, mask, points)" in ds.explain()


def test_the_image_is_what_it_is_without_annotations_on_any_threads():
    def augmented(ds: fb.Dataset) -> fb.Dataset:
        return ds.random_resized_crop("image", 16).random_flip("image").color_jitter("image", contrast=0.4)

    plain = fb.from_map_dataset([sample(number) for number in range(ROWS)]).decode_image("image")
    want = [row["image"] for row in augmented(plain).iter(seed=9, epochs=2)]
    rows = [list(augmented(detection()).iter(seed=9, epochs=2, threads=threads)) for threads in (1, 3)]
    for one, other, image in zip(*rows, want, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
        assert np.array_equal(one["image"], image)


def test_an_image_and_its_mask_see_one_draw():
    ds = detection().random_crop("image", 16, padding=9).random_flip("image").random_rotation("image", 45)
    for row in ds.iter(seed=1):
        assert np.array_equal(row["mask"][..., 0], row["image"][..., 0])
    again = detection(mask_fill=255).pad("image", (1, 2, 3, 4)).random_flip("image", p=1, direction="vertical")
    for row in again.crop("image", 10, top=1, left=1):
        assert (row["mask"][:3] == 255).all()
        assert (row["image"][:3] == 0).all()


def test_a_crop_that_pads_and_a_padding_that_is_cropped_are_numpys():
    for row, number in zip(
        detection().pad("image", (2, 3)).crop("image", (13, 14), top=2, left=1), range(ROWS), strict=True
    ):
        pixels = np.asarray(Image.open(io.BytesIO(sample(number)["image"])))
        padded = np.pad(pixels, ((3, 3), (2, 2), (0, 0)))[2:15, 1:15]
        assert np.array_equal(row["image"], padded)
        moved = np.clip(sample(number)["boxes"] + np.float32([1, 1, 1, 1]), 0, [14, 13, 14, 13])
        moved = moved[(moved[:, 2] > moved[:, 0]) & (moved[:, 3] > moved[:, 1])]
        np.testing.assert_allclose(row["boxes"], moved, atol=1e-5)


def test_small_and_hidden_boxes_are_dropped_with_what_is_theirs():
    boxes = np.array([[0, 0, 10, 10], [8, 8, 12, 12], [2, 2, 4, 4]], np.float32)
    masks = np.zeros((3, 20, 20), np.uint8)
    for at, (left, top, right, bottom) in enumerate(boxes.astype(int)):
        masks[at, top:bottom, left:right] = at + 1
    row = {"image": np.zeros((20, 20, 3), np.uint8), "boxes": boxes, "masks": masks, "area": np.float32([100, 16, 4])}
    points = np.array([[[1, 1, 2], [9, 1, 1]], [[9, 9, 1], [11, 11, 1]], [[3, 3, 2], [0, 0, 0]]], np.float32)
    ds = fb.from_map_dataset([{**row, "points": points}])

    def left(**how: Any) -> dict[str, np.ndarray]:
        ds_ = ds.annotate("image", boxes="boxes", labels=["area"], masks="masks", points="points", **how)
        return next(iter(ds_.crop("image", 10).random_flip("image", p=1)))

    everything = left(flip_pairs=[(0, 1)])
    assert everything["boxes"].tolist() == [[0, 0, 10, 10], [0, 8, 2, 10], [6, 2, 8, 4]]
    assert everything["points"].tolist() == [[[1, 1, 1], [9, 1, 2]], [[0, 0, 0], [1, 9, 1]], [[0, 0, 0], [7, 3, 2]]]
    assert np.array_equal(everything["masks"], masks[:, :10, 9::-1])
    seen = left(min_visibility=0.5)
    assert (seen["area"].tolist(), seen["masks"].shape, seen["points"].shape) == ([100, 4], (2, 10, 10), (2, 2, 3))
    assert left(min_area=5)["area"].tolist() == [100]


@pytest.mark.parametrize(
    ("format", "given", "want"), [("xywh", [2, 3, 4, 6], [4, 3, 4, 6]), ("cxcywh", [4, 6, 4, 6], [6, 6, 4, 6])]
)
def test_formats(format, given, want):
    image = np.zeros((20, 10, 3), np.uint8)
    for relative, scale in ((False, 1.0), (True, np.array([10, 20, 10, 20]))):
        ds = fb.from_map_dataset([{"image": image, "boxes": np.array([given], float) / scale}])
        ds = ds.annotate("image", boxes="boxes", format=format, relative=relative).random_flip("image", p=1)
        np.testing.assert_allclose(next(iter(ds))["boxes"], np.array([want]) / scale, atol=1e-12)


def test_a_declaration_follows_the_columns():
    ds = detection().rename(boxes="targets", image="photo").drop("points").random_flip("photo", p=1)
    assert "random_flip(photo, p=1; with targets, labels, mask)" in ds.explain()
    assert "; with" not in detection().select(["image"]).random_flip("image").explain().split("annotate")[-1]
    both = fb.concatenate([detection(), detection()]).random_flip("image", p=1)
    assert all(np.array_equal(row["mask"][..., 0], row["image"][..., 0]) for row in both)
    other = (
        fb.from_map_dataset([sample(number) for number in range(ROWS)])
        .decode_image("image")
        .decode_image("mask", mode="P")
    )
    with pytest.raises(E.InvalidPipelineError, match="have different annotations"):
        fb.concatenate([detection(), other])
    with pytest.raises(E.InvalidPipelineError, match='column "mask" follows "image"'):
        detection().random_flip("mask")
    with pytest.raises(E.InvalidPipelineError, match="has annotations already"):
        detection().annotate("image", boxes="boxes")
    with pytest.raises(E.InvalidPipelineError, match='rows of "boxes" are padded or stacked'):
        detection().resize("image", 8).batch(4, pad=0).random_flip("image")
    moved = detection().resize("image", 8).random_flip("image").batch(4, ragged=["boxes", "labels", "points"])
    behind = detection().resize("image", 8).batch(4, ragged=["boxes", "labels", "points"]).random_flip("image")
    assert [fingerprint(batch) for batch in moved] == [fingerprint(batch) for batch in behind]


ROW = {
    "image": np.zeros((8, 10, 3), np.uint8),
    "boxes": np.array([[1, 1, 3, 3]], np.float32),
    "labels": np.array([4]),
    "mask": np.zeros((8, 10), np.int32),
    "points": np.array([[1, 2, 1]], np.float32),
}


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("boxes", [[3, 1, 1, 3]], "box 0 of column .boxes. is inverted"),
        ("boxes", [[np.nan, 1, 1, 3]], "box 0 of column .boxes. has a number that is not finite"),
        ("boxes", [[1, 1, 12, 3]], "box 0 of column .boxes. reaches over the image of 8 rows and 10 columns"),
        ("boxes", [[1, 1, 1, 3]], "box 0 of column .boxes. is empty"),
        ("labels", [4, 5], "column .labels. has 2 entries for 1 boxes"),
        ("mask", np.zeros((8, 9), np.int32), "the mask .mask. has 8 rows and 9 columns, and its image 8 rows and 10"),
        ("points", [[np.inf, 0, 1]], "point 0 of column .points. has a number that is not finite"),
    ],
)
def test_a_bad_row_is_named_with_op_and_line(column: str, value: Any, what: str):
    bad = {**ROW, column: np.asarray(value, ROW[column].dtype)}
    # The mask of the first row makes every size possible.
    free = {**ROW, "image": np.zeros((5, 4, 3), np.uint8), "mask": np.zeros((5, 4), np.int32)}
    free["boxes"], free["labels"] = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    ds = fb.from_map_dataset([free, bad, ROW])
    ds = ds.annotate("image", boxes="boxes", labels="labels", masks="mask", points="points").center_crop("image", 4)
    with pytest.raises(E.DataError, match=what) as caught:
        list(ds)
    assert caught.value.context["op"] == "annotate"
    assert re.search(r"test_annotate\.py:\d+", str(caught.value))
    with ds.iter(on_error="skip") as it:
        assert len(list(it)) == 2


def test_boxes_over_the_border_are_clipped_on_request():
    boxes = np.array([[-3, 1, 4, 3], [20, 1, 30, 3], [9, 7, 10.4, 8.3]], np.float32)
    ds = fb.from_map_dataset([{**ROW, "boxes": boxes, "labels": np.arange(3)}])
    row = next(iter(ds.annotate("image", boxes="boxes", labels="labels", clip=True)))
    assert (row["boxes"].tolist(), row["labels"].tolist()) == ([[0, 1, 4, 3], [9, 7, 10, 8]], [0, 2])


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({}, "no boxes, masks or points"),
        ({"labels": "labels"}, "without boxes"),
        ({"boxes": "labels"}, "boxes=.labels. is int64"),
        ({"boxes": "nothing"}, "no column .nothing."),
        ({"masks": "labels"}, "masks=.labels."),
        ({"boxes": "boxes", "masks": "boxes"}, "named twice"),
        ({"masks": "mask", "mask_fill": 0.5}, "mask_fill=0.5"),
        ({"boxes": "boxes", "min_visibility": 2}, "min_visibility=2"),
        ({"boxes": "boxes", "format": "yolo"}, "unknown format"),
        ({"points": "points", "flip_pairs": [1]}, "are no pairs"),
        ({"points": "points", "flip_pairs": [(0, 7)]}, "flip_pairs=7"),
    ],
)
def test_wrong_declarations_say_what_to_write(how: dict[str, Any], what: str):
    with pytest.raises((E.InvalidPipelineError, E.NotFoundError), match=what):
        fb.from_map_dataset([ROW]).annotate("image", **how)


def test_a_service_moves_them_as_one_process_does():
    ds = detection().random_resized_crop("image", 16).random_flip("image").random_rotation("image", 20).shuffle()
    want = list(ds.iter(seed=4, epochs=1))
    with fb.up(workers=2, threads=1) as service, ds.distribute(service, job="boxes", seed=4, epochs=1).iter() as it:
        got = list(it)
    for one, other in zip(got, want, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
