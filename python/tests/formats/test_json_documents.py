"""`from_json` against Python's `json`: any array of objects, at any place of a document."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

E = fb.errors
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), max_size=4) | st.sampled_from(
    '"\\[]{},:'
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(['"', "\\", '],"', "}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for name, v in row.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(VALUES, max_size=6),
    around=st.dictionaries(KEYS, VALUES, max_size=3),
    path=st.lists(KEYS, max_size=2),
    indent=st.sampled_from([None, 0, 2]),
    packed=st.booleans(),
)
def test_each_object_of_the_array_is_a_row(values, around, path, indent, packed, tmp_path):
    document: Any = [{"v": value, "n": n} for n, value in enumerate(values)]
    for key in reversed(path):
        before = {name: value for name, value in around.items() if name != key}
        document = {**before, key: document, **{name + "'": value for name, value in before.items()}}
    text = json.dumps(document, indent=indent).encode()
    file = tmp_path / "a.json"
    file.write_bytes(gzip.compress(text) if packed else text)
    schema = {"v": "string?", "n": "int64"}
    ds = fb.from_json(file, field=".".join(path) if path else None, schema=schema)
    found = [plain(row) for row in ds]
    assert [row["n"] for row in found] == list(range(len(values)))
    for row, value in zip(found, values, strict=True):
        assert row["v"] == value if isinstance(value, str) or value is None else json.loads(row["v"]) == value
    assert sorted(plain(row)["n"] for row in ds.shuffle()) == list(range(len(values)))


def coco(path: Path, rows: int) -> Path:
    boxes = [
        {"id": n, "image_id": n // 3, "bbox": [n + 0.5, 2.0, 3.0, 4.0], "segmentation": [[1, 2]]} for n in range(rows)
    ]
    images = [{"id": n, "file_name": f"{n}.jpg"} for n in range(rows // 3)]
    path.write_text(json.dumps({"info": {"year": 2017}, "images": images, "annotations": boxes, "categories": []}))
    return path


def test_cocos_annotations_are_rows(tmp_path):
    path = coco(tmp_path / "instances.json", 3000)
    ds = fb.from_json(path, field="annotations")
    assert str(ds.schema) == "Schema(id: int64, image_id: int64, bbox: float64[?], segmentation: string)"
    assert [int(row["id"]) for row in ds] == list(range(3000))
    assert ds.shuffle()[17]["bbox"][0] == ds.shuffle()[17]["id"] + 0.5
    names = fb.from_json(path, field="images").rename(id="image_id")
    joined = ds.join(names, on="image_id")
    assert [row["file_name"] for row in joined.take(4)] == ["0.jpg", "0.jpg", "0.jpg", "1.jpg"]
    whole = [[int(n) for n in batch["id"]] for batch in ds.shuffle().batch(100).iter(seed=1)]
    for rank in range(2):
        part = ds.shuffle().batch(100).iter(seed=1, consumers=(rank, 2))
        assert [[int(n) for n in batch["id"]] for batch in part] == whole[rank::2]
    begun = ds.batch(7).iter()
    first = [next(begun)["id"].tolist() for _ in range(50)]
    resumed = ds.batch(7).iter()
    resumed.load_state_dict(begun.state_dict())
    found = [*first, *(batch["id"].tolist() for batch in resumed)]
    assert [n for batch in found for n in batch] == list(range(3000))


@pytest.mark.parametrize(
    ("text", "field", "says", "hint"),
    [
        ('{"a": [1], "b": {"c": [2]}, "d": [3]}', None, "is an object, and not an array", 'field="a" or field="d"'),
        ('{"a": [1], "b": 2}', "c", 'has no member "c"', 'field="a"'),
        ('{"a": {"b": []}}', "a.c", 'has no member "a.c"', "from_jsonl"),
        ('{"a": 7}', "a", 'the member "a" is not an array', "whole"),
        ("", None, "the file ends before the array begins", "whole"),
        ('{"a": [{"x": 1}', "a", "the file ends within the array", "whole"),
        ('[{"x": 1}, {"x"', None, "the file ends within the array", "whole"),
        ('[{"x": 1}}', None, "a bracket of the array is another one", "whole"),
        ('{"a" [1]}', "b", "a name has no value", "whole"),
        ('{"x": 1}\n{"x": 2}\n', None, "is an object, and not an array", "from_jsonl"),
        ("[1, 2]", None, "an item of the array is json, but not an object", ""),
        ('[{"x": 1},, {"x": 2}]', None, "an item of the array is not json", "on_error"),
        ('[{"x": 1},]', None, "the array ends behind a comma", "whole"),
        ('[{"x": 1}, \n]', None, "the array ends behind a comma", "whole"),
        ('[{"x": 1}] [{"x": 2}]', None, "the file goes on behind the array", "whole"),
    ],
)
def test_other_documents_say_what_they_are(text, field, says, hint, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(E.DataError) as caught:
        list(fb.from_json(tmp_path / "a.json", field=field))
    assert says in str(caught.value)
    assert hint in (caught.value.hint or "")
    assert caught.value.context["file"].endswith("a.json")


def test_a_name_with_a_dot_is_one_member(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1, "a.b": {"c.d": [{"x": 1}]}}')
    assert [int(row["x"]) for row in fb.from_json(tmp_path / "a.json", field="a.b.c.d")] == [1]


def test_a_row_that_is_no_json_is_left_out_alone(tmp_path):
    rows = [json.dumps({"n": n}) for n in range(200)]
    rows[150] = '{"n": nope}'
    (tmp_path / "a.json").write_text(f"[{','.join(rows)}]")
    ds = fb.from_json(tmp_path / "a.json")
    for order in (ds, ds.shuffle()):
        it = order.iter(on_error="skip", seed=1)
        assert sorted(int(row["n"]) for row in it) == [n for n in range(200) if n != 150]
