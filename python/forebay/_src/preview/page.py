"""One HTML page without scripts and without foreign addresses: users' names and texts are escaped, values are cut."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
from forebay._src.command_line.terminal import cell, clean
from forebay._src.preview.stages import Stage
from forebay._src.preview.thumbnails import data_url

#: The most characters of a text, of a name and of an op.
_TEXT_MAX, _NAME_MAX, _OP_MAX = 600, 80, 200
#: The most columns of a stage, and items of a batch.
_COLUMNS_MAX, _ITEMS_MAX = 40, 16

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #888; --before: #8881; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h3 { font: 600 14px ui-monospace, monospace; margin: 1.2rem 0 .3rem; }
h3 small { font-weight: 400; color: var(--quiet); }
p { margin: .2rem 0; } .quiet { color: var(--quiet); } .error { color: #c33; white-space: pre-wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; vertical-align: top; }
th { text-align: left; font-weight: 500; white-space: nowrap; } tr.before { background: var(--before); }
td { max-width: 16rem; overflow-wrap: anywhere; font: 12px/1.35 ui-monospace, monospace; white-space: pre-wrap; }
img { display: block; max-width: 128px; max-height: 128px; image-rendering: pixelated; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title: str, note: str, datasets: Mapping[str, list[Stage]]) -> str:
    """Returns the page."""
    parts = [f"<h2>{_text(name, _NAME_MAX)}</h2>{''.join(map(_stage, stages))}" for name, stages in datasets.items()]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title, _NAME_MAX)}</title><style>{_STYLE}</style>"
    )
    body = f"<h1>{_text(title, _OP_MAX)}</h1><p class=quiet>{_text(note, _OP_MAX)}</p>{''.join(parts)}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _text(value: str, width: int) -> str:
    return html.escape(clean(value, width))


def _stage(stage: Stage) -> str:
    line = f" <small>line {stage.line}</small>" if stage.line else ""
    errors = "".join(f'<p class="error">{html.escape(clean_lines(error))}</p>' for error in stage.errors)
    return f"<h3>{_text(stage.text, _OP_MAX)}{line}</h3>{errors}{_table(stage)}"


def clean_lines(text: str) -> str:
    """Returns a text of some lines with escapes for hidden characters."""
    return "\n".join(clean(line, 400) for line in text.splitlines()[:20])


def _table(stage: Stage) -> str:
    if stage.kept:
        count = sum(stage.kept)
        said = f"<p class=quiet>keeps {count} of the first {len(stage.kept)} samples</p>"
        return said + _rows(stage, list(stage.types), {})
    if not stage.samples:
        return "<p class=quiet>no samples</p>" if not stage.errors else ""
    changed = stage.changed()
    removed = [name for name in (stage.before[0] if stage.before else {}) if name not in stage.types]
    gone = f"<p class=quiet>without {', '.join(_text(name, _NAME_MAX) for name in removed[:20])}</p>" if removed else ""
    if stage.before and not changed:
        return gone or "<p class=quiet>the samples stay as they are</p>"
    before = {name: name in stage.before[0] for name in changed} if stage.before else {}
    return gone + _rows(stage, changed, before)


def _rows(stage: Stage, names: list[str], before: Mapping[str, bool]) -> str:
    rows = []
    for name in names[:_COLUMNS_MAX]:
        label = f"{_text(name, _NAME_MAX)} <small class=quiet>{_text(stage.types[name], _NAME_MAX)}</small>"
        if before.get(name):
            cells = "".join(f"<td>{value(sample[name])}</td>" for sample in stage.before)
            rows.append(
                f"<tr class=before><th>{_text(name, _NAME_MAX)} <small class=quiet>before</small></th>{cells}</tr>"
            )
        of = _items(stage.samples[0][name]) if stage.is_batch else [sample[name] for sample in stage.samples]
        cells = "".join(f"<td>{value(one)}</td>" for one in of)
        rows.append(f"<tr><th>{label}</th>{cells}</tr>")
    more = len(names) - _COLUMNS_MAX
    rest = f"<p class=quiet>and {more} more columns</p>" if more > 0 else ""
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>{rest}'


def _items(column: Any) -> list[Any]:
    return [column[place] for place in range(min(len(column), _ITEMS_MAX))]


def value(of: Any) -> str:
    r"""Returns a value as HTML: a picture of an image, a text with escapes, the first numbers of an array.

    >>> value("<b>\x1b[1m"), value(None)
    ('&lt;b&gt;\\x1b[1m', '<span class=quiet>missing</span>')
    """
    if of is None or of is np.ma.masked:
        return "<span class=quiet>missing</span>"
    text = html.escape(cell(of, _TEXT_MAX))
    address = data_url(of) if isinstance(of, (bytes, np.ndarray)) else None
    if address is None:
        return text
    shape = html.escape(cell(of, _TEXT_MAX).partition("  ")[0])
    return f'<img alt="" src="{address}"><span class=quiet>{shape}</span>'
