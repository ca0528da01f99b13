"""Leaves out data files whose partition values show that a condition is true for none of their rows.

The engine computes the condition over the distinct partition values. The filter of the pipeline still decides about
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forebay._src.expr.expr import _make
from forebay._src.sources.table_sources import from_table
from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay._src.sources.versioned_tables import TableColumn

#: A column with the number of a row, beside the partition columns.
_PLACE = "number of these values"
#: The operands of each part of an expression; of all others one.
_OPERANDS = {"binary": 2, "fill_null": 2, "where": 3} | dict.fromkeys(("col", "int", "float", "bool", "str"), 0)


def files_that_may_match(
    partitions: Mapping[str, TableColumn], parts: Sequence[dict[str, Any]], count: int
) -> Sequence[int]:
    """Returns the places of the files of which a row may meet a condition; of the first file, if none do.

    Args:
        partitions: The partition columns.
        parts: The condition.
        count: The number of files.
    """
    places = range(count)
    conditions = [one for one in _conditions(parts) if (used := _columns(one)) and used <= partitions.keys()]
    if not conditions:
        return places
    import pyarrow as pa

    names = sorted(set().union(*map(_columns, conditions)))
    rows = list(zip(*(partitions[name].values or () for name in names), strict=True))
    distinct = list(dict.fromkeys(rows))
    types = {"bool": pa.bool_(), "bytes": pa.binary()}
    dtypes = [partitions[name].dtype or "string" for name in names]
    arrays = [
        pa.array(values, types[dtype] if dtype in types else getattr(pa, dtype)())
        for dtype, values in zip(dtypes, zip(*distinct, strict=True), strict=True)
    ]
    ds = from_table(pa.table([*arrays, pa.array(range(len(distinct)))], names=[*names, _PLACE]))
    try:
        for condition in conditions:
            ds = ds.filter(_make(tuple(condition), "partitions"))
        met = {distinct[int(row[_PLACE])] for row in ds}
    except ForebayError:
        # The filter of the pipeline reports a condition that fails for a row.
        return places
    return [place for place in places if rows[place] in met] or places[:1]


def _columns(parts: Sequence[dict[str, Any]]) -> set[str]:
    return {part["name"] for part in parts if part["expr"] == "col"}


def _conditions(parts: Sequence[dict[str, Any]]) -> Iterable[Sequence[dict[str, Any]]]:
    """Divides a condition at each `&`."""
    starts: list[int] = []
    right = 0
    for place, part in enumerate(parts):
        count = part["count"] if "count" in part else _OPERANDS.get(part["expr"], 1)
        operands = starts[len(starts) - count :]
        starts[len(starts) - count :] = [operands[0] if operands else place]
        right = operands[-1] if operands else place
    if parts and parts[-1] == {"expr": "binary", "op": "and"}:
        yield from _conditions(parts[:right])
        yield from _conditions(parts[right:-1])
    elif parts:
        yield parts
