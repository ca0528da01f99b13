"""Tells from a pipeline's graph whether its stream differs from epoch to epoch: whether it shuffles, or an op draws."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay import _native

#: Ops that draw random numbers, besides those whose name begins with "rand". `mix` is mixup and cutmix.
RANDOM_OPS = frozenset(
    (
        "aug_mix",
        "auto_augment",
        "color_jitter",
        "corrupt_spans",
        "cutmix",
        "fill_in_middle",
        "gaussian_blur",
        "gaussian_noise",
        "mask_tokens",
        "mix",
        "mixup",
        "prefix_lm",
        "shuffle",
        "spec_augment",
        "trivial_augment",
    )
)


def is_random_op(name: str) -> bool:
    """Returns whether an op of this name draws random numbers, with any arguments.

    >>> is_random_op("random_flip"), is_random_op("shuffle"), is_random_op("resize")
    (True, True, False)
    """
    return name.startswith("rand") or name in RANDOM_OPS


def is_random(pipeline: _native.Pipeline) -> bool:
    """Returns whether two epochs of a pipeline differ.

    >>> import forebay as fb
    >>> is_random(fb.range(9).shuffle()._pipeline), is_random(fb.range(9).batch(2)._pipeline)
    (True, False)
    """
    return _draws(json.loads(pipeline.to_json()))


def _draws(graph: Mapping[str, Any]) -> bool:
    source = graph["source"]
    how = source.get("how")
    if (isinstance(how, dict) and "mix" in how) or any(_draws(part["graph"]) for part in source.get("parts", ())):
        return True
    ops = [node["op"] for node in graph["nodes"]]
    return any(is_random_op(op["op"]) or op.get("function", {}).get("with_rng") for op in ops)
