"""The texts of `explain()` and of the most common errors, word for word: files in `golden/texts`.

`FOREBAY_WRITE_GOLDEN=1 pytest python/tests/errors/test_texts.py` writes the files anew; read their diff before
committing it.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encoded, picture

GOLDEN = Path(__file__).parents[1] / "golden" / "texts"
WRITE = "FOREBAY_WRITE_GOLDEN"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the cases, as the current folder."""
    monkeypatch.chdir(tmp_path)
    with tarfile.open("images.tar", "w") as tar:
        for i in range(6):
            for extension, content in (("png", encoded(picture(i), "PNG")), ("cls", b"1")):
                member = tarfile.TarInfo(f"{i}.{extension}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    whole = Path("images.tar").read_bytes()
    Path("cut.tar").write_bytes(whole[: len(whole) // 2 + 100])
    Path("lines.txt").write_text("to be or not to be\nthat is the question\n" * 20)
    Path("rows.jsonl").write_text('{"id": 1, "name": "one"}\n{"id": 2, "name": "two"}\n')
    Path("broken.jsonl").write_text('{"id": 1}\n{"id": \n')
    Path("holes.jsonl").write_text('{"id": 1}\n{"id": null}\n')
    pq.write_table(pa.table({"day": np.arange(100), "clicks": np.arange(100)}), "clicks.parquet", row_group_size=10)
    words = ["<unk>", "<eos>", "to", "be", "or", "not", "that", "is", "the", "question"]
    vocabulary = {word: i for i, word in enumerate(words)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    Path("tokenizer.json").write_text(json.dumps({"model": model, "pre_tokenizer": {"type": "Whitespace"}}))
    return tmp_path


def constant(text: str, folder: Path) -> str:
    """Removes parts that differ from run to run: folders, lines of this script, ids, ports."""
    text = text.replace(str(folder), "<folder>")
    text = re.sub(r"(?:[^\s\"]*/)?test_texts\.py(\"?)(:|, line )\d+", r"<script>\1\2<n>", text)
    text = re.sub(r"\b(?:[0-9a-f]{12}|[0-9a-f]{64})\b", "<id>", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>", text)
    return re.sub(r"^\s*[~^]+\n", "", text, flags=re.MULTILINE)


def compare(name: str, texts: dict[str, str]) -> None:
    """Compares the texts of a file with those at its writing."""
    path = GOLDEN / name
    found = "\n".join(f"== {case}\n{text.rstrip()}\n" for case, text in texts.items())
    if os.environ.get(WRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), f"if the new texts are better, write them: {WRITE}=1"


def images() -> fb.Dataset:
    return fb.from_tar("images.tar").decode_image("png")


def half(row: dict[str, Any]) -> dict[str, Any]:
    return {"half": row["id"] / 2}


EXPLAINED: dict[str, Callable[[], fb.Dataset]] = {
    "images": lambda: (
        images()
        .shuffle()
        .random_resized_crop("png", 24)
        .random_flip("png")
        .normalize("png", mean=[0.5] * 3, std=[0.5] * 3)
        .batch(2, drop_remainder=True)
    ),
    "text": lambda: (
        fb.from_text("lines.txt").shuffle().tokenize("text", "tokenizer.json").pack("text", 16, eos_id=1).batch(4)
    ),
    "a table with a filter that moves": lambda: (
        fb.from_parquet("clicks.parquet", filters=fb.col("day") >= 50)
        .with_column("rate", fb.col("clicks") / 2.0)
        .filter(fb.col("clicks") > 60)
        .select("rate")
        .batch(8)
    ),
    "a function and a cache": lambda: fb.range(100).map(half, schema={"half": "float64"}).cache().shuffle().batch(10),
    "repeated and sharded": lambda: fb.range(100).shuffle().shard(4, 1).repeat(2).take(30).batch(8),
}


def test_explanations(data: Path):
    compare("explain.txt", {name: constant(make().explain(), data) for name, make in EXPLAINED.items()})


def fail(row: dict[str, Any]) -> dict[str, Any]:
    raise ValueError(f"no half of {int(row['id'])}")


def widen(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.zeros(int(row["id"]) % 3 + 1)}


def state_for(other: fb.Dataset, **options: Any) -> None:
    """Loads the state of a pipeline into another."""
    it = fb.range(10).batch(2).iter(seed=1)
    next(it)
    other.iter(**options).load_state_dict(it.state_dict())


def closed() -> None:
    it = fb.range(10).iter()
    next(it)
    it.close()
    next(it)


ERRORS: dict[str, Callable[[], Any]] = {
    "a misspelled column": lambda: images().resize("pgn", (8, 8)),
    "a file that is not there": lambda: fb.from_tar("train.tar"),
    "a pattern without files": lambda: fb.from_tar("train-*.tar"),
    "no paths": lambda: fb.from_text([]),
    "a tar file that was cut off": lambda: list(fb.from_tar("cut.tar")),
    "a text that is no tar file": lambda: list(fb.from_tar("lines.txt")),
    "bytes that are no image": lambda: list(fb.from_tar("images.tar").decode_image("cls")),
    "an image op before decode_image": lambda: fb.from_tar("images.tar").random_flip("png"),
    "images of several sizes in a batch": lambda: list(images().batch(6)),
    "a line that is no JSON": lambda: list(fb.from_jsonl("broken.jsonl", schema={"id": "int64"})),
    "a missing value": lambda: list(fb.from_jsonl("holes.jsonl", schema={"id": "int64"})),
    "a value of another type": lambda: list(fb.from_jsonl("rows.jsonl", schema={"name": "int64"})),
    "a cast that fails": lambda: list(fb.from_text("lines.txt").cast(text="int64")),
    "a column that Parquet files lack": lambda: fb.from_parquet("clicks.parquet", columns=["click"]),
    "a text compared with a number": lambda: fb.from_text("lines.txt").filter(fb.col("text") > 5),
    "a function that raises": lambda: list(fb.range(3).map(fail, schema={"x": "int64"})),
    "a function whose rows differ": lambda: list(fb.range(6).map(widen, schema={"x": ("float64", [1])})),
    "a batch size that is no number": lambda: fb.range(3).batch("2"),  # type: ignore[arg-type]
    "a batch size of 0": lambda: fb.range(3).batch(0),
    "two batches": lambda: fb.range(8).batch(2).batch(2),
    "a shuffle of a generator": lambda: fb.from_generator(lambda: iter([{"x": 1}])).shuffle(),
    "a consumer that there is not": lambda: fb.range(8).iter(consumers=(2, 2)),
    "a negative seed": lambda: fb.range(8).iter(seed=-1),
    "a state of another pipeline": lambda: state_for(fb.range(11).batch(2), seed=1),
    "a state of another seed": lambda: state_for(fb.range(10).batch(2), seed=2),
    "an iterator that is closed": closed,
    "a service that does not answer": lambda: fb.connect("127.0.0.1:1", timeout=0.2).jobs(),
}


def test_errors(data: Path):
    texts = {}
    for case, make in ERRORS.items():
        with pytest.raises(fb.errors.ForebayError) as caught:
            make()
        texts[case] = f"{type(caught.value).__name__}: {constant(str(caught.value), data)}"
    compare("errors.txt", texts)
