"""Names of functions of expressions in pandas, polars and others, and the code to write here instead."""

from __future__ import annotations

from collections.abc import Mapping

_OF_TEXTS = "texts have it as .str.{}"
_BY_MAP = "write map(fn, reads=['x'], writes=['y']), whose function gets values"
_OF_ROWS = (
    "an expression is of one sample: .list.{0}() is of its list, and the {0} of all samples is computed in a loop"
)

#: Of expressions.
EXPRESSIONS: Mapping[str, str] = {
    "alias": "with_column(name, expression) names it",
    "apply": "write map(fn, reads=['x'], writes=['y'])",
    "astype": "write cast('float32')",
    "between": "write (x >= a) & (x <= b)",
    "acos": "write arccos()",
    "asin": "write arcsin()",
    "atan": "write arctan()",
    "atan2": "write y.arctan2(x)",
    **dict.fromkeys(("cumsum", "diff", "shift"), _BY_MAP),
    **{name: _OF_TEXTS.format(f"{name}(...)") for name in ("contains", "ends_with", "lower", "match", "replace")},
    **{name: _OF_TEXTS.format(f"{name}(...)") for name in ("slice", "split", "starts_with", "strip", "upper")},
    "endswith": _OF_TEXTS.format("ends_with(...)"),
    "fill_nan": "write fb.where(x.is_nan(), 0.0, x)",
    "fillna": "write fill_null(0) of missing values, and fb.where(x.is_nan(), 0.0, x) of nan",
    "is_in": "write isin([...])",
    "is_not_null": "write ~x.is_null()",
    "isna": "write is_null()",
    "isnull": "write is_null()",
    "map": "write map(fn, reads=['x'], writes=['y']); of a dictionary, lookup({...})",
    "replace_strict": "write lookup({...}), and list.lookup({...}, default=0) of the items of lists",
    **{name: _OF_ROWS.format(name) for name in ("max", "mean", "min", "sum")},
    "notna": "write ~x.is_null()",
    "notnull": "write ~x.is_null()",
    "startswith": _OF_TEXTS.format("starts_with(...)"),
    "where": "write fb.where(condition, yes, no)",
}

_REPLACE = "write replace(pattern, new, regex=True) of a pattern; replace(old, new) replaces each old, letter by letter"
_READ_TIME = "write to_time('s') of ISO 8601, and to_time('s', '%d/%m/%Y') of other forms"

#: Of `.str`.
TEXTS: Mapping[str, str] = {
    "cat": "write fb.concat_str([x, y]), or x + y",
    "count": "write findall(pattern).len()",
    "count_matches": "write findall(pattern).len()",
    "decode": "write x.cast(str) of bytes",
    "encode": "write x.cast(bytes)",
    "endswith": "write ends_with(text)",
    "extract_all": "write findall(pattern)",
    "fullmatch": "write match(f'(?:{pattern})$')",
    "get": "write slice(i, i + 1)",
    "head": "write slice(0, n)",
    "join": "of a list of texts, write x.list.join(separator)",
    "len_bytes": "write x.cast(bytes).len()",
    "len_chars": "write len()",
    "lstrip": "strip() is of both ends; of one, write map",
    "replace_all": _REPLACE,
    "rstrip": "strip() is of both ends; of one, write map",
    "startswith": "write starts_with(text)",
    "strip_chars": "write strip(chars)",
    "strptime": _READ_TIME,
    "sub": _REPLACE,
    "tail": "write slice(-n)",
    **dict.fromkeys(("capitalize", "pad", "rjust", "swapcase", "title", "zfill"), _BY_MAP),
    "to_date": _READ_TIME,
    "to_datetime": _READ_TIME,
    "to_integer": "write to_int(base)",
    "to_lowercase": "write lower()",
    "to_uppercase": "write upper()",
}

#: Of `.list`.
LISTS: Mapping[str, str] = {
    "concat": "write fb.concat_list(['x', 'y'])",
    "eval": _BY_MAP,
    "explode": "write ds.explode('x')",
    "first": "write get(0)",
    "gather": _BY_MAP,
    "head": "write slice(0, n)",
    "last": "write get(-1)",
    "length": "write len()",
    "lengths": "write len()",
    "reverse": _BY_MAP,
    "sort": _BY_MAP,
    "std": _BY_MAP,
    "tail": "write slice(-n)",
    "unique": _BY_MAP,
}

_UTC = "times are those of UTC; add the offset of the zone, in the unit of the column, or store local times in the file"

#: Of `.dt`.
TIMES: Mapping[str, str] = {
    "convert_time_zone": _UTC,
    "date": "write floor('1d')",
    "day_of_week": "write weekday()",
    "day_of_year": "write ordinal_day()",
    "dayofweek": "write weekday()",
    "dayofyear": "write ordinal_day()",
    "epoch": "a time is the number already",
    "normalize": "write floor('1d')",
    "quarter": "write (x.dt.month() + 2) // 3",
    "replace_time_zone": _UTC,
    "round": "write floor('15m')",
    "to_string": "write strftime(format)",
    "timestamp": "a time is the number already",
    "total_seconds": "a difference counts the unit of its columns: x // 1_000_000 of 'us'",
    "truncate": "write floor('15m')",
    "tz_convert": _UTC,
    "tz_localize": _UTC,
}
