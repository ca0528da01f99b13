"""Rules on columns, found in the graph alone: work on a column that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forebay._src.lint.finding import Finding
from forebay._src.written import Step, Written

#: Ops that change one column and nothing else, so that they are no use of it.
_CHANGE = frozenset(
    (
        "aug_mix",
        "auto_augment",
        "cast",
        "center_crop",
        "color_jitter",
        "crop",
        "crop_audio",
        "decode_image",
        "encode_image",
        "gaussian_blur",
        "gaussian_noise",
        "normalize",
        "pad",
        "normalize_audio",
        "rand_augment",
        "random_adjust_sharpness",
        "random_affine",
        "random_autocontrast",
        "random_channel_permutation",
        "random_crop",
        "random_equalize",
        "random_erasing",
        "random_flip",
        "random_gain",
        "random_grayscale",
        "random_invert",
        "random_perspective",
        "random_posterize",
        "random_offset",
        "random_resized_crop",
        "random_rotation",
        "random_solarize",
        "random_zoom_out",
        "resample_audio",
        "resize",
        "spec_augment",
        "tokenize",
        "trivial_augment",
    )
)
#: Ops that look at no column.
_BLIND = frozenset(
    (
        "autocache",
        "batch",
        "cache",
        "drop",
        "enumerate",
        "prefetch",
        "rename",
        "repeat",
        "select",
        "select_rows",
        "shard",
        "shuffle",
        "skip",
        "take",
    )
)


def unused(written: Written, dataset: str) -> Iterator[Finding]:
    """Yields findings about columns that are made or changed, and then dropped or replaced without a use."""
    #: The last op that worked on a column that nothing has used since.
    worked: dict[str, Step] = {}
    for step in written.steps:
        if step.kind == "rename":
            worked = {_renamed(step.op).get(name, name): at for name, at in worked.items()}
            continue
        uses = used(step.op)
        for name in list(worked):
            if uses is None or name in uses:
                del worked[name]
        there = step.after.schema
        made = _made(step)
        for name, at in list(worked.items()):
            if name in there and name not in made:
                continue
            del worked[name]
            end = "replaces" if name in there else "drops"
            verb = "is made" if name in _made(at) else "is changed"
            yield Finding.at(
                at,
                dataset,
                "unused-column",
                "warning",
                f"column {name!r} {verb} by {at.text}, and {step.text} in line {step.line} {end} it before it is used",
                f"leave {at.text} out" if len(_made(at) or _changed(at)) == 1 else f"do not make {name!r} there",
            )
        worked.update(dict.fromkeys([*made, *_changed(step)], step))


def used(op: dict[str, Any]) -> set[str] | None:
    """Returns the columns that an op uses; `None` if it uses all of them."""
    kind = op["op"]
    if _output(op) is not None:
        return {op["column"], op.get("tools") or op["column"]}
    if kind in _BLIND or kind in _CHANGE:
        return set()
    if "function" in op:
        reads = op["function"]["reads"]
        return None if reads is None else set(reads)
    parts = op.get("value") if kind == "with_column" else op.get("predicate") if kind == "filter_expr" else None
    if isinstance(parts, list):
        return columns_in(parts)
    return None


def columns_in(parts: list[Any]) -> set[str]:
    """Returns the columns in the parts of an expression."""
    return {part["name"] for part in parts if isinstance(part, dict) and part.get("expr") == "col"}


def _made(step: Step) -> list[str]:
    """Returns the columns that an op makes."""
    op = step.op
    if step.kind == "with_column":
        return [op["column"]]
    if step.kind == "map":
        return [field["name"] for field in op["output"]]
    added, *_ = step.changes()
    return added


def _changed(step: Step) -> list[str]:
    """Returns the columns that an op changes and does not make."""
    if step.kind == "cast":
        return [pair[0] for pair in step.op["columns"]]
    is_change = step.kind in _CHANGE and "column" in step.op and _output(step.op) is None
    return [step.op["column"]] if is_change else []


def _output(op: dict[str, Any]) -> str | None:
    """Returns the column for the result of an op that leaves its own column as it is."""
    output = op.get("output")
    return output if isinstance(output, str) and output != op.get("column") else None


def _renamed(op: dict[str, Any]) -> dict[str, str]:
    return dict(op["columns"])
