"""A contact sheet: a picture with a row for each op and a place for each sample. Pillow draws it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from forebay._src.command_line.terminal import cell, clean
from forebay._src.preview.stages import Stage
from forebay._src.preview.thumbnails import SIDE, pixels
from forebay.errors import UnavailableError

_GAP, _LINE = 8, 14
#: The most rows of the sheet.
_ROWS_MAX = 60


def write(path: str | os.PathLike[str], stages: list[Stage]) -> None:
    """Writes a PNG file.

    Raises:
        UnavailableError: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        context = {"cause": str(error), "hint": "pip install pillow, or leave --png out"}
        raise UnavailableError("preview: the package pillow is not installed", context) from None
    shown = stages[:_ROWS_MAX]
    places = max([len(_samples(stage)) for stage in shown] + [1])
    width, height = places * (SIDE + _GAP) + _GAP, len(shown) * (SIDE + _LINE + 2 * _GAP)
    sheet = Image.new("RGB", (max(width, 400), height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, stage in enumerate(shown):
        top = row * (SIDE + _LINE + 2 * _GAP) + _GAP
        draw.text((_GAP, top), _plain(clean(stage.text, 100)), fill="black")
        for place, sample in enumerate(_samples(stage)):
            at = (_GAP + place * (SIDE + _GAP), top + _LINE)
            small = next((p for p in map(pixels, sample.values()) if p is not None), None)
            if small is not None:
                sheet.paste(Image.fromarray(np.ascontiguousarray(small)), at)
                continue
            lines = [_plain(clean(f"{name}: {cell(one, 40)}", 20)) for name, one in list(sample.items())[:8]]
            draw.multiline_text(at, "\n".join(lines), fill="gray")
    sheet.save(path, "PNG")


def _samples(stage: Stage) -> list[dict[str, Any]]:
    if not stage.is_batch or not stage.samples:
        return stage.samples
    batch = stage.samples[0]
    count = min(16, *(len(column) for column in batch.values()))
    return [{name: column[place] for name, column in batch.items()} for place in range(count)]


def _plain(text: str) -> str:
    """Returns text in the letters that Pillow's own font has."""
    return text.encode("latin-1", "replace").decode("latin-1")
