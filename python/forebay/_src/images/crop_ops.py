"""Several crops of one image, each in a column of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from forebay._src import arguments
from forebay._src.expr.expr import col
from forebay._src.images.image_ops import CORNERS, Interpolation
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class CropOps(Base):
    """Several crops of one image. The image stays in its own column: `drop` it where nothing else needs it."""

    __slots__ = ()

    def five_crop(self, column: str, size: arguments.Size, *, into: str | None = None) -> Dataset:
        """Adds five columns: the parts in the corners of the image, and the middle.

        They are named `into` with `_top_left`, `_top_right`, `_bottom_left`, `_bottom_right` and `_center` behind it.
        An image that is too small for a corner is a `DataError`.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 9, 9, 3), np.uint8)}).five_crop("image", 4)
        >>> [name for name in ds.schema if name != "image"][:2], ds.schema["image_center"].shape
        (['image_top_left', 'image_top_right'], (4, 4, 3))

        Args:
            column: The image, decoded.
            size: Pixels of a part: one number for a square, or `(height, width)`.
            into: How the names of the columns begin; without it, with the name of the image.
        """
        into = column if into is None else arguments.text(into, "five_crop", "into")
        ds = _copies(self, "five_crop", column, [f"{into}_{place}" for place in (*CORNERS, "center")])
        for corner in CORNERS:
            ds = ds.crop(f"{into}_{corner}", size, corner=corner)  # type: ignore[arg-type]
        return ds.center_crop(f"{into}_center", size)

    def multi_crop(
        self,
        column: str,
        size: arguments.Size,
        count: int,
        *,
        into: str,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
    ) -> Dataset:
        """Adds columns `into_0`, `into_1`, …: each a random part of the image, resized, by a draw of its own.

        DINO takes two large parts and eight small ones, each of which is then changed as any image:

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 64, 64, 3), np.uint8)})
        >>> ds = ds.multi_crop("image", 32, 2, into="global", scale=(0.4, 1.0))
        >>> ds = ds.multi_crop("image", 12, 8, into="local", scale=(0.05, 0.4)).drop("image")
        >>> ds = ds.random_solarize("global_1", p=0.2)
        >>> ds.schema["global_1"].shape, ds.schema["local_7"].shape
        ((32, 32, 3), (12, 12, 3))

        Args:
            column: The image, decoded.
            size: Pixels of a part: one number for a square, or `(height, width)`.
            count: The number of parts, 1 to 100.
            into: How the names of the columns begin.
            scale: The least and the greatest share of the image's area, as in `random_resized_crop`.
            ratio: The least and the greatest width / height.
            interpolation: As in `resize`.
        """
        count = arguments.whole(count, "multi_crop", "count", 1, 100)
        into = arguments.text(into, "multi_crop", "into")
        names = [f"{into}_{number}" for number in range(count)]
        ds = _copies(self, "multi_crop", column, names)
        for name in names:
            ds = ds.random_resized_crop(name, size, scale=scale, ratio=ratio, interpolation=interpolation)
        return ds


def _copies(ds: Base, op: str, column: str, names: list[str]) -> Dataset:
    """Adds columns that are copies of an image, which no pixel is copied for."""
    made = cast("Dataset", ds)
    schema = made.schema
    if isinstance(column, str) and column in schema and str(schema[column]) == "bytes":
        message = f"{op}: column {column!r} is not decoded yet"
        raise InvalidPipelineError(message, {"hint": f"put .decode_image({column!r}) before it"})
    taken = next((name for name in names if name in schema), None)
    if taken is not None:
        message = f"{op}: there is a column {taken!r} already"
        raise InvalidPipelineError(message, {"hint": "give another into=, or drop that column before"})
    for name in names:
        made = made.with_column(name, col(column))
    return made
