"""Draws a comparison as bars, in plain SVG: one panel for each workload, every bar against the longest of its panel."""

from __future__ import annotations

from html import escape
from typing import Any

TITLES = {
    "W1": "JPEG to 224 x 224 float32, images a second",
    "W2": "small records, records a second",
    "W3": "text to sequences of 1,024 tokens, sequences a second",
    "W4": "Parquet to features, rows a second",
}
WIDTH, NAME, BAR, ROW, HEAD = 860, 250, 440, 22, 34
OURS, RIVAL, INK, PALE = "#1f6feb", "#9aa7b4", "#1f2328", "#59636e"


def draw(result: dict[str, Any]) -> str:
    """Returns the picture."""
    parts: list[str] = []
    y = 16
    for workload, title in TITLES.items():
        rows = [row for row in result["results"] if row["workload"] == workload]
        if not rows:
            continue
        parts.append(text(12, y + 16, title, weight=600))
        y += HEAD
        most = max(row["items_per_s"] for row in rows)
        for row in sorted(rows, key=lambda row: -row["items_per_s"]):
            parts.extend(bar(row, y, most))
            y += ROW
        y += 14
    note = f"medians of {max((row['runs'] for row in result['results']), default=0)} runs in turns, {result['date']}"
    parts.append(text(12, y + 10, f"{note}; {result['machine']}", size=10, colour=PALE))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24}" width="{WIDTH}" '
        f'font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def bar(row: dict[str, Any], y: int, most: float) -> list[str]:
    """One bar with its name and its number."""
    length = max(1.0, BAR * row["items_per_s"] / most)
    colour = OURS if row["name"].startswith("Forebay") else RIVAL
    return [
        text(NAME, y + 14, row["name"], anchor="end"),
        f'<rect x="{NAME + 10}" y="{y + 2}" width="{length:.1f}" height="{ROW - 6}" rx="2" fill="{colour}"/>',
        text(int(NAME + 16 + length), y + 14, f"{row['items_per_s']:,.0f}", colour=PALE),
    ]


def text(
    x: int, y: int, words: str, *, size: int = 12, weight: int = 400, anchor: str = "start", colour: str = INK
) -> str:
    """One line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(words)}</text>'
    )
