"""`from_jsonl` against Python's `json`: no number is rounded, and a column of texts has each value as it is written."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest

NUMBERS = ["0", "-0", "1.10", "1e2", "1E+2", "-0.0", "0.1000000000000000055511151231257827", "1e-400", "1" * 40]
STRINGS = ["", "a,b", '"', "\\", "{[:]}", "é\n", "\u2028", "😀", "\0"]


def written(rng: random.Random, depth: int = 0) -> str:
    """Writes a random value, with blanks, duplicate names, escapes and numbers of every form."""

    def blank() -> str:
        return rng.choice(["", "", " ", "\t ", "\r"])

    kind = rng.randrange(6 if depth < 4 else 4)
    if kind == 0:
        return rng.choice(["null", "true", "false"])
    if kind == 1:
        near = rng.choice([0, 2**24, 2**31, 2**53, 2**63, 2**64, 2**70, 10**30])
        return rng.choice([*NUMBERS, str(rng.choice([-1, 1]) * (near + rng.randrange(-3, 4))), repr(rng.gauss(0, 1e9))])
    if kind in (2, 3):
        return json.dumps("".join(rng.choices(STRINGS, k=rng.randrange(4))), ensure_ascii=rng.random() < 0.5)
    parts = [written(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return f"[{blank()}{f'{blank()},{blank()}'.join(parts)}{blank()}]"
    names = [json.dumps(rng.choice(["z", "a", "a", "é", '"', ""])) for _ in parts]
    members = [f"{name}{blank()}:{blank()}{part}" for name, part in zip(names, parts, strict=True)]
    return f"{{{blank()}{f'{blank()},'.join(members)}{blank()}}}"


def lines(path: Path, values: list[str]) -> Path:
    path.write_bytes(b"".join(f'{{"x": [], "a" :{value} }}\n'.encode() for value in values))
    return path


def test_a_column_of_texts_has_every_value_as_it_is_written(tmp_path):
    rng = random.Random(19)
    values = [written(rng) for _ in range(2000)]
    path = lines(tmp_path / "a.jsonl", values)
    got = [row["a"] for row in fb.from_jsonl(path, schema={"a": "string?"})]
    read = [json.loads(value) for value in values]
    want = [None if r is None else r if isinstance(r, str) else v for v, r in zip(values, read, strict=True)]
    assert got == want


@pytest.mark.parametrize("kind", ["int8", "uint32", "int64", "uint64", "float32", "float64", "bool", None])
def test_a_number_is_the_one_of_pythons_json_or_an_error_that_says_where(tmp_path, kind):
    rng = random.Random(kind)
    values = [value for value in (written(rng, depth=4) for _ in range(250)) if value != "null" and value[0] != '"']
    for value in values:
        path, want = lines(tmp_path / "a.jsonl", ["0" if kind != "bool" else "true", value]), json.loads(value)
        if holds(kind, want):
            got = [row["a"] for row in fb.from_jsonl(path, schema=None if kind is None else {"a": kind})][1]
            assert got == want or got == np.dtype(kind).type(want), value
            continue
        with pytest.raises(fb.errors.DataError) as info:
            list(fb.from_jsonl(path, schema=None if kind is None else {"a": kind}))
        assert (info.value.context["file"], info.value.context["file_line"]) == (str(path), "2"), value
        assert "schema=" in (info.value.hint or "")


def holds(kind: str | None, value: Any) -> bool:
    """Returns whether a column has exactly this value; for a number that is not whole, the nearest one."""
    if kind is None:
        return not isinstance(value, bool) and (isinstance(value, float) or abs(value) < 2**63 or float(value) == value)
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if kind.startswith("float"):
        with np.errstate(over="ignore"):
            near = np.dtype(kind).type(value)
        return bool(np.isfinite(near)) and (isinstance(value, float) or int(near) == value)
    limits = np.iinfo(kind)
    return isinstance(value, int) and limits.min <= value <= limits.max


def test_documents_of_many_levels_are_text_or_refused(tmp_path):
    deep = {"list": "[" * 200 + "]" * 200, "object": '{"k":' * 200 + "1" + "}" * 200}
    for value in deep.values():
        (row,) = fb.from_jsonl(lines(tmp_path / "a.jsonl", [value]), schema={"a": "string"})
        assert row["a"] == value
    (row,) = fb.from_jsonl(lines(tmp_path / "a.jsonl", [deep["list"]]))
    assert row["a"] == deep["list"]
    with pytest.raises(fb.errors.DataError, match='field "a" nests objects deeper than 128') as info:
        fb.from_jsonl(lines(tmp_path / "a.jsonl", [deep["object"]]))
    assert info.value.hint == 'read it as its json text: schema={"a": "string", ...}'


def test_half_of_a_letter_is_an_error_of_its_line(tmp_path):
    path = lines(tmp_path / "a.jsonl", ['"a"', r'"\ud800"', '"b"'])
    with pytest.raises(fb.errors.DataError, match="half a letter") as info:
        list(fb.from_jsonl(path))
    assert info.value.context["file_line"] == "2"
    assert [row["a"] for row in fb.from_jsonl(path).iter(on_error="skip", error_budget=1)] == ["a", "b"]
