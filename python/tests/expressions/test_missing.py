"""Missing values, on every way in and out: never replaced by an arbitrary number."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from forebay import errors as E
from sources.test_sources import example, record

EXECUTORS = ["thread", "process"]
ROWS = 300
#: If a value is missing, readers leave an arbitrary number of the file in its place. None of these may be visible.
VALUES = [None if i % 3 == 1 else i * 7 + 1 for i in range(ROWS)]


def numbers(path: Path, dtype: pa.DataType, values: list = VALUES) -> fb.Dataset:
    """Returns a column of a Parquet file, with other numbers in its buffers where values are missing."""
    pq.write_table(pa.table({"id": range(len(values)), "n": pa.array(values, dtype)}), path / "n.parquet")
    return fb.from_parquet(path / "n.parquet")


def told(array) -> list:
    return array.tolist()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64", "bool"])
def test_functions_of_batches_get_masked_arrays_and_what_they_mask_is_missing(tmp_path, executor, dtype):
    truth = [None if v is None else v % 2 == 0 if dtype == "bool" else v % 100 for v in VALUES]
    ds = numbers(tmp_path, pa.bool_() if dtype == "bool" else getattr(pa, dtype)(), truth)

    def same(batch):
        n = batch["n"]
        assert isinstance(n, np.ma.MaskedArray)
        assert not np.asarray(n)[np.ma.getmaskarray(n)].any(), "nothing of the file's is under the mask"
        return {"same": n.copy(), "there": ~np.ma.getmaskarray(n)}

    for made in (
        ds.map(same, batched=True),
        ds.map(same, batched=True, writes=["same", "there"]),
        ds.map(same, batched=True, schema={"same": f"{dtype}?", "there": "bool"}).batch(64),
        ds.batch(64).map(same),
        ds.batch(64).map(same, schema={"same": f"{dtype}?", "there": "bool"}),
    ):
        assert "same" in made.schema.nullable
        rows = list(made.iter(executor=executor))
        got = [x for b in rows for x in (told(b["same"]) if np.ndim(b["same"]) else [b["same"]])]
        assert got == truth
        assert [bool(x) for b in rows for x in np.atleast_1d(b["there"])] == [v is not None for v in truth]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_mask_where_nothing_may_be_missing_names_op_sample_and_column(tmp_path, executor):
    ds = numbers(tmp_path, pa.int64())
    plus = ds.map(lambda b: {"y": b["n"] + 1}, batched=True, schema={"y": "int64"}, name="plus")
    with pytest.raises(E.FunctionError, match=r'"y" is int64, and has numbers that are masked') as caught:
        list(plus.iter(executor=executor))
    context = caught.value.context
    assert "n.parquet#1 " in context["sample"]
    assert context["column"] == "y"
    assert context["op"] == "map (plus)"
    assert "test_missing.py" in context["line"]
    assert '"int64?"' in context["hint"]
    filled = ds.map(lambda b: {"y": b["n"].filled(-1)}, batched=True, schema={"y": "int64"})
    assert [int(r["y"]) for r in filled.iter(executor=executor)] == [-1 if v is None else v for v in VALUES]
    nothing_masked = ds.map(lambda b: {"y": np.ma.array(b["id"])}, batched=True, schema={"y": "int64"})
    assert [int(r["y"]) for r in nothing_masked.iter(executor=executor)] == list(range(ROWS))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_functions_of_rows_get_none_and_may_return_it_or_a_mask(tmp_path, executor):
    ds = numbers(tmp_path, pa.int64())

    def look(row):
        n = row["n"]
        assert n is None or isinstance(n, np.int64)
        masked = np.ma.masked if n is None else n
        return {"none": n, "masked": masked, "array": np.ma.array(0 if n is None else n, mask=n is None)}

    for made in (ds.map(look), ds.map(look, schema=dict.fromkeys(["none", "masked", "array"], "int64?"))):
        rows = list(made.iter(executor=executor))
        for name in ("none", "masked", "array"):
            assert [r[name] if r[name] is None else int(r[name]) for r in rows] == VALUES
    with pytest.raises(E.FunctionError, match="should be int64, and is NoneType"):
        list(ds.map(lambda r: {"y": np.ma.masked if r["n"] is None else r["n"]}, schema={"y": "int64"}))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_filter_drops_rows_of_which_it_does_not_know_as_an_expression_does(tmp_path, executor):
    ds = numbers(tmp_path, pa.int64())
    want = [int(r["id"]) for r in ds.filter(fb.col("n") < 100)]
    assert want == [i for i, v in enumerate(VALUES) if v is not None and v < 100]
    # The masked values are zeros. Neither they nor comparisons with them may keep a row.
    for keep in (lambda b: b["n"] < 100, lambda b: ~(b["n"] >= 100)):
        assert [int(r["id"]) for r in ds.filter(keep, batched=True).iter(executor=executor)] == want


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_nan_on_their_way_to_functions_and_missing_where_these_mask_them(tmp_path, dtype):
    values = [None if v is None else v % 900 / 2 for v in VALUES]
    column = pa.array(
        np.array([0 if v is None else v for v in values], dtype), mask=np.array([v is None for v in values])
    )
    pq.write_table(pa.table({"n": column}), tmp_path / "n.parquet")
    ds = fb.from_parquet(tmp_path / "n.parquet")

    def same(batch):
        assert type(batch["n"]) is np.ndarray
        return {"n": np.ma.masked_invalid(batch["n"])}

    back = ds.map(same, batched=True, schema={"n": f"{dtype}?"}).with_column("gone", fb.col("n").is_null())
    rows = list(back)
    assert [bool(r["gone"]) for r in rows] == [v is None for v in values]
    assert [None if np.isnan(r["n"]) else float(r["n"]) for r in rows] == values


def test_texts_and_bytes_are_none_both_ways():
    ds = fb.from_dict({"s": ["a", None, "c"], "b": [b"x", b"y", None]})
    same = ds.map(lambda batch: dict(batch), batched=True)
    assert [(r["s"], r["b"]) for r in same] == [("a", b"x"), (None, b"y"), ("c", None)]
    masked = ds.map(lambda b: {"s": np.ma.array(b["s"], mask=[True, False, False])}, batched=True, schema={"s": "str?"})
    assert [r["s"] for r in masked] == [None, None, "c"]


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool", "uint8"])
def test_masked_arrays_make_columns_with_missing_values(dtype):
    data, mask = np.arange(1, 9).astype(dtype), np.arange(8) % 3 == 0
    array = np.ma.array(data, mask=mask)
    for ds, name in (
        (fb.from_numpy(array), "value"),
        (fb.from_numpy({"a": array}), "a"),
        (fb.from_dict({"a": array}), "a"),
        (fb.from_dict({"a": list(array)}), "a"),
    ):
        assert ds.schema.nullable == {name}
        assert ds.schema[name].dtype == dtype
        got = list(ds.with_column("gone", fb.col(name).is_null()))
        assert [bool(r["gone"]) for r in got] == mask.tolist()
        assert [r[name] for r in got if not r["gone"]] == data[~mask].tolist()
    whole = fb.from_numpy(np.ma.array(np.ones((3, 2), dtype)))
    assert (whole.schema.nullable, len(list(whole))) == (frozenset(), 3)
    with pytest.raises(E.InvalidPipelineError, match=r'"a" is .*\[2\], and has numbers that are masked') as caught:
        fb.from_numpy({"a": np.ma.array(np.ones((3, 2), dtype), mask=[[0, 0], [0, 1], [0, 0]])})
    assert caught.value.context["row"] == "1"


def test_an_array_of_a_row_is_there_as_a_whole():
    ds = fb.range(9)
    spots = {"x": np.ma.array([1, 2], mask=[False, True])}
    for made in (
        ds.map(lambda row: spots, schema={"x": ("int64", [2])}),
        ds.map(lambda row: spots, schema={"x": ("int64", [None])}),
        ds.map(lambda b: {"x": [spots["x"]] * len(b["id"])}, batched=True, schema={"x": ("int64", [2])}),
        ds.map(lambda b: {"x": np.ma.array([spots["x"]] * len(b["id"]))}, batched=True, schema={"x": ("int64", [2])}),
    ):
        with pytest.raises(E.FunctionError, match="has numbers that are masked") as caught:
            list(made)
        assert caught.value.context["sample"] == "row 0"
    for missing in (
        lambda: ds.map(lambda row: {"x": None}, schema={"x": ("float32?", (3,))}),
        lambda: ds.map(lambda row: {"x": None if row["id"] else [1, 2]}),
        lambda: fb.from_dict({"x": [[1, 2], None]}),
        lambda: fb.from_generator(lambda: iter([{"x": [1]}, {"x": None}])),
        lambda: fb.from_map_dataset([{"x": [1]}, {"x": None}]),
    ):
        with pytest.raises(E.InvalidPipelineError, match="with missing rows, which no array holds") as caught:
            missing()
        assert "test_missing.py" in caught.value.context["line"]


LISTS = [[i, -i] if i % 5 != 3 else None for i in range(100)]
INSIDE = [[i, None if i % 7 == 2 else 0] for i in range(100)]


def written(folder: Path, columns: dict, name: str = "lists") -> fb.Dataset:
    """Writes the same columns as Parquet in several row groups and as Arrow."""
    table = pa.table({"id": range(len(next(iter(columns.values())))), **columns})
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=30)
    pyarrow.feather.write_feather(table, folder / f"{name}.arrow", compression="uncompressed", chunksize=30)
    return table


@pytest.fixture(params=["parquet", "arrow"])
def read(request, tmp_path):
    """Writes columns and reads them."""

    def write(**columns):
        written(tmp_path, columns)
        source = fb.from_parquet if request.param == "parquet" else fb.from_arrow
        return source(tmp_path / f"lists.{request.param}")

    return write


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.float32(), 2), pa.list_(pa.bool_(), 2)],
    ids=str,
)
def test_a_list_that_is_missing_is_an_error_of_its_row(read, type_):
    values = [None if v is None else [bool(x) for x in v] for v in LISTS] if "bool" in str(type_) else LISTS
    ds = read(v=pa.array(values, type_))
    assert ds.schema.nullable <= {"id"}
    with pytest.raises(E.DataError, match='column "v" is missing in this row, and a list is never missing') as caught:
        list(ds)
    context = caught.value.context
    assert "lists." in context["file"]
    assert "#3 " in context["sample"]
    assert "on_error" in context["hint"]
    assert len(list(ds.take(3))) == 3, "rows before it are not to blame"
    for some in (ds, ds.shuffle()):
        rows = list(some.iter(on_error="skip", error_budget=1.0, seed=4))
        pairs = sorted((int(r["id"]), r["v"].tolist()) for r in rows)
        assert pairs == [(i, v) for i, v in enumerate(values) if v is not None]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_list_that_is_missing_is_empty_where_the_user_says_so(kind, tmp_path):
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5]))
    # The list that is missing still has its numbers in memory, as some writers leave them.
    hidden = pa.Array.from_buffers(
        hidden.type, 3, [pa.py_buffer(b"\x05"), *hidden.buffers()[1:2]], children=[hidden.values]
    )
    columns = {"n": [1, 2, 3], "v": hidden, "w": pa.array([[1], [None], None]), "t": [["a"], None, []]}
    written(tmp_path, columns)
    source = fb.from_parquet if kind == "parquet" else fb.from_arrow
    ds = source(tmp_path / f"lists.{kind}", nullable=["v", "t"])
    assert ds.schema.nullable == {"t"}
    for some in (ds.drop("w"), ds.drop("w").shuffle(), ds.drop("w").shuffle(window=2)):
        rows = sorted((int(row["n"]), row["v"].tolist(), row["t"]) for row in some)
        assert rows == [(1, [1, 2], ["a"]), (2, [], None), (3, [5], [])]
    said = source(tmp_path / f"lists.{kind}", nullable=["w"]).select("w")
    with pytest.raises(E.DataError, match='"w" has a missing number inside its list'):
        list(said)
    assert [row["w"].tolist() for row in said.iter(on_error="skip", error_budget=1.0)] == [[1], []]
    with pytest.raises(E.DataError, match='"v" is missing in this row') as caught:
        list(source(tmp_path / f"lists.{kind}", nullable=[]))
    assert 'nullable=["v"]' in caught.value.hint


def test_a_number_that_is_missing_inside_a_list_is_an_error_of_its_row(read):
    for type_ in (pa.list_(pa.int32()), pa.list_(pa.int32(), 2)):
        ds = read(v=pa.array(INSIDE, type_), w=pa.array(LISTS, type_))
        with pytest.raises(E.DataError, match='"v" has a missing number inside its list') as caught:
            list(ds)
        assert "#2 " in caught.value.context["sample"]
        kept = [int(r["id"]) for r in ds.iter(on_error="skip", error_budget=1.0)]
        assert kept == [i for i in range(100) if i % 7 != 2 and i % 5 != 3]


def test_lists_in_a_structure_that_is_missing_are_missing(read):
    structs = [None if i == 4 else {"v": [i], "n": None if i == 5 else i} for i in range(9)]
    ds = read(s=pa.array(structs, pa.struct([("v", pa.list_(pa.int64())), ("n", pa.int64())])))
    kept = [
        (int(r["id"]), r["s.n"] if r["s.n"] is None else int(r["s.n"]))
        for r in ds.iter(on_error="skip", error_budget=1.0)
    ]
    assert kept == [(i, None if i == 5 else i) for i in range(9) if i != 4]


def test_lists_that_writers_call_nullable_are_lists(read):
    lists = [list(range(i % 9)) for i in range(100)]
    ds = read(v=pa.array(lists, pa.list_(pa.int32())))
    assert ds.schema["v"] == ("int32", (None,))
    assert ds.schema.nullable <= {"id"}
    packed = np.concatenate([b["v"] for b in ds.select("v").pack("v", 16).batch(1)])
    flat = [n for some in lists for n in some]
    assert packed.reshape(-1)[: len(flat)].tolist() == flat
    sizes = {(b["v"].shape[1], len(b["id"])) for b in ds.bucket_by_length("v", [4, 8], [8, 8, 8])}
    assert {shape for shape, _ in sizes} <= set(range(9))
    assert sum(len(b["id"]) for b in ds.bucket_by_length("v", [4, 8], [8, 8, 8])) == 100


def test_a_column_that_the_first_file_says_is_whole_is_so_row_by_row(tmp_path):
    whole = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"n": [1, 2]}, schema=whole), tmp_path / "0.parquet")
    pq.write_table(pa.table({"n": [3, None, 5]}), tmp_path / "1.parquet")
    ds = fb.from_parquet(tmp_path / "*.parquet")
    with pytest.raises(E.DataError, match=r"was found \(or said\) to be int64, never missing") as caught:
        list(ds)
    assert "1.parquet#1 " in caught.value.context["sample"]
    assert 'nullable=["n"]' in caught.value.hint
    assert [int(r["n"]) for r in ds.iter(on_error="skip", error_budget=1.0)] == [1, 2, 3, 5]
    said = fb.from_parquet(tmp_path / "*.parquet", nullable="n")
    assert [r["n"] for r in said] == [1, 2, 3, None, 5]
    assert [int(r["n"]) for r in said.fill_null("n", 9)] == [1, 2, 3, 9, 5]


def test_a_service_says_the_same_of_missing_lists_and_masks(tmp_path, service):
    written(tmp_path, {"v": pa.array(LISTS, pa.list_(pa.int32(), 2)), "n": pa.array(VALUES[:100], pa.int64())})
    plus = {"id": "int64?", "v": ("int32", [2]), "n": "int64?"}
    ds = fb.from_parquet(tmp_path / "lists.parquet").shuffle()
    ds = ds.map(lambda b: {**b, "n": b["n"] + 1}, batched=True, schema=plus).batch(8)
    batches = [
        list(ds.iter(seed=3, on_error="skip", error_budget=1.0)),
        list(
            ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", seed=3, on_error="skip", error_budget=1.0).iter()
        ),
    ]
    for some in batches:
        got = {int(i): n for b in some for i, n in zip(b["id"], told(b["n"]), strict=True)}
        assert got == {i: None if VALUES[i] is None else VALUES[i] + 1 for i in range(100) if LISTS[i] is not None}
    for here, there in zip(*batches, strict=True):
        assert all(told(here[name]) == told(there[name]) for name in here)


def test_a_tensor_made_of_a_missing_number_is_an_error_of_its_row(tmp_path):
    table = {
        "x": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
        "s": pa.array([1.0, None, 3.0, 4.0], pa.float32()),
    }
    written(tmp_path, table)
    ds = fb.from_parquet(tmp_path / "lists.parquet")
    scale = fb.col("s")
    with pytest.raises(
        E.DataError, match=r'"z" would be missing in this row, and float32\[2\] is never missing'
    ) as caught:
        list(ds.with_column("z", fb.col("x") * scale))
    assert "#1 " in caught.value.context["sample"]
    filled = ds.with_column("z", fb.col("x") * fb.where(scale.is_null(), 0, scale))
    assert [r["z"].tolist() for r in filled] == [[1, 2], [0, 0], [3, 6], [4, 8]]
    assert "z" not in filled.schema.nullable
    left = ds.with_column("z", fb.col("x") * scale).iter(on_error="skip", error_budget=1.0)
    assert [int(r["id"]) for r in left] == [0, 2, 3]


def test_a_missing_float_is_not_finite_for_an_array_has_nan_there(tmp_path):
    ds = fb.from_dict({"x": [0.5, None, 2.0]})
    with pytest.raises(E.DataError, match='"x" is missing in this row, which is NaN in an array') as caught:
        list(ds.check_finite())
    assert caught.value.context["sample"] == "row 1"
    x = fb.col("x")
    assert [float(r["x"]) for r in ds.filter(~x.is_null()).check_finite()] == [0.5, 2.0]
    assert [float(r["x"]) for r in ds.with_column("x", fb.where(x.is_null(), 0, x)).check_finite()] == [0.5, 0.0, 2.0]
    assert [float(r["x"]) for r in ds.check_finite().iter(on_error="skip", error_budget=1.0)] == [0.5, 2.0]


def test_a_list_that_json_lacks_in_some_of_the_first_lines_is_text(tmp_path):
    def lines(*rows: dict) -> fb.Dataset:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return fb.from_jsonl(tmp_path / "a.jsonl")

    for without in ({"v": None, "n": 1}, {"n": 1}):
        ds = lines({"v": [1, 2], "n": None}, without)
        assert str(ds.schema) == "Schema(v: string?, n: int64?)"
        assert [r["v"] for r in ds] == ["[1, 2]", None]
        late = lines(*[{"v": [1, 2], "n": 0}] * 100, without)
        assert late.schema["v"] == ("int64", (None,))
        says = 'field "v" of a line is null' if "v" in without else 'a line has no field "v"'
        with pytest.raises(E.DataError, match=says) as caught:
            list(late)
        assert caught.value.context["file_line"] == "101"


def test_a_list_that_a_record_of_tensorflow_lacks_is_empty_where_the_schema_says_that_it_may(tmp_path):
    records = [example(id=[i], v=[i] * 2) if i % 3 else example(id=[i]) for i in range(40)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(record(r) for r in records))
    want = [[i] * 2 if i % 3 else [] for i in range(40)]
    for features in ("infer", {"id": "int64", "v": ("int64?", [None])}):
        ds = fb.from_tfrecord(tmp_path / "a.tfrecord", features=features)
        assert (ds.schema["v"], ds.schema.nullable) == (("int64", (None,)), frozenset())
        assert [r["v"].tolist() for r in ds] == want
    given = fb.from_tfrecord(tmp_path / "a.tfrecord", features={"id": "int64", "v": ("int64", [None])})
    with pytest.raises(E.DataError, match='a record has no feature "v"'):
        list(given)
    with pytest.raises(E.InvalidPipelineError, match="with missing rows, which no array holds"):
        fb.from_tfrecord(tmp_path / "a.tfrecord", features={"v": ("int64?", [2])})


def test_whole_numbers_of_json_keep_their_value_or_are_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    for exact in (2**53, 2**63 + 2**11, -(2**63), 10**22):
        path.write_text(f'{{"n": 0.5, "v": [0.5]}}\n{{"n": {exact}, "v": [{exact}]}}\n')
        assert [(float(r["n"]), float(r["v"][0])) for r in fb.from_jsonl(path)] == [(0.5, 0.5), (exact, exact)]
    for inexact in (2**53 + 1, 2**64 - 1, -(2**53) - 1):
        for line in (f'{{"n": {inexact}, "v": [0]}}', f'{{"n": 0, "v": [{inexact}]}}'):
            path.write_text(f'{{"n": 0.5, "v": [0.5]}}\n{line}\n')
            with pytest.raises(E.DataError, match="which does not hold this whole number exactly") as caught:
                list(fb.from_jsonl(path))
            assert str(inexact) in caught.value.context["value"]


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n \t\r\n", "   ", "\n  "])
def test_blank_lines_at_the_end_of_json_lines_are_no_rows(tmp_path, end):
    for name, rows in (("a", 3), ("b", 0), ("c", 150)):
        text = "\n".join(json.dumps({"n": i}) for i in range(rows))
        (tmp_path / f"{name}.jsonl").write_bytes((text + end).encode())
    pq_rows = [*range(3), *range(150)]
    ds = fb.from_jsonl(tmp_path / "*.jsonl")
    assert ds.cardinality == len(pq_rows)
    assert [int(r["n"]) for r in ds] == pq_rows
    assert sorted(int(r["n"]) for r in ds.shuffle()) == sorted(pq_rows)
    assert [int(r["n"]) for r in ds.filter(fb.col("n") > 100)] == list(range(101, 150))


def test_a_blank_line_between_others_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n\n')
    with pytest.raises(E.DataError, match="a line is not json") as caught:
        list(fb.from_jsonl(tmp_path / "a.jsonl"))
    assert caught.value.context["file_line"] == "2"
