"""A rule on squares: a crop behind a resize to a square, which in torchvision keeps the shape of images."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from forebay._src.lint.finding import Finding
from forebay._src.written import Step, Written

_CROPS = ("center_crop", "random_crop", "five_crop")


def distorted(written: Written, dataset: str) -> Iterator[Finding]:
    """Yields a finding for each resize of images of any shape to a square that the next op crops.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"x": [b""]}).decode_image("x")
    >>> found = distorted(Written.of(ds.resize("x", 256).center_crop("x", 224)), "ds")
    >>> [one.write for one in found]
    ["resize('x', shorter=256), which keeps the shape"]
    >>> list(distorted(Written.of(ds.resize("x", shorter=256).center_crop("x", 224)), "ds"))
    []
    """
    for step, after in itertools.pairwise(written.steps):
        resize, crop = _op(step), _op(after)
        if resize["op"] != "resize" or crop["op"] not in _CROPS or crop["column"] != resize["column"]:
            continue
        column, size = resize["column"], resize["height"]
        if size == resize["width"] and None in step.before.schema[column].shape[:2]:
            message = (
                f"resize to {size} x {size} makes squares of images of any shape before {crop['op']}, and distorts "
                f"them; torchvision's Resize({size}) keeps their shape"
            )
            write = f"resize({column!r}, shorter={size}), which keeps the shape"
            yield Finding.at(step, dataset, "square-before-crop", "warning", message, write)


def _op(step: Step) -> dict[str, Any]:
    """Returns an op, or the one that boxes and masks follow."""
    of: dict[str, Any] = step.op.get("of", step.op)
    return of
