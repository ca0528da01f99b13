"""Ops on images: decode, crop, resize, flip, normalise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from forebay._src import arguments
from forebay._src.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

IMAGENET_MEAN: tuple[float, float, float] = (0.485, 0.456, 0.406)
"""The mean of each channel of ImageNet's images, in 0..1."""
IMAGENET_STD: tuple[float, float, float] = (0.229, 0.224, 0.225)
"""The standard deviation of each channel of ImageNet's images, in 0..1."""


class ImageOps(Base):
    """Ops on a column of images. Consecutive ones run as one pass over the pixels."""

    __slots__ = ()

    def decode_image(
        self, column: str, *, mode: Literal["RGB", "L"] = "RGB", keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Decodes JPEG, PNG or WebP bytes in place, to uint8 of height, width, channels.

        Args:
            column: The column.
            mode: `"RGB"`, or `"L"` for grey (one channel).
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.
        """
        if mode not in ("RGB", "L"):
            raise InvalidPipelineError(f"decode_image: unknown mode {mode!r}", {"hint": "use 'RGB' or 'L'"})
        return self._then({"op": "decode_image", "column": column, "mode": mode}, keep_position, name)

    def resize(
        self,
        column: str,
        size: arguments.Size,
        *,
        antialias: bool = True,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Resizes to exactly `size`: one number for a square, or `(height, width)`. Bilinear.

        Args:
            column: The column.
            size: Pixels.
            antialias: Whether shrinking averages, as Pillow does, or samples, as TensorFlow's and DALI's default.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.
        """
        op = {"op": "resize", "column": column, **arguments.size(size, "resize"), "antialias": bool(antialias)}
        return self._then(op, keep_position, name)

    def center_crop(
        self, column: str, size: arguments.Size, *, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Cuts the middle out, padded with zeros where the image is smaller."""
        op = {"op": "center_crop", "column": column, **arguments.size(size, "center_crop")}
        return self._then(op, keep_position, name)

    def random_resized_crop(
        self,
        column: str,
        size: arguments.Size,
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        antialias: bool = True,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Cuts a random part out and resizes it, by torchvision's rule.

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            scale: The least and the greatest share of the image's area.
            ratio: The least and the greatest width / height.
            antialias: As in `resize`.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.
        """
        op = {
            "op": "random_resized_crop",
            "column": column,
            **arguments.size(size, "random_resized_crop"),
            "scale": arguments.interval(scale, "random_resized_crop", "scale"),
            "ratio": arguments.interval(ratio, "random_resized_crop", "ratio"),
            "antialias": bool(antialias),
        }
        return self._then(op, keep_position, name)

    def random_flip(
        self, column: str, *, p: float = 0.5, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Flips left to right with probability `p`."""
        op = {"op": "random_flip", "column": column, "probability": arguments.number(p, "random_flip", "p")}
        return self._then(op, keep_position, name)

    def normalize(
        self,
        column: str,
        *,
        mean: float | Iterable[float],
        std: float | Iterable[float],
        layout: Literal["CHW", "HWC"] = "HWC",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes float32 of uint8 pixels: `(x / 255 - mean) / std`, a mean and a std for each channel.

        Args:
            column: The column.
            mean: One for each channel, in 0..1.
            std: One for each channel, in 0..1.
            layout: `"CHW"` puts the channels first, as PyTorch has them; `"HWC"` last.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.
        """
        if layout not in ("CHW", "HWC"):
            raise InvalidPipelineError(f"normalize: unknown layout {layout!r}", {"hint": "use 'CHW' or 'HWC'"})
        op = {
            "op": "normalize",
            "column": column,
            "mean": arguments.numbers(mean, "normalize", "mean"),
            "std": arguments.numbers(std, "normalize", "std"),
            "layout": layout,
        }
        return self._then(op, keep_position, name)
