"""Random crops and expansions of detection recipes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from forebay._src import arguments
from forebay._src.images.image_ops import levels
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class DetectionOps(Base):
    """Random ops of detection recipes. Boxes, masks and points of `annotate` follow."""

    __slots__ = ()

    def random_iou_crop(
        self,
        column: str,
        *,
        scale: tuple[float, float] = (0.3, 1.0),
        ratio: tuple[float, float] = (0.5, 2.0),
        overlaps: Iterable[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
        trials: int = 40,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Cuts a random part out that overlaps a box by at least a drawn share: SSD's crop, torchvision's rule.

        Boxes whose centres are outside are dropped. It comes behind `annotate` with boxes. Sizes differ, so resize
        behind it.

        >>> import forebay as fb
        >>> import numpy as np
        >>> row = {"image": np.zeros((40, 40, 3), np.uint8), "boxes": np.array([[9, 9, 30, 30]], np.float32)}
        >>> ds = fb.from_map_dataset([row]).annotate("image", boxes="boxes").random_iou_crop("image")
        >>> ds.resize("image", 32).schema["boxes"].shape
        (None, 4)

        Args:
            column: The image.
            scale: The least and the greatest share of each side.
            ratio: The least and the greatest width / height.
            overlaps: Shares (intersection over union), one of which is drawn; 1 leaves the image as it is.
            trials: Tries for one overlap; then another is drawn, up to 50 times.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_iou_crop",
            "column": column,
            "scale": arguments.interval(scale, "random_iou_crop", "scale"),
            "ratio": arguments.interval(ratio, "random_iou_crop", "ratio"),
            "overlaps": arguments.numbers(overlaps, "random_iou_crop", "overlaps"),
            "trials": arguments.whole(trials, "random_iou_crop", "trials", 1),
        }
        return self._then(op, keep_position, name)

    def random_zoom_out(
        self,
        column: str,
        *,
        side_range: tuple[float, float] = (1.0, 4.0),
        fill: int | Iterable[int] = 0,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts the image at a random place of a larger canvas, with probability `p`, by torchvision's rule.

        Sizes differ, so resize behind it. Boxes, masks and points of `annotate` follow.

        Args:
            column: The image.
            side_range: The least and the greatest side of the canvas, in sides of the image: 1 or more.
            fill: The level of the canvas: one, or one for each channel, 0 to 255.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_zoom_out",
            "column": column,
            "side_range": arguments.interval(side_range, "random_zoom_out", "side_range"),
            "fill": levels(fill, "random_zoom_out"),
            "probability": arguments.number(p, "random_zoom_out", "p"),
        }
        return self._then(op, keep_position, name)
