"""`from_jsonl(schema=...)`: the user's fields; and text files in the forms of editors and other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def written(tmp_path):
    """Writes lines of JSON."""

    def write(*lines: Any) -> Path:
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


def values(ds: fb.Dataset, name: str) -> list[Any]:
    return [v.item() if isinstance(v := row[name], np.generic) else v for row in ds]


@pytest.mark.parametrize("shuffled", [False, True])
def test_what_the_first_lines_do_not_show_is_read(written, shuffled):
    late = [{"a": 1.5, "b": "x"}, {"a": None}, {"b": "y", "new": 7}]
    path = written(*({"a": i, "b": "t"} for i in range(100)), *late)
    with pytest.raises(fb.errors.DataError, match='field "a" should be int64') as info:
        list(fb.from_jsonl(path))
    assert 'schema={"a": "float64", ...}' in info.value.context["hint"]
    ds = fb.from_jsonl(path, schema={"a": "float64?", "b": "string?", "new": "int64?"})
    assert str(ds.schema) == "Schema(a: float64?, b: string?, new: int64?)"
    rows = sorted(ds.shuffle() if shuffled else ds, key=lambda row: (row["new"] is not None, row["a"]))
    assert values(rows, "new")[-1] == 7
    assert sum(np.isnan(row["a"]) for row in rows) == 2
    assert [row["b"] for row in rows].count(None) == 1


def test_a_missing_field_says_how_to_allow_it(written):
    path = written(*({"a": 1} for _ in range(100)), {"b": 1})
    with pytest.raises(fb.errors.DataError, match='a line has no field "a"') as info:
        list(fb.from_jsonl(path))
    assert 'schema={"a": "int64?", ...}' in info.value.context["hint"]
    assert values(fb.from_jsonl(path, schema={"a": "int64?"}), "a")[99:] == [1, None]


def test_a_field_that_begins_with_nulls_has_the_type_of_its_first_value(written):
    """It was read as text, 1.5 as "1.5"; a list of texts too."""
    begin = [{"v": None, "tags": [], "never": None} for _ in range(300)]
    path = written(*begin, {"v": 1.5, "tags": ["a"], "never": None})
    ds = fb.from_jsonl(path)
    assert str(ds.schema) == "Schema(v: float64?, tags: string[?], never: string?)"
    last, value = values(ds.skip(299), "v")
    assert np.isnan(last)
    assert value == 1.5


def test_every_dtype(written):
    ints = {f"{sign}int{bits}": bits for bits in (8, 16, 32, 64) for sign in ("", "u")}
    line: dict[str, Any] = {name: 2**bits - 1 if name[0] == "u" else -(2 ** (bits - 1)) for name, bits in ints.items()}
    line |= {"float32": 0.1, "float64": 0.1, "bool": True, "string": "é"}
    (row,) = fb.from_jsonl(written(line), schema={name: name for name in line})
    assert {name: row[name].dtype.name for name in line if name != "string"} == {n: n for n in line if n != "string"}
    assert all(row[name] == (np.float32(0.1) if name == "float32" else value) for name, value in line.items())
    for name, bits in ints.items():
        for wrong in (2**bits, -(2**bits), 1.5, "1", True):
            with pytest.raises(fb.errors.DataError, match=f'field "n" should be {name}'):
                list(fb.from_jsonl(written({"n": wrong}), schema={"n": name}))
    with pytest.raises(fb.errors.DataError, match="float32, which does not hold this whole number exactly"):
        list(fb.from_jsonl(written({"n": 2**24 + 1}), schema={"n": "float32"}))


def test_lists_and_lists_of_lists(written):
    path = written({"v": [1, 2], "m": [[1, 2, 3], [4, 5, 6]]}, {"m": [[0, 0, 0], [0.5, 0, 0]]})
    ds = fb.from_jsonl(path, schema={"v": ("int32?", [None]), "m": ("float32", [2, 3])})
    assert [row["v"].tolist() for row in ds] == [[1, 2], []]
    assert [row["m"].tolist() for row in ds] == [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [0.5, 0, 0]]]
    for wrong in ([[1, 2, 3]], [[1, 2], [3, 4]], [1, 2, 3, 4, 5, 6]):
        with pytest.raises(fb.errors.DataError, match=r'field "m" should be float32\[2, 3\]'):
            list(fb.from_jsonl(written({"m": wrong}), schema={"m": ("float32", [2, 3])}))


def test_a_column_of_texts_takes_any_value(written):
    mixed = ["text", 5, 1.5, True, [1, "a"], {"role": "user", "n": {"deep": [1]}}, []]
    path = written(*({"a": value} for value in mixed), {"a": None})
    with pytest.raises(fb.errors.DataError, match='field "a" has two types') as info:
        fb.from_jsonl(path)
    assert 'schema={"a": "string", ...}' in info.value.context["hint"]
    got = values(fb.from_jsonl(path, schema={"a": "string?"}), "a")
    assert got[0] == "text"
    assert got[-1] is None
    assert [json.loads(text) for text in got[1:-1]] == mixed[1:]
    both = fb.from_jsonl(path, schema={"a": "string?", "a.role": "string?"})
    assert values(both, "a.role") == [None] * 5 + ["user"] + [None] * 2
    assert values(both, "a") == got


@pytest.mark.parametrize("spec", ["bytes", "float16", ("int64", [None, None]), ("int64?", [3])])
def test_what_no_line_gives_is_refused_when_written(written, spec):
    with pytest.raises(fb.errors.InvalidPipelineError, match="a"):
        fb.from_jsonl(written({"a": 1}), schema={"a": spec})


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path, shuffled):
    order = (lambda ds: ds.shuffle()) if shuffled else (lambda ds: ds)
    for i in range(2):
        (tmp_path / f"{i}.jsonl").write_bytes(BOM + b'{"a": 1}\n{"a": 2}\n')
        (tmp_path / f"{i}.txt").write_bytes(BOM + b"eins\n" + BOM + b"zwei")
    (tmp_path / "2.txt").write_bytes(BOM)
    assert sorted(values(order(fb.from_jsonl(tmp_path / "*.jsonl")), "a")) == [1, 1, 2, 2]
    assert sorted(values(order(fb.from_text(tmp_path / "*.txt")), "text")) == [
        "eins",
        "eins",
        "\ufeffzwei",
        "\ufeffzwei",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_no_word_for_is_said_to_be_that(written, value):
    path = written({"x": 1.0}, {"x": value})
    with pytest.raises(fb.errors.DataError, match="a line is not json") as info:
        list(fb.from_jsonl(path, schema={"x": "float64"}))
    assert "NaN" in (info.value.hint or "")
    path.write_text('{"x": Nothing}\n')
    with pytest.raises(fb.errors.DataError, match="a line is not json") as info:
        list(fb.from_jsonl(path, schema={"x": "float64"}))
    assert "NaN" not in (info.value.hint or "")


def test_a_misspelt_dtype_is_told_with_its_op_and_line(written):
    def refused(make: Any) -> tuple[str, str]:
        with pytest.raises(fb.errors.InvalidPipelineError, match="unknown dtype 'flot32'") as info:
            make({"x": "flot32"})
        assert Path(__file__).name in info.value.context["line"]
        return info.value.context["op"], info.value.context["hint"]

    path = written({"x": 1.0})
    for op, make in {
        "from_jsonl": lambda schema: fb.from_jsonl(path, schema=schema),
        "from_tfrecord": lambda schema: fb.from_tfrecord(path, features=schema),
        "from_generator": lambda schema: fb.from_generator(lambda: iter([]), schema=schema),
        "map": lambda schema: fb.range(2).map(lambda row: row, schema=schema),
        "map (mine)": lambda schema: fb.range(2).map(lambda row: row, schema=schema, name="mine"),
    }.items():
        assert refused(make)[0] == op
        assert "float32" in refused(make)[1]
