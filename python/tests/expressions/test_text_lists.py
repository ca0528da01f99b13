"""Columns of lists of texts: as Python's lists, wherever they come from and go to."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import forebay as fb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay import errors as E

WORDS = ["", "a", "é", "日本", "a,b", '"', "\\", "🐟", "long " * 20]


def some(seed: int, rows: int = 200, missing: float = 0.0) -> list[list[str] | None]:
    rng = random.Random(seed)
    lists = [rng.choices(WORDS, k=rng.randrange(5)) for _ in range(rows)]
    lists[0] = ["first"]
    return [None if rng.random() < missing else row for row in lists]


def column(ds: fb.Dataset, name: str = "tags", **options: Any) -> list[Any]:
    return [row[name] for row in ds.iter(**options)]


def test_functions_give_and_get_lists_of_texts() -> None:
    lists = some(1)

    def tags(row: dict[str, Any]) -> dict[str, Any]:
        return {"tags": lists[int(row["id"])], "n": len(lists[int(row["id"])])}

    ds = fb.range(len(lists)).map(tags)
    assert str(ds.schema["tags"]) == "string[?]"
    for options in ({}, {"threads": 3}, {"executor": "process"}):
        assert column(ds, **options) == lists
    batched = ds.batch(7).map(lambda batch: {"tags": [[*row, "z"] for row in batch["tags"]]})
    assert [row for batch in batched for row in batch["tags"]] == [[*row, "z"] for row in lists]
    many = ds.flat_map(lambda row: [{"tags": row["tags"]}, {"tags": [str(row["n"])]}])
    assert column(many) == [made for row in lists for made in (row, [str(len(row))])]
    declared = fb.range(3).map(lambda row: {"tags": ("x",) * int(row["id"])}, schema={"tags": ("string", [None])})
    assert column(declared) == [[], ["x"], ["x", "x"]]
    for wrong in (["a", 1], "text", [["a"]]):
        with pytest.raises(E.FunctionError, match="tags"):
            column(fb.range(2).map(lambda row, wrong=wrong: {"tags": wrong}, schema={"tags": ("string", [None])}))


def test_missing_lists_are_none() -> None:
    lists = [["a"], None, [], ["b", "c"]]
    ds = fb.from_dict({"tags": lists})
    assert str(ds.schema) == "Schema(tags: string[?]?)"
    assert column(ds) == lists
    assert column(ds.filter(~fb.col("tags").is_null())) == [["a"], [], ["b", "c"]]
    assert column(ds.with_column("tags", fb.col("tags").list.join("-"))) == ["a", None, "", "b-c"]
    assert column(ds.with_column("tags", fb.col("tags").fill_null(fb.lit("x,y").str.split(",")))) == [
        ["a"], ["x", "y"], [], ["b", "c"]
    ]  # fmt: skip


EXPRESSIONS = {
    "len": (fb.col("tags").len(), len),
    "contains": (fb.col("tags").list.contains("a"), lambda row: "a" in row),
    "join": (fb.col("tags").list.join("|"), "|".join),
    "slice": (fb.col("tags").list.slice(1, -1), lambda row: row[1:-1]),
    "split": (fb.col("tags").list.join(",").str.split(","), lambda row: ",".join(row).split(",")),
    "where": (fb.where(fb.col("tags").len() > 1, fb.col("tags"), fb.lit("no").str.split("-")),
              lambda row: row if len(row) > 1 else ["no"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_functions_of_lists_are_pythons(name: str) -> None:
    expr, python = EXPRESSIONS[name]
    lists = some(2)
    made = column(fb.from_dict({"tags": lists}).with_column("y", expr), "y")
    assert made == [python(row) for row in lists]


def test_an_item_that_is_not_there_is_an_error_of_its_sample() -> None:
    lists = some(3)
    ds = fb.from_dict({"tags": lists}).with_column("y", fb.col("tags").list.get(-2))
    with pytest.raises(E.DataError, match=r"get\(-2\): the list has \d items"):
        column(ds)
    assert column(ds, "y", on_error="skip", error_budget=1.0) == [row[-2] for row in lists if len(row) > 1]
    exploded = fb.from_dict({"n": range(len(lists)), "tags": lists}).explode("tags")
    assert [(int(row["n"]), row["tags"]) for row in exploded] == [
        (n, tag) for n, row in enumerate(lists) for tag in row
    ]


def test_what_takes_no_list_says_what_does() -> None:
    ds = fb.from_dict({"tags": [["a"], ["b", "c"]]})
    texts = fb.from_dict({"text": ["a", "bc"]})
    for make, hint in [
        (lambda: ds.cast(tags=str), ".list.join"),
        (lambda: ds.with_column("y", fb.col("tags").hash_mod(3)), ".list.join"),
        (lambda: fb.range(2).with_column("y", fb.col("id").list.join(",")), "concat_str"),
        (lambda: texts.filter(fb.col("text").list.contains("a")), ".str.split"),
        (lambda: texts.with_column("y", fb.col("text").list.slice(0, 1)), "int32[?]"),
        (lambda: ds.filter(fb.col("tags").str.contains("a")), ".list"),
        (lambda: ds.with_column("y", fb.col("tags").list.sum()), "int32[?]"),
        (lambda: fb.range(2).map(lambda row: {"y": 1}, schema={"y": ("string", (3,))}), "[None]"),
    ]:
        with pytest.raises(E.InvalidPipelineError) as caught:
            make()
        assert hint in caught.value.context["hint"]
    for format in ("tar", "mds"):
        with pytest.raises(E.InvalidPipelineError, match="list"):
            ds.save(f"never-{format}", format=format)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_files_and_tables_give_their_lists(tmp_path: pathlib.Path, missing: float) -> None:
    lists = some(4, missing=missing)
    table = pa.table({"tags": lists, "n": range(len(lists))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=64)
    large = table.cast(pa.schema([("tags", pa.large_list(pa.large_string())), ("n", pa.int64())]))
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, large.schema) as writer:
        writer.write_table(large, 50)
    with (tmp_path / "a.jsonl").open("w") as file:
        file.writelines(json.dumps({"tags": row, "n": n}) + "\n" for n, row in enumerate(lists))
    sources = [
        fb.from_parquet(tmp_path / "a.parquet"),
        fb.from_arrow(tmp_path / "a.arrow"),
        fb.from_jsonl(tmp_path / "a.jsonl"),
        fb.from_table(table),
    ]
    for ds in sources:
        assert ds.schema["tags"] == ("string", (None,))
        assert column(ds) == lists
        shuffled = {int(row["n"]): row["tags"] for row in ds.shuffle().cache().iter(epochs=2)}
        assert [shuffled[n] for n in range(len(lists))] == lists
    for format in ("parquet", "arrow"):
        saved = tmp_path / f"saved-{format}"
        sources[0].save(saved, format=format)
        assert sorted(map(str, column(fb.load(saved)))) == sorted(map(str, lists))


def test_lists_of_other_forms_are_read_too(tmp_path: pathlib.Path) -> None:
    lists = some(5, missing=0.2)
    for form in (pa.list_view(pa.string()), pa.large_list_view(pa.large_string())):
        array = pa.array(lists, form)
        for table in (pa.table({"tags": array}), pa.table({"tags": array}).slice(3, 20)):
            assert column(fb.from_table(table)) == table["tags"].to_pylist()
    numbers = pa.array([[1, 2], [], [3]], pa.list_view(pa.int32())).slice(1)
    assert [row["x"].tolist() for row in fb.from_table(pa.table({"x": numbers}))] == [[], [3]]
    pairs = pa.table({"tags": pa.array([["a", "b"], None, ["c", "d"]], pa.list_(pa.string(), 2))})
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    for ds in (fb.from_table(pairs), fb.from_parquet(tmp_path / "pairs.parquet")):
        assert column(ds) == [["a", "b"], None, ["c", "d"]]
    (tmp_path / "nulls.jsonl").write_text('{"tags": ["a"]}\n{"tags": [null]}\n{"tags": []}\n')
    assert column(fb.from_jsonl(tmp_path / "nulls.jsonl")) == [["a"], [None], []]


def test_a_text_may_be_missing_in_its_list(tmp_path: pathlib.Path) -> None:
    lists = [["a"], ["b", None], [None], [], None]
    pq.write_table(pa.table({"tags": lists}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"tags": row}) + "\n" for row in lists if row != [None]))
    for ds in (fb.from_parquet(tmp_path / "a.parquet"), fb.from_dict({"tags": lists})):
        assert column(ds) == lists
        assert column(ds.cache(), epochs=2) == lists * 2
        assert column(ds.with_column("y", fb.col("tags").list.join("-")), "y") == ["a", "b", "", "", None]
        assert column(ds.with_column("y", fb.col("tags").list.contains("b")), "y") == [False, True, False, False, None]
        assert column(ds.explode("tags")) == ["a", "b", None, None]
    assert column(fb.from_jsonl(tmp_path / "a.jsonl")) == [row for row in lists if row != [None]]
    last = fb.from_dict({"tags": lists[:3]}).with_column("y", fb.col("tags").list.get(-1))
    assert "y" in last.schema.nullable
    assert column(last, "y") == ["a", None, None]


def test_a_service_sends_lists_of_texts(service: fb.Service) -> None:
    lists = some(5)
    ds = fb.from_dict({"tags": lists}).with_column("n", fb.col("tags").len())
    assert [row["tags"] for row in ds.distribute(service, job="lists-of-texts")] == lists
