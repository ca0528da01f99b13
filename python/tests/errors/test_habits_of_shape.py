"""Values of the shapes that people write by habit are read, or are refused with what to write."""

from __future__ import annotations

import json
import re
import statistics

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

E = fb.errors


def jsonl(tmp_path, rows: list[dict]) -> fb.Dataset:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return fb.from_jsonl(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("order", [1, -1])
def test_an_object_that_is_null_in_some_lines_is_one_nested_column(tmp_path, order):
    rows = [{"a": None, "b": {"c": None}}, {"a": {"x": 1}, "b": {"c": {"y": "z"}}}, {"a": {"x": None}, "b": None}][
        ::order
    ]
    ds = jsonl(tmp_path, rows)
    assert set(ds.schema) == {"a.x", "b.c.y"} == set(ds.schema.nullable)
    assert [(row["a.x"], row["b.c.y"]) for row in ds] == [(None, None), (1, "z"), (None, None)][::order]


@pytest.mark.parametrize("order", [1, -1])
def test_a_dictionary_that_is_none_in_some_samples_is_one_nested_column(order):
    rows = [{"a": None, "i": 1}, {"a": {"x": 1, "y": {"z": "p"}}, "i": 2}, {"a": {"x": 2, "y": None}, "i": 3}][::order]
    for ds in (fb.from_map_dataset(rows), fb.range(3).map(lambda row: rows[row["id"]])):
        assert set(ds.schema) == {"a.x", "a.y.z", "i"}
        assert ds.schema.nullable == {"a.x", "a.y.z"}
        got = [(row["a.x"], row["a.y.z"], row["i"]) for row in ds]
        assert got == [(None, None, 1), (1, "p", 2), (2, None, 3)][::order]
    with pytest.raises(E.FunctionError, match="different columns"):
        fb.from_map_dataset([{"a": {"x": 1}}, {"b": 2}])
    late = [{"a": {"x": 1}, "i": 0}] * 9 + [{"a": None, "i": 1}]
    with pytest.raises(E.FunctionError, match=r'"a.x" should be int64, and is NoneType'):
        list(fb.from_map_dataset(late))
    schema = {"a.x": "int64?", "i": "int64"}
    assert [row["a.x"] for row in fb.from_map_dataset(late, schema=schema)] == [1] * 9 + [None]


def test_dictionaries_in_columns_are_nested_columns():
    data = {"id": [1, 2, 3], "a": [{"x": 1, "y": {"z": "p"}}, None, {"x": 3, "w": True}]}
    ds = fb.from_dict(data)
    assert str(ds.schema) == "Schema(id: int64, a.x: int64?, a.y.z: string?, a.w: bool?)"
    assert [[row["a.x"], row["a.y.z"], row["a.w"]] for row in ds] == [
        [1, "p", None],
        [None, None, None],
        [3, None, True],
    ]
    assert list(fb.from_dict({"a": {"x": [1]}}).schema) == list(fb.from_dict({"a": [{"x": 1}]}).schema) == ["a.x"]
    with pytest.raises(E.InvalidPipelineError, match="key 1, which is no column name"):
        fb.from_dict({"a": [{1: 2}]})
    for make in (lambda v: fb.from_dict({"a": [v]}), lambda v: fb.from_map_dataset([{"a": v}])):
        with pytest.raises(E.ForebayError, match="no column can hold") as told:
            make([{"x": 1}, {"x": 2}])
        assert "json.dumps(value)" in told.value.context["hint"]


def test_a_function_that_reads_a_nested_column_as_a_dictionary_is_told_its_name():
    ds = fb.from_map_dataset([{"answers": {"text": "a", "start": 1}, "question": "?"}])
    for call in (
        lambda: ds.map(lambda row: {"y": row["answers"]["text"]}),
        lambda: list(ds.map(lambda row: {"y": row["answers"]["text"]}, schema={"y": str})),
        lambda: list(ds.filter(lambda row: row["answers"]["text"] == "a")),
    ):
        with pytest.raises(E.FunctionError, match="KeyError: 'answers'") as told:
            call()
        assert told.value.context["hint"] == (
            'nested columns have dotted names: write row["answers.text"], row["answers.start"]'
        )
    with pytest.raises(E.FunctionError) as told:
        ds.map(lambda row: {"y": row["qestion"]})
    assert told.value.context["hint"] == 'did you mean "question"?'
    with pytest.raises(E.FunctionError) as told:
        ds.map(lambda row: {"y": {}["some key of another dictionary"]})
    assert "hint" not in told.value.context


def test_arrays_whose_shapes_differ_are_told_the_schema_to_paste():
    def image(row):
        n = 2 if row["id"] > 5 else 1
        return {"x": np.zeros((n, 3), np.float32), "tags": ["a"], "ids": [1], "name": "b", "id": row["id"]}

    with pytest.raises(E.FunctionError, match=r'"x" should be float32\[1, 3\]') as told:
        list(fb.range(9).map(image))
    (schema,) = re.findall(r"write (schema=.*)", told.value.context["hint"])
    ds = fb.range(9).map(image, **eval(f"dict({schema})"))
    assert [row["x"].shape for row in ds] == [(1, 3)] * 6 + [(2, 3)] * 3
    assert str(ds.schema) == "Schema(x: float32[?, 3], tags: string[?], ids: int64[?], name: string, id: int64)"


def test_a_dictionary_is_no_map_dataset():
    for data, says in [
        ({"x": [1, 2]}, "from_dict(data)"),
        ({7: {"x": 1}}, "list(data.values())"),
        ({"train": pa.table({"x": [1]})}, "from_hf(data['train'])"),
    ]:
        with pytest.raises(E.InvalidPipelineError, match="items by key, and not by number") as told:
            fb.from_map_dataset(data)
        assert says in told.value.context["hint"]


COLUMNS = {
    "n": pa.int16(),
    "s": pa.string(),
    "b": pa.binary(),
    "l": pa.list_(pa.int32()),
    "f": pa.list_(pa.float32(), 3),
    "t": pa.list_(pa.string()),
    "u": pa.list_(pa.bool_()),
    "st": pa.struct({"u": pa.int8()}),
    "at": pa.timestamp("us"),
    "ls": pa.list_(pa.struct({"u": pa.int8()})),
}


def test_a_table_without_rows_keeps_its_types(tmp_path):
    empty = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})
    types = {"n": "int16", "s": "string", "b": "bytes", "l": "int32[?]", "f": "float32[3]", "t": "string[?]"}
    types |= {"u": "bool[?]", "st.u": "int8", "at": "int64", "ls": "string"}
    pq.write_table(empty, tmp_path / "x.parquet")
    pyarrow.feather.write_feather(empty, tmp_path / "x.arrow", compression="uncompressed")
    for ds in (
        fb.from_table(empty),
        fb.from_parquet(tmp_path / "x.parquet"),
        fb.from_arrow(tmp_path / "x.arrow"),
    ):
        assert {name: str(column) for name, column in ds.schema.items()} == types
        assert list(ds) == []


@pytest.mark.parametrize("numbers", [[2**63 - 1, 2**63 - 3, 2**63 - 5], [-(2**63), 1 - 2**63], [2**63 - 1, -(2**63)]])
def test_the_deviation_of_large_whole_numbers_is_that_of_python(numbers):
    found = fb.from_numpy({"n": np.array(numbers, np.int64)}).describe()["n"]
    assert found.std == pytest.approx(statistics.stdev(numbers), rel=1e-12)
    assert found.mean == pytest.approx(statistics.mean(numbers), rel=1e-12, abs=1)
    beyond = [n + 2**63 for n in numbers]
    found = fb.from_numpy({"n": np.array(beyond, np.uint64)}).describe()["n"]
    assert found.std == pytest.approx(statistics.stdev(beyond), rel=1e-12)


def double(row):
    return {"id": row["id"] * 2}


def triple(row):
    return {"id": row["id"] * 3}


def test_a_state_of_a_changed_pipeline_names_the_first_op_that_differs():
    base = fb.range(100).shuffle()
    state = json.loads(json.dumps(base.map(double).batch(32).iter(seed=1).state_dict()))
    assert len(json.dumps(state)) < 1024
    changed = [
        (base.map(double).batch(64), r"its op 3 is batch\(32\), and here it is batch\(64\)"),
        (base.map(double).batch(32).take(1), r"it has no op 4, and here there is take\(1\)"),
        (base.map(double), r"its op 3 is batch\(32\), and here there is none"),
        (base.map(triple).batch(32), r"its op 2 is map\(double.*\), and here it is map\(triple.*\)"),
        (
            fb.range(101).shuffle().map(double).batch(32),
            r"its source is range\(.*100.*\), and here it is range\(.*101.*\)",
        ),
    ]
    for ds, says in changed:
        with pytest.raises(E.InvalidPipelineError, match=says) as told:
            ds.iter(seed=1).load_state_dict(state)
        if "none" not in says:
            assert re.search(r"test_habits_of_shape\.py:\d+$", told.value.context["line"])
    older = {name: value for name, value in json.loads(state["position"]).items() if name != "ops"}
    with pytest.raises(E.InvalidPipelineError, match=r"its dataset is '\w{15}…', and here it is '\w{15}…'"):
        changed[0][0].iter(seed=1).load_state_dict({**state, "position": json.dumps(older)})
    again = base.map(double).batch(32).iter(seed=1)
    again.load_state_dict({**state, "position": json.dumps(older)})
    assert json.loads(again.state_dict()["position"]) == json.loads(state["position"])
    base.map(double, name="renamed").batch(32).iter(seed=1).load_state_dict(state)


def test_a_function_whose_code_alone_has_changed_is_told():
    def of(number: int) -> fb.Dataset:
        def add(row):
            return {"id": row["id"] + number}

        return fb.range(9).map(add)

    with pytest.raises(E.InvalidPipelineError, match=r"its op 1 is map\(.*add.*\) with other code or other arguments"):
        of(2).iter(seed=1).load_state_dict(of(1).iter(seed=1).state_dict())


def test_the_ops_of_a_state_are_bounded():
    ds = fb.range(9)
    for i in range(100):
        ds = ds.with_column(f"a long name of a column {i}", fb.col("id") + i)
    state = ds.iter(seed=1).state_dict()
    assert len(json.dumps(state)) < 4096
    with pytest.raises(E.InvalidPipelineError, match="its dataset is "):
        ds.with_column("z", fb.col("id")).iter(seed=1).load_state_dict(state)
