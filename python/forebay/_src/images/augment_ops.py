"""Ops that change images at random, so that a model sees more of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from forebay._src import arguments
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

Jitter: TypeAlias = float | tuple[float, float]


class AugmentOps(Base):
    """Random ops on a column of uint8 images, by torchvision's rules. They run in the same pass as the other image ops.

    The result for a sample depends on the seed, the epoch, the op and the sample alone.
    """

    __slots__ = ()

    def color_jitter(
        self,
        column: str,
        *,
        brightness: Jitter = 0.0,
        contrast: Jitter = 0.0,
        saturation: Jitter = 0.0,
        hue: Jitter = 0.0,
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Changes brightness, contrast, saturation and hue, in random order.

        Each factor is uniform within its interval. One number `x` stands for `(max(0, 1 - x), 1 + x)`, and for the hue
        for `(-x, x)`; 0 leaves it alone.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.full((4, 8, 8, 3), 100, np.uint8)})
        >>> ds = ds.color_jitter("image", brightness=(0.5, 0.5))
        >>> int(next(iter(ds))["image"].max())
        50

        Args:
            column: The column.
            brightness: Factor of the levels.
            contrast: Factor of the distance to the image's mean grey.
            saturation: Factor of the distance to the pixel's own grey.
            hue: Part of a circle, within -0.5 and 0.5.
            p: The probability that the image changes at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "color_jitter",
            "column": column,
            "probability": arguments.number(p, "color_jitter", "p"),
        }
        factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
        for argument, value in factors.items():
            if value != 0:
                op[argument] = arguments.around(value, "color_jitter", argument, 0.0 if argument == "hue" else 1.0)
        return self._then(op, keep_position, name)

    def random_grayscale(
        self, column: str, *, p: float = 0.1, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Makes an image grey with probability `p`; it keeps its channels.

        Args:
            column: The column.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {"op": "random_grayscale", "column": column, "probability": arguments.number(p, "random_grayscale", "p")}
        return self._then(op, keep_position, name)

    def random_solarize(
        self,
        column: str,
        threshold: float = 128.0,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Inverts the levels from `threshold` on, with probability `p`: a level `v` becomes `255 - v`.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.full((4, 8, 8, 3), 200, np.uint8)})
        >>> ds = ds.random_solarize("image", 128, p=1)
        >>> int(next(iter(ds))["image"].max())
        55

        Args:
            column: The column.
            threshold: The least level that is inverted, 0 to 255.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_solarize",
            "column": column,
            "threshold": arguments.number(threshold, "random_solarize", "threshold"),
            "probability": arguments.number(p, "random_solarize", "p"),
        }
        return self._then(op, keep_position, name)

    def gaussian_blur(
        self,
        column: str,
        kernel_size: int,
        *,
        sigma: float | tuple[float, float] = (0.1, 2.0),
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Blurs with a Gaussian whose standard deviation is uniform within `sigma`. Edges are reflected.

        Args:
            column: The column.
            kernel_size: Rows and columns of the kernel in pixels, an odd number. SimCLR takes a tenth of the image.
            sigma: Pixels: the least and the greatest, or one number.
            p: The probability that the image is blurred at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "gaussian_blur",
            "column": column,
            "kernel_size": arguments.whole(kernel_size, "gaussian_blur", "kernel_size", 1),
            "sigma": arguments.interval(
                (sigma, sigma) if isinstance(sigma, (int, float)) else sigma, "gaussian_blur", "sigma"
            ),
            "probability": arguments.number(p, "gaussian_blur", "p"),
        }
        return self._then(op, keep_position, name)

    def random_rotation(
        self,
        column: str,
        degrees: float | tuple[float, float],
        *,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: int | Iterable[int] | None = 0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Turns the image to the left about its centre, by an angle uniform within `degrees`. The size stays.

        Args:
            column: The column.
            degrees: The least and the greatest angle; one number `x` stands for `(-x, x)`.
            interpolation: Whether a pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_rotation",
            "column": column,
            "degrees": arguments.around(degrees, "random_rotation", "degrees", 0.0),
            **looked_up(interpolation, fill, "random_rotation"),
        }
        return self._then(op, keep_position, name)

    def rand_augment(
        self,
        column: str,
        *,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: int | Iterable[int] | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Applies `num_ops` of RandAugment's fourteen operations, each drawn anew, in torchvision's ranges.

        Args:
            column: The column.
            num_ops: The number of operations for each image.
            magnitude: The strength, from 0 to `num_magnitude_bins - 1`.
            num_magnitude_bins: The number of magnitudes.
            interpolation: Whether a moved pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255; zeros without it.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "rand_augment",
            "column": column,
            "num_ops": arguments.whole(num_ops, "rand_augment", "num_ops", 0),
            "magnitude": arguments.whole(magnitude, "rand_augment", "magnitude", 0),
            "num_magnitude_bins": arguments.whole(num_magnitude_bins, "rand_augment", "num_magnitude_bins", 2),
            **looked_up(interpolation, fill, "rand_augment"),
        }
        return self._then(op, keep_position, name)

    def random_erasing(
        self,
        column: str,
        *,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Iterable[float] | Literal["random"] = 0.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Overwrites a rectangle, before `normalize` or, as torchvision's recipes do, behind it.

        Behind `normalize`, `value` is a normalised number: 0 is the mean colour. No flip may follow there.

        Args:
            column: The column.
            p: The probability.
            scale: The least and the greatest share of the image's area.
            ratio: The least and the greatest height / width.
            value: One number or one for each channel: levels 0 to 255 before `normalize`, any numbers behind it. Or,
                behind it, `"random"`: each number drawn from the standard normal distribution.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_erasing",
            "column": column,
            "probability": arguments.number(p, "random_erasing", "p"),
            "scale": arguments.interval(scale, "random_erasing", "scale"),
            "ratio": arguments.interval(ratio, "random_erasing", "ratio"),
            "value": None if value == "random" else arguments.numbers(value, "random_erasing", "value"),
        }
        return self._then(op, keep_position, name)


def looked_up(interpolation: str, fill: int | Iterable[int] | None, op: str) -> dict[str, Any]:
    """Returns the arguments that say how an op computes a pixel between pixels, and one outside the image."""
    levels = fill if isinstance(fill, Iterable) or fill is None else [fill]
    return {
        "interpolation": arguments.choice(interpolation, op, "interpolation", "nearest", "bilinear"),
        "fill": None if levels is None else [arguments.whole(v, op, "fill", 0, 255) for v in levels],
    }
