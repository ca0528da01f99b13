"""Random maps of an image, and policies that draw one of many operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.images.augment_ops import looked_up
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class WarpOps(Base):
    """Random ops that may move pixels by a map, by torchvision's rules. Boxes, masks and points follow."""

    __slots__ = ()

    def random_affine(
        self,
        column: str,
        degrees: float | tuple[float, float],
        *,
        translate: tuple[float, float] = (0.0, 0.0),
        scale: tuple[float, float] | None = None,
        shear: float | tuple[float, float] | tuple[float, float, float, float] | None = None,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: int | Iterable[int] | None = 0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Turns, shifts, scales and shears the image about its centre. The size stays.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((4, 8, 8, 3), np.uint8)})
        >>> ds.random_affine("image", 10, translate=(0.1, 0.1), scale=(0.8, 1.2)).schema["image"].shape
        (8, 8, 3)

        Args:
            column: The column.
            degrees: The least and the greatest angle to the right; one number `x` stands for `(-x, x)`.
            translate: The greatest shift of columns and of rows, as shares of width and height.
            scale: The least and the greatest factor of the size.
            shear: Degrees along x: one number `x` for `(-x, x)`, or the least and the greatest; two more for y.
            interpolation: Whether a pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "random_affine",
            "column": column,
            "degrees": arguments.around(degrees, "random_affine", "degrees", 0.0),
            "translate": arguments.interval(translate, "random_affine", "translate"),
            **looked_up(interpolation, fill, "random_affine"),
        }
        if scale is not None:
            op["scale"] = arguments.interval(scale, "random_affine", "scale")
        if shear is not None:
            op["shear"] = _shear(shear)
        return self._then(op, keep_position, name)

    def random_perspective(
        self,
        column: str,
        distortion_scale: float = 0.5,
        *,
        p: float = 0.5,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: int | Iterable[int] | None = 0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Shows the image from another side, with probability `p`: its corners move inwards. The size stays.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((4, 8, 8, 3), np.uint8)})
        >>> ds.random_perspective("image", 0.3, p=1).schema["image"].shape
        (8, 8, 3)

        Args:
            column: The column.
            distortion_scale: How far each corner may move towards the middle: 0 not at all, 1 to the middle. Close to
                1, corners that span no convex shape may be drawn; they leave the image as it is.
            p: The probability.
            interpolation: Whether a pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_perspective",
            "column": column,
            "distortion_scale": arguments.number(distortion_scale, "random_perspective", "distortion_scale"),
            "probability": arguments.number(p, "random_perspective", "p"),
            **looked_up(interpolation, fill, "random_perspective"),
        }
        return self._then(op, keep_position, name)

    def auto_augment(
        self,
        column: str,
        policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet",
        *,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: int | Iterable[int] | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Applies one of the 25 pairs of operations of a learned policy: torchvision's `AutoAugment`.

        Args:
            column: The column.
            policy: The data set on which the policy was learned: `"imagenet"`, `"cifar10"` or `"svhn"`.
            interpolation: Whether a moved pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255; zeros without it.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "auto_augment",
            "column": column,
            "policy": arguments.choice(policy, "auto_augment", "policy", "imagenet", "cifar10", "svhn"),
            **looked_up(interpolation, fill, "auto_augment"),
        }
        return self._then(op, keep_position, name)

    def trivial_augment(
        self,
        column: str,
        *,
        num_magnitude_bins: int = 31,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        fill: int | Iterable[int] | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Applies one of fourteen operations, of any strength: torchvision's `TrivialAugmentWide`.

        Args:
            column: The column.
            num_magnitude_bins: The number of magnitudes.
            interpolation: Whether a moved pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255; zeros without it.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "trivial_augment",
            "column": column,
            "num_magnitude_bins": arguments.whole(num_magnitude_bins, "trivial_augment", "num_magnitude_bins", 2),
            **looked_up(interpolation, fill, "trivial_augment"),
        }
        return self._then(op, keep_position, name)

    def aug_mix(
        self,
        column: str,
        *,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int | None = None,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: int | Iterable[int] | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Blends the image with copies of itself that random operations changed: torchvision's `AugMix`.

        Args:
            column: The column.
            severity: The strength of the operations, 1 to 10.
            mixture_width: The number of copies, 1 to 16.
            chain_depth: The number of operations on each copy; without it, 1 to 3 are drawn.
            alpha: How alike the shares of a blend are: large numbers make them equal.
            all_ops: Whether brightness, contrast, colour and sharpness are among the operations.
            interpolation: Whether a moved pixel is the nearest one, or blended of four.
            fill: The level outside the image: one, or one for each channel, 0 to 255; zeros without it.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "aug_mix",
            "column": column,
            "severity": arguments.whole(severity, "aug_mix", "severity", 1),
            "mixture_width": arguments.whole(mixture_width, "aug_mix", "mixture_width", 1),
            "alpha": arguments.number(alpha, "aug_mix", "alpha"),
            "all_ops": arguments.flag(all_ops, "aug_mix", "all_ops"),
            **looked_up(interpolation, fill, "aug_mix"),
        }
        if chain_depth is not None:
            op["chain_depth"] = arguments.whole(chain_depth, "aug_mix", "chain_depth", 1)
        return self._then(op, keep_position, name)


def _shear(shear: float | tuple[float, ...]) -> list[list[float]]:
    """Returns the least and the greatest shear along x, then along y."""
    given = [-shear, shear] if isinstance(shear, (int, float)) else shear
    try:
        degrees = [arguments.number(angle, "random_affine", "shear") for angle in given]
    except TypeError:
        degrees = []
    if len(degrees) not in (2, 4):
        hint = "use one number of degrees, (least, greatest), or two more for y"
        raise InvalidPipelineError(f"random_affine: shear={arguments.shown(shear)} is no shear", {"hint": hint})
    return [degrees[:2], degrees[2:] or [0.0, 0.0]]
