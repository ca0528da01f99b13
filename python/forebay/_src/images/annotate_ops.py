"""Boxes, masks and points that follow an image."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class AnnotateOps(Base):
    """Declares the columns that belong to an image, so that ops on the image change them by the same draws."""

    __slots__ = ()

    def annotate(
        self,
        column: str,
        *,
        boxes: str | None = None,
        format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy",
        relative: bool = False,
        labels: str | Iterable[str] | None = None,
        masks: str | Iterable[str] | None = None,
        mask_fill: float = 0,
        points: str | None = None,
        flip_pairs: Iterable[tuple[int, int]] = (),
        min_area: float = 0.0,
        min_visibility: float = 0.0,
        clip: bool = False,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Declares the boxes, masks and points of an image: each later op that moves its pixels moves them, too.

        Each op draws once for the image and for its boxes, masks and points. The image has the same pixels as without
        `annotate`. Boxes are clipped to the image; a box of which nothing is left is dropped with its label.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_map_dataset([{
        ...     "image": np.zeros((20, 30, 3), np.uint8),
        ...     "boxes": np.array([[5, 2, 15, 12], [0, 0, 4, 4]], np.float32),
        ...     "labels": np.array([7, 8]),
        ... }])
        >>> ds = ds.annotate("image", boxes="boxes", labels="labels").center_crop("image", 16)
        >>> row = next(iter(ds))
        >>> row["boxes"].tolist(), row["labels"].tolist()
        ([[0.0, 0.0, 8.0, 10.0]], [7])

        Args:
            column: The image, decoded.
            boxes: A column of boxes, `float32[?, 4]` or `float64[?, 4]`.
            format: The numbers of a box: left, top, right, bottom (`"xyxy"`); left, top, width, height (`"xywh"`); or
                the centre, width, height (`"cxcywh"`).
            relative: Whether boxes and points are in shares of the image's width and height, not in pixels.
            labels: Columns with an entry for each box, which are dropped with their box.
            masks: Columns of the image's size, `[height, width]` or `[height, width, 1]`; or one for each box,
                `[?, height, width]`, dropped with it. Of any dtype: pixels are chosen, never blended.
            mask_fill: The value of a mask outside the image, where an op pads or rotates; often 255.
            points: A column of points `[points, 2 or 3]` of floats, or some for each box, `[?, points, 2 or 3]`,
                dropped with it. A third number is the visibility: a point outside becomes `(0, 0, 0)`.
            flip_pairs: Points that change places when the image is mirrored, counted from 0, such as the left and
                the right eye: `[(1, 2)]`.
            min_area: The least area of a box, in pixels; a smaller one is dropped after any op.
            min_visibility: The least share of a box, 0 to 1, that an op leaves inside; else it is dropped.
            clip: Whether boxes that reach over the border by more than a pixel, or are empty, are clipped, and
                dropped if nothing is left. Otherwise they are a `DataError`. Inverted boxes and NaN always are.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        columns = {
            "boxes": None if boxes is None else arguments.text(boxes, "annotate", "boxes"),
            "labels": arguments.columns(labels, "annotate", "labels") or [],
            "masks": arguments.columns(masks, "annotate", "masks") or [],
            "points": None if points is None else arguments.text(points, "annotate", "points"),
        }
        with_: dict[str, Any] = {
            **columns,
            "format": arguments.choice(format, "annotate", "format", "xyxy", "xywh", "cxcywh"),
            "relative": arguments.flag(relative, "annotate", "relative"),
            "mask_fill": arguments.number(mask_fill, "annotate", "mask_fill"),
            "flip_pairs": _pairs(flip_pairs),
            "min_area": arguments.number(min_area, "annotate", "min_area"),
            "min_visibility": arguments.number(min_visibility, "annotate", "min_visibility"),
        }
        op = {"op": "annotate", "column": column, "with": with_, "clip": arguments.flag(clip, "annotate", "clip")}
        return self._then(op, keep_position, name)


def _pairs(value: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Checks pairs of points."""
    try:
        pairs = [(first, second) for first, second in value]
    except (TypeError, ValueError):
        message = f"annotate: flip_pairs={arguments.shown(value)} are no pairs"
        raise InvalidPipelineError(message, {"hint": "give pairs of places: [(1, 2), (3, 4)]"}) from None
    return [[arguments.whole(place, "annotate", "flip_pairs", 0, 2**31 - 1) for place in pair] for pair in pairs]
