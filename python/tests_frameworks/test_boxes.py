"""Boxes and masks, beside torchvision's with the same parameters, on random images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import forebay as fb
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

CHAINS = 60


def sample(draw: np.random.Generator, format: str) -> dict[str, Any]:
    height, width = (int(side) for side in draw.integers(10, 50, 2))
    size = np.array([width, height])
    corner = draw.uniform(0, 0.8, (5, 2)) * size
    side = draw.uniform(0.02, 1, (5, 2)) * (size - corner)
    parts = {
        "xyxy": (corner, corner + side),
        "xywh": (corner, side),
        "cxcywh": (corner + side / 2, side),
    }[format]
    return {
        "image": draw.integers(0, 256, (height, width, 3), dtype=np.uint8),
        "mask": draw.integers(0, 256, (height, width), dtype=np.uint8),
        "boxes": np.concatenate(parts, axis=1).astype(np.float32),
        "labels": np.arange(5),
    }


def center(x: Any, height: int, width: int) -> Any:
    """Crops the middle. Where the image is smaller, torchvision pads it and moves boxes by another number of pixels."""
    has = x.canvas_size if isinstance(x, tv_tensors.BoundingBoxes) else x.shape[-2:]
    more = [max(width - has[1], 0), max(height - has[0], 0)]
    padding = [more[0] // 2, more[1] // 2, (more[0] + 1) // 2, (more[1] + 1) // 2]
    return F.center_crop(F.pad(x, padding), [height, width])


def step(draw: np.random.Generator) -> tuple[str, Callable[[fb.Dataset], fb.Dataset], Callable[[Any], Any]]:
    """Draws an op, and torchvision's of the same parameters."""
    height, width = (int(side) for side in draw.integers(8, 40, 2))
    angle, border = float(draw.uniform(-180, 180)), [int(side) for side in draw.integers(0, 9, 4)]
    return [
        ("resize", lambda ds: ds.resize("image", (height, width)), lambda x: F.resize(x, [height, width])),
        ("center", lambda ds: ds.center_crop("image", (height, width)), lambda x: center(x, height, width)),
        ("across", lambda ds: ds.random_flip("image", p=1), F.horizontal_flip),
        ("down", lambda ds: ds.random_flip("image", p=1, direction="vertical"), F.vertical_flip),
        ("turn", lambda ds: ds.random_rotation("image", (angle, angle)), lambda x: F.rotate(x, angle)),
        ("pad", lambda ds: ds.pad("image", tuple(border)), lambda x: F.pad(x, border)),  # type: ignore[arg-type]
        (
            "affine turn",
            lambda ds: ds.random_affine("image", (angle, angle), scale=(1.2, 1.2), shear=(7, 7, -3, -3)),
            lambda x: F.affine(x, angle=angle, translate=[0, 0], scale=1.2, shear=[7, -3]),
        ),
    ][int(draw.integers(7))]


def mask_after(name: str, theirs: Callable[[Any], Any], mask: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    # NEAREST of torchvision shifts a mask against its image; NEAREST_EXACT does not, and computes places in float32,
    # which rounds to the other pixel where a place is between two. Pillow does neither.
    if name == "resize":
        resized = Image.fromarray(mask.numpy()).resize(size[::-1], Image.Resampling.NEAREST)
        return torch.from_numpy(np.array(resized))
    return theirs(tv_tensors.Mask(mask)).as_subclass(torch.Tensor)


@pytest.mark.parametrize("format", ["xyxy", "xywh", "cxcywh"])
def test_boxes_and_masks_are_where_torchvision_puts_them(format):
    draw = np.random.default_rng(["xyxy", "xywh", "cxcywh"].index(format))
    kept = 0
    for _ in range(CHAINS):
        row = sample(draw, format)
        size = row["image"].shape[:2]
        boxes, labels = torch.from_numpy(row["boxes"]), torch.from_numpy(row["labels"])
        mask = torch.from_numpy(row["mask"])
        ds = fb.from_map_dataset([row]).annotate("image", boxes="boxes", format=format, labels="labels", masks="mask")
        turned = False
        for _ in range(int(draw.integers(1, 5))):
            name, ours, theirs = step(draw)
            ds = ours(ds)
            moved = theirs(tv_tensors.BoundingBoxes(boxes, format=format.upper(), canvas_size=size))
            moved = F.clamp_bounding_boxes(moved)
            size, turned = moved.canvas_size, turned or name.endswith("turn")
            corners = F.convert_bounding_box_format(moved, new_format=tv_tensors.BoundingBoxFormat.XYXY)
            corners = corners.as_subclass(torch.Tensor)
            has_area = ((corners[:, 2:] - corners[:, :2]) > 1e-4).all(dim=1)
            boxes, labels = moved.as_subclass(torch.Tensor)[has_area], labels[has_area]
            mask = mask_after(name, theirs, mask, size)
        got = next(iter(ds))
        assert got["image"].shape[:2] == size
        assert got["labels"].tolist() == labels.tolist()
        np.testing.assert_allclose(got["boxes"], boxes.numpy(), atol=2e-3)
        # PyTorch computes places in float32, so a turned pixel halfway between two may be the other one.
        differ = (got["mask"] != mask.numpy()).mean()
        assert differ <= (0.05 if turned else 0), name
        kept += len(labels)
    assert kept > CHAINS


def test_a_random_crop_is_torchvisions_at_the_drawn_place():
    draw = np.random.default_rng(7)
    for _ in range(CHAINS):
        row = sample(draw, "xyxy")
        height, width = row["image"].shape[:2]
        rows, columns = np.mgrid[:height, :width]
        # The image says where each pixel was; 255 is the padding.
        row["image"] = np.stack([rows, columns, rows], axis=-1).astype(np.uint8)
        ds = fb.from_map_dataset([row]).annotate("image", boxes="boxes", labels="labels")
        got = next(ds.random_crop("image", 9, padding=5, fill=255).iter(seed=int(draw.integers(1000))))
        inside = np.argwhere(got["image"][..., 0] != 255)
        if not len(inside):
            continue
        y, x = inside[0]
        top, left = int(got["image"][y, x, 0]) - int(y), int(got["image"][y, x, 1]) - int(x)
        boxes = tv_tensors.BoundingBoxes(torch.from_numpy(row["boxes"]), format="XYXY", canvas_size=(height, width))
        want = F.crop(F.pad(boxes, [5]), top + 5, left + 5, 9, 9).as_subclass(torch.Tensor)
        want = want[((want[:, 2:] - want[:, :2]) > 1e-4).all(dim=1)]
        np.testing.assert_allclose(got["boxes"], want.numpy(), atol=1e-3)
