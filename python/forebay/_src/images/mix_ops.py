"""Ops that mix the samples of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class MixOps(Base):
    """Ops after `batch` that mix each sample with others of its batch.

    The share and the pairs of `mixup` and `cutmix` depend on the seed, the epoch, the op and the first sample of the
    batch; a mosaic depends on those of its own sample.
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

    def mosaic(
        self,
        column: str,
        *,
        center_range: tuple[float, float] = (0.25, 0.75),
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes each image of a batch of parts of four of its images, with their boxes, labels and masks.

        A place in the image is drawn. The lower right corner of the image itself, the lower left corner of a second
        image, the upper right corner of a third one and the upper left corner of a fourth one meet there. The result
        has the size of one image. Boxes are clipped to the part of their image that is left, and dropped by the rules
        of `annotate`. A batch of fewer than four images gives some of them again.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_map_dataset([
        ...     {"image": np.full((8, 8, 3), i, np.uint8), "boxes": np.array([[0, 0, 8, 8]], np.float32)}
        ...     for i in range(4)
        ... ])
        >>> ds = ds.resize("image", 8).annotate("image", boxes="boxes").batch(4, ragged=["boxes"])
        >>> batch = next(ds.mosaic("image", center_range=(0.5, 0.5)).iter(seed=1))
        >>> batch["boxes"][0].tolist()
        [[0.0, 0.0, 4.0, 4.0], [4.0, 0.0, 8.0, 4.0], [0.0, 4.0, 4.0, 8.0], [4.0, 4.0, 8.0, 8.0]]

        Args:
            column: Uint8 or float32 images of one size with 1 or 3 channels, first or last, which `annotate` names.
                Columns with an entry for each box have to be `ragged` in their batch.
            center_range: Least and greatest share of the width and of the height at which the four images meet; (0, 1)
                allows that one image fills the result.
            p: The probability that an image is changed, drawn for each image.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "mosaic",
            "column": column,
            "center_range": arguments.interval(center_range, "mosaic", "center_range"),
            "probability": arguments.number(p, "mosaic", "p"),
        }
        return self._then(op, keep_position, name)


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
