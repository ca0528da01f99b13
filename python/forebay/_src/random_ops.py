"""Tells from an op's name whether it draws random numbers."""

from __future__ import annotations

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
        "mosaic",
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
