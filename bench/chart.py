"""Draws in plain SVG: comparisons as bars, every bar against the longest of its panel, and curves."""

from __future__ import annotations

from collections.abc import Callable
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
    """Returns the picture of a comparison."""
    panels: dict[str, list[tuple[str, float]]] = {}
    for workload, title in TITLES.items():
        rows = [(row["name"], row["items_per_s"]) for row in result["results"] if row["workload"] == workload]
        if rows:
            panels[title] = sorted(rows, key=lambda row: -row[1])
    runs = max((row["runs"] for row in result["results"]), default=0)
    note = f"medians of {runs} runs in turns, {result['date']}; {result['machine']}"
    return bars(panels, lambda name: name.startswith("Forebay"), note)


def bars(panels: dict[str, list[tuple[str, float]]], is_ours: Callable[[str], bool], note: str) -> str:
    """Returns a picture of panels of bars, each with its name and its number."""
    parts: list[str] = []
    y = 16
    for title, rows in panels.items():
        parts.append(text(12, y + 16, title, weight=600))
        y += HEAD
        most = max(value for _, value in rows)
        for name, value in rows:
            parts.extend(bar(name, value, OURS if is_ours(name) else RIVAL, y, most))
            y += ROW
        y += 14
    parts.append(text(12, y + 10, note, size=10, colour=PALE))
    return picture(WIDTH, y + 24, parts)


def picture(width: int, height: int, parts: list[str]) -> str:
    """Returns a picture of the parts on a white background."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def bar(name: str, value: float, colour: str, y: int, most: float) -> list[str]:
    """Returns one bar with its name and its number."""
    length = max(1.0, BAR * value / most)
    return [
        text(NAME, y + 14, name, anchor="end"),
        f'<rect x="{NAME + 10}" y="{y + 2}" width="{length:.1f}" height="{ROW - 6}" rx="2" fill="{colour}"/>',
        text(int(NAME + 16 + length), y + 14, f"{value:,.0f}", colour=PALE),
    ]


def text(
    x: int, y: int, words: str, *, size: int = 12, weight: int = 400, anchor: str = "start", colour: str = INK
) -> str:
    """Returns one line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(words)}</text>'
    )


PLOT_WIDTH, PLOT_HEIGHT, LEFT, TOP = 560, 280, 60, 16
COLOURS = ("#9aa7b4", "#d55e00", "#009e73", "#1f6feb")


def curves(lines: dict[str, list[tuple[float, float]]], across: str, up: str) -> str:
    """Returns a picture of curves from points. The last curve is Forebay's, and is drawn as dots above the others."""
    points = [point for line in lines.values() for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    most = max(y for _, y in points) * 1.05

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = LEFT + PLOT_WIDTH * (point[0] - first) / (last - first)
        return x, TOP + PLOT_HEIGHT * (1 - point[1] / most)

    parts = [f'<path d="M{LEFT} {TOP}V{TOP + PLOT_HEIGHT}H{LEFT + PLOT_WIDTH}" fill="none" stroke="#888888"/>']
    parts += [
        text(LEFT - 6, TOP + 6, f"{most:.0f}", anchor="end", colour=PALE),
        text(LEFT - 6, TOP + PLOT_HEIGHT, "0", anchor="end", colour=PALE),
        text(LEFT, TOP + PLOT_HEIGHT + 18, f"{first:.0f}", anchor="middle", colour=PALE),
        text(LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT + 18, f"{last:.0f}", anchor="middle", colour=PALE),
        text(LEFT + PLOT_WIDTH // 2, TOP + PLOT_HEIGHT + 34, across, anchor="middle"),
        text(LEFT + 8, TOP + 6, up),
    ]
    for i, ((name, line), colour) in enumerate(zip(lines.items(), COLOURS, strict=True)):
        places = [place(point) for point in line]
        if i == len(lines) - 1:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>' for x, y in places]
        else:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 14 + 20 * i
        parts.append(f'<rect x="{LEFT + PLOT_WIDTH + 20}" y="{y - 9}" width="16" height="10" fill="{colour}"/>')
        parts.append(text(LEFT + PLOT_WIDTH + 42, y, name))
    return picture(LEFT + PLOT_WIDTH + 180, TOP + PLOT_HEIGHT + 46, parts)
