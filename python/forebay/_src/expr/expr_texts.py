"""Texts that are made of several values of a row: `concat_str` and `format`, as in Polars."""

from __future__ import annotations

from string import Formatter

from forebay._src.expr.expr import Expr, ExprLike, col, lit
from forebay._src.expr.expr_arguments import unicode_text
from forebay._src.usage import explained

__all__ = ["concat_str", "format"]


@explained('concat_str(fb.col("a"), fb.col("b"), separator=" ")')
def concat_str(*parts: ExprLike, separator: str = "") -> Expr:
    """Joins the texts of a row, as Polars' `concat_str`; numbers are written as `cast(str)` writes them.

    It is missing where one of its parts is. `+` joins texts too: `fb.col("a") + " " + fb.col("b")`.

    Args:
        *parts: Columns by name, or expressions. A text by itself is `fb.lit("text")`.
        separator: The text between them.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"city": ["Bonn", "Ulm"], "zip": [53111, 89073]})
    >>> [row["x"] for row in ds.with_column("x", fb.concat_str("zip", "city", separator=" "))]
    ['53111 Bonn', '89073 Ulm']
    """
    if len(parts) == 1 and isinstance(parts[0], (list, tuple)):
        parts = tuple(parts[0])
    if not parts:
        raise TypeError("concat_str: there is nothing to join; name at least one column")
    between = lit(unicode_text("concat_str: separator", separator))
    texts = [_written(col(part) if isinstance(part, str) else lit(part)) for part in parts]
    joined = texts[0]
    for text in texts[1:]:
        joined = joined + between + text if separator else joined + text
    return joined


@explained('format("{} of {}", fb.col("a"), fb.col("b")), or format("{a} of {b}")')
def format(template: str, *parts: ExprLike) -> Expr:
    """Writes a text with values of the row in it, as Polars' `format`; numbers as `cast(str)` writes them.

    It is missing where one of its values is.

    Args:
        template: The text. `{name}` is a column; each `{}` is the next of `parts`; `{{` and `}}` are braces.
        *parts: Columns by name, or expressions.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"question": ["2 + 2?"], "answer": [4]})
    >>> ds = ds.with_column("text", fb.format("Q: {question} A: {}", fb.col("answer")))
    >>> [row["text"] for row in ds]
    ['Q: 2 + 2? A: 4']
    """
    found: list[Expr] = []
    left = list(parts)
    try:
        pieces = list(Formatter().parse(unicode_text("format: template", template)))
    except ValueError as error:
        raise ValueError(f"format: {error}; write {{{{ and }}}} for braces") from None
    for text, field, spec, conversion in pieces:
        if text:
            found.append(lit(text))
        if field is None:
            continue
        if spec or conversion:
            raise ValueError(f"format: {{{field}}} has a format of its own; compute the text before, as with .round()")
        if not field and not left:
            raise ValueError(f"format: there are more {{}} than values ({len(parts)})")
        part = field if field else left.pop(0)
        found.append(_written(col(part) if isinstance(part, str) else lit(part)))
    if left:
        raise ValueError(f"format: {len(left)} of {len(parts)} values have no {{}}")
    if not found:
        return lit("")
    joined = found[0]
    for part_text in found[1:]:
        joined = joined + part_text
    return joined


def _written(value: Expr) -> Expr:
    """Returns a value as a text."""
    return value if value._parts[-1]["expr"] == "str" else value.cast("string")
