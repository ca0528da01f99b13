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
"""The mean of each channel of ImageNet's images, between 0 and 1."""
IMAGENET_STD: tuple[float, float, float] = (0.229, 0.224, 0.225)
"""The standard deviation of each channel of ImageNet's images, between 0 and 1."""


class ImageOps(Base):
    """Ops on a column of images. Consecutive ones run as one pass over the pixels."""

    __slots__ = ()

    def decode_image(
        self,
        column: str,
        *,
        mode: Literal["RGB", "L", "P"] = "RGB",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Decodes JPEG, PNG or WebP bytes in place, to uint8 of height, width, channels.

        Args:
            column: The column.
            mode: `"RGB"`, `"L"` for grey (one channel), or `"P"` for the numbers of a PNG's palette (one channel):
                the classes of a segmentation mask. `"P"` of an image without a palette is a `DataError`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "decode_image",
            "column": column,
            "mode": arguments.choice(mode, "decode_image", "mode", "RGB", "L", "P"),
        }
        return self._then(op, keep_position, name)

    def resize(
        self,
        column: str,
        size: arguments.Size | None = None,
        *,
        shorter: int | None = None,
        max_size: int | None = None,
        antialias: bool = True,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Resizes, bilinear: to exactly `size`, or so that the shorter side has `shorter` pixels and the shape stays.

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            shorter: Pixels of the shorter side, instead of `size`. The longer side is rounded down, as torchvision's
                `Resize(shorter)`; images differ in shape then, so crop them before `batch`.
            max_size: With `shorter`: the most pixels of the longer side. An image that would exceed it gets exactly
                this length, and a shorter side to match.
            antialias: Whether shrinking averages, as Pillow does, or samples, as TensorFlow's and DALI's default.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        if (size is None) == (shorter is None):
            raise InvalidPipelineError(
                "resize: give either size or shorter", {"hint": "size=(height, width), or shorter=256"}
            )
        op: dict[str, object]
        if size is not None:
            if max_size is not None:
                raise InvalidPipelineError("resize: max_size goes with shorter", {"hint": "leave it out with size"})
            op = {"op": "resize", "column": column, **arguments.size(size, "resize")}
        else:
            op = {"op": "resize_shorter", "column": column, "size": arguments.whole(shorter, "resize", "shorter", 1)}
            if max_size is not None:
                op["max_size"] = arguments.whole(max_size, "resize", "max_size", 1)
        return self._then({**op, "antialias": arguments.flag(antialias, "resize", "antialias")}, keep_position, name)

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
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_resized_crop",
            "column": column,
            **arguments.size(size, "random_resized_crop"),
            "scale": arguments.interval(scale, "random_resized_crop", "scale"),
            "ratio": arguments.interval(ratio, "random_resized_crop", "ratio"),
            "antialias": arguments.flag(antialias, "random_resized_crop", "antialias"),
        }
        return self._then(op, keep_position, name)

    def random_flip(
        self,
        column: str,
        *,
        p: float = 0.5,
        direction: Literal["horizontal", "vertical"] = "horizontal",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Flips with probability `p`.

        Args:
            column: The column.
            p: The probability.
            direction: `"horizontal"`, left to right, or `"vertical"`, upside down.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_flip",
            "column": column,
            "probability": arguments.number(p, "random_flip", "p"),
            "direction": arguments.choice(direction, "random_flip", "direction", "horizontal", "vertical"),
        }
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
            mean: One for each channel, between 0 and 1.
            std: One for each channel, between 0 and 1.
            layout: `"CHW"` puts the channels first, as PyTorch has them; `"HWC"` last.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "normalize",
            "column": column,
            "mean": arguments.numbers(mean, "normalize", "mean"),
            "std": arguments.numbers(std, "normalize", "std"),
            "layout": arguments.choice(layout, "normalize", "layout", "CHW", "HWC"),
        }
        return self._then(op, keep_position, name)
