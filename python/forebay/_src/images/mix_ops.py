"""Ops that mix the samples of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class MixOps(Base):
    """Ops after `batch` that mix each sample with another one of its batch.

    The share and the pairs depend on the seed, the epoch, the op and the first sample of the batch.
    """

    __slots__ = ()

    def mixup(
        self,
        column: str,
        label: str,
        *,
        classes: int,
        alpha: float = 1.0,
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Blends each sample of a batch with another: a share of both, and of both labels.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"x": np.eye(4, dtype=np.float32), "label": np.arange(4)})
        >>> batch = next(iter(ds.batch(4).mixup("x", "label", classes=4)))
        >>> bool((batch["x"] == batch["label"]).all())
        True

        Args:
            column: Float32 tensors of one shape, such as images after `normalize`.
            label: The numbers of the classes, which become float32 shares of the classes; or such shares already.
            classes: How many classes there are.
            alpha: The share that a sample keeps is drawn from Beta(alpha, alpha), once for each batch.
            p: The probability that a batch is mixed at all; labels become shares in any case.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._then(_mix("mixup", column, label, classes, alpha, p), keep_position, name)

    def cutmix(
        self,
        column: str,
        label: str,
        *,
        classes: int,
        alpha: float = 1.0,
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts a box of another image of the batch into each, and mixes the labels by the box's share of the area.

        Args:
            column: Uint8 or float32 images of one shape with 1 or 3 channels, first or last.
            label: The numbers of the classes, which become float32 shares of the classes; or such shares already.
            classes: How many classes there are.
            alpha: The share of the area that an image keeps is drawn from Beta(alpha, alpha), once for each batch.
            p: The probability that a batch is mixed at all; labels become shares in any case.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        return self._then(_mix("cutmix", column, label, classes, alpha, p), keep_position, name)


def _mix(how: str, column: str, label: str, classes: int, alpha: float, p: float) -> dict[str, Any]:
    return {
        "op": "mix",
        "how": how,
        "column": column,
        "label": label,
        "classes": arguments.whole(classes, how, "classes", 1),
        "alpha": arguments.number(alpha, how, "alpha"),
        "probability": arguments.number(p, how, "p"),
    }
