"""Text for a terminal: values on one line, without control characters, and tables."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

#: Categories of characters that could move the cursor, change colours, or reverse the text around them.
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def cell(value: Any, width: int) -> str:
    r"""Returns a value on one line of at most `width` characters.

    >>> cell("a\x1b[31m", 20), cell("x" * 9, 4), cell(b"\xff", 9), cell(np.zeros((2, 3), np.int8), 30)
    ('a\\x1b[31m', 'xxx…', '1 byte', 'int8[2, 3]  0 0 0 0 …')
    """
    if isinstance(value, bytes):
        text = shown_bytes(value)
    elif isinstance(value, np.ndarray):
        first = " ".join(str(_short(v)) for v in value.reshape(-1)[:4])
        text = f"{value.dtype}[{', '.join(map(str, value.shape))}]  {first}{' …' if value.size > 4 else ''}"
    else:
        text = str(_short(value))
    return clean(text, width)


def clean(text: str, width: int) -> str:
    """Returns a text on one line, with escapes for hidden characters, cut to `width` characters."""
    part = text[: width + 1]
    if not part.isprintable():
        part = "".join(_escaped(letter) for letter in part)
    return part if len(part) <= width and len(text) <= width else part[: max(width - 1, 0)] + "…"


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in _HIDDEN:
        return letter.encode("unicode_escape").decode()
    return letter


def shown_bytes(value: bytes) -> str:
    """Returns short printable bytes as they are, and of others their number."""
    if len(value) <= 20 and value.isascii() and value.decode("ascii").isprintable():
        return repr(value)
    return "1 byte" if len(value) == 1 else f"{len(value)} bytes"


def _short(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    return value


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Returns the lines of a table, without columns that are empty.

    >>> table(["a", "b", "c"], [["1", "", "x"], ["22", "", "y"]])
    ['  a   c', '  1   x', '  22  y']
    """
    used = [i for i, _ in enumerate(head) if any(row[i] for row in rows)]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in used]
    lines = []
    for row in [head, *rows]:
        cells = (row[i].ljust(width) for i, width in zip(used, widths, strict=True))
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def size(count: float) -> str:
    """Returns a number of bytes in words.

    >>> size(10), size(3 << 20)
    ('10 bytes', '3.0 MiB')
    """
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}"
    return f"{count:.0f} bytes"
