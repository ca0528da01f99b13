"""Ops that change the levels of images at random, each with a probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class LevelOps(Base):
    """Random ops on the levels of uint8 images, by torchvision's rules. `p=1` applies an op to every image.

    >>> import forebay as fb
    >>> import numpy as np
    >>> ds = fb.from_numpy({"image": np.full((4, 8, 8, 3), 200, np.uint8)})
    >>> int(next(iter(ds.random_invert("image", p=1)))["image"].max())
    55
    >>> int(next(iter(ds.random_posterize("image", 1, p=1)))["image"].max())
    128
    """

    __slots__ = ()

    def random_posterize(
        self,
        column: str,
        bits: int,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Keeps the upper `bits` bits of each level, with probability `p`.

        Args:
            column: The column.
            bits: The bits that are kept, 1 to 8.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        given = {"bits": arguments.whole(bits, "random_posterize", "bits", 1, 8)}
        return self._with_probability("random_posterize", column, p, given, keep_position, name)

    def random_invert(
        self,
        column: str,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes `255 - v` of each level `v`, with probability `p`.

        Args:
            column: The column.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._with_probability("random_invert", column, p, {}, keep_position, name)

    def random_autocontrast(
        self,
        column: str,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stretches the levels of each channel to 0 to 255, with probability `p`.

        Args:
            column: The column.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._with_probability("random_autocontrast", column, p, {}, keep_position, name)

    def random_equalize(
        self,
        column: str,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Spreads the levels of each channel evenly, with probability `p`.

        Args:
            column: The column.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._with_probability("random_equalize", column, p, {}, keep_position, name)

    def random_adjust_sharpness(
        self,
        column: str,
        factor: float,
        *,
        p: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Sharpens or smooths, with probability `p`.

        Args:
            column: The column.
            factor: 0 smooths, 1 changes nothing, 2 sharpens.
            p: The probability.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        given = {"factor": arguments.number(factor, "random_adjust_sharpness", "factor")}
        return self._with_probability("random_adjust_sharpness", column, p, given, keep_position, name)

    def random_channel_permutation(
        self, column: str, *, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Puts the three channels in a random order, each of the six with the same probability.

        Args:
            column: The column.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._then({"op": "random_channel_permutation", "column": column}, keep_position, name)

    def gaussian_noise(
        self,
        column: str,
        *,
        mean: float = 0.0,
        sigma: float | tuple[float, float] = 0.1,
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Adds a draw of a normal distribution to every level, and clips to 0 to 255.

        Args:
            column: The column.
            mean: The mean of the draws, as a share of 255.
            sigma: Their standard deviation, as a share of 255: one number, or the least and the greatest, between which
                it is drawn for each image.
            p: The probability that the image changes at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        bounds = (sigma, sigma) if isinstance(sigma, (int, float)) else sigma
        given = {
            "mean": arguments.number(mean, "gaussian_noise", "mean"),
            "sigma": arguments.interval(bounds, "gaussian_noise", "sigma"),
        }
        return self._with_probability("gaussian_noise", column, p, given, keep_position, name)

    def _with_probability(
        self, op: str, column: str, p: float, given: dict[str, Any], keep_position: bool, name: str | None
    ) -> Dataset:
        """Adds an op that changes an image with probability `p`, and has the arguments `given`."""
        described = {"op": op, "column": column, **given, "probability": arguments.number(p, op, "p")}
        return self._then(described, keep_position, name)
