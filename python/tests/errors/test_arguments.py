"""Arguments of the wrong kind or size are refused with an error that names the op and the accepted values."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import forebay as fb
import forebay.errors as E
import pytest

DS = fb.range(4)
WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "too many in a batch": (lambda: DS.batch(10**30), "batch: size", "1 to 9223372036854775807"),
    "too few in a batch": (lambda: DS.batch(0), "batch: size", "1 or more"),
    "too many to take": (lambda: DS.take(2**64), "take: count", "0 to 9223372036854775807"),
    "too many to skip": (lambda: DS.skip(10**30), "skip: count", "0 to 9223372036854775807"),
    "a range too far": (lambda: fb.range(2**64), "range: stop", "-9223372036854775808 to 9223372036854775807"),
    "no paths": (lambda: fb.from_files(None), "from_files: a path is a string or a PathLike, not NoneType", "string"),
    "a number of paths": (lambda: fb.from_parquet(5), "from_parquet: a path is a string .* not int", "string"),
    "a path of bytes": (lambda: fb.from_parquet(b"a.parquet"), "from_parquet: a path .* not bytes", "os.fsdecode"),
    "paths of bytes": (lambda: fb.from_text([b"a.txt"]), "from_text: a path .* not bytes", "os.fsdecode"),
    "a job's number": (lambda: DS.distribute("x", job=5), "distribute: job=5 is not a string", "string"),
    "a column's number": (lambda: fb.from_arrow("x", columns=[1]), "from_arrow: columns=1 is not", "string"),
    "one boundary": (lambda: DS.bucket_by_length("x", 10), "bucket_by_length: boundaries is a list", "boundaries=[10]"),
    "one size": (
        lambda: DS.bucket_by_length("x", [10], batch_sizes=4),
        "bucket_by_length: batch_sizes is a list",
        "batch_sizes=[4]",
    ),
    "a list of a key": (lambda: DS.join({"id": [1]}, on=["id"]), r"join: on=\['id'\] is not one", "write on='id'"),
    "two keys": (lambda: DS.join({"id": [1]}, on=["id", "x"]), r"join: on=\['id', 'x'\] is not one", "concat_str"),
    "a number of columns": (lambda: DS.map(str, reads=3), "map: reads=3 is not a string", "string"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_what_would_do(what: str):
    call, message, hint = WRONG[what]
    with pytest.raises(E.InvalidPipelineError, match=f"^{message}") as caught:
        call()
    assert hint in caught.value.hint


HABITS: dict[str, tuple[Callable[[], Any], str]] = {
    "PyTorch's drop_last": (lambda: DS.batch(4, drop_last=True), "drop_remainder=True"),
    "TensorFlow's buffer": (lambda: DS.shuffle(1000), "of all samples"),
    "two names": (lambda: DS.rename("id", "x"), 'rename({"old": "new"})'),
    "a seed": (lambda: DS.shuffle(seed=3), "iter(seed=1)"),
    "pandas' astype": (lambda: DS.cast("id", "int32"), 'cast({"x": "float32"})'),
    "a loader's shuffle": (lambda: DS.to_torch(shuffle=True), "put .shuffle() into the pipeline"),
    "tf.data's parallelism": (lambda: DS.map(dict, num_parallel_calls=4), "all threads are used"),
    "Hugging Face's processes": (lambda: DS.filter(bool, num_proc=4), "all threads are used"),
    "Hugging Face's columns": (lambda: DS.map(dict, remove_columns=["id"]), "only the columns that fn returns"),
    "Hugging Face's batches": (lambda: DS.map(dict, batched=True, batch_size=9), "any number of rows"),
    "another argument of map": (lambda: DS.map(dict, other=1), 'writes=["y"]'),
    "an index": (lambda: DS.map(lambda row, i: row), "fn(row, rng)"),
    "TensorFlow's pairs": (lambda: DS.filter(lambda x, y: True), "fn(row, rng)"),
    "a loader's batch": (lambda: DS.iter(batch_size=4), "put .batch(n) into the pipeline"),
    "TensorFlow's compression": (lambda: fb.from_tfrecord("a.gz", compression_type="GZIP"), "first bytes of a file"),
    "TensorFlow's defaults": (lambda: fb.from_csv("a.csv", record_defaults=[0]), "fill_null"),
    "pandas' columns": (lambda: fb.from_csv("a.csv", usecols=["a"]), 'columns=["a", "b"]'),
    "TensorFlow's signature": (lambda: fb.from_generator(iter, output_signature=int), 'schema={"x": "int64"'),
    "TensorFlow's padding": (lambda: DS.batch(4, padded_shapes=(None,)), "pad_to="),
    "a tokenizer's truncation": (lambda: DS.tokenize("text", "t.json", truncation=True), "max_length=512"),
    "a cache's file": (lambda: DS.cache("file"), "FOREBAY_CACHE"),
    "several to stack": (lambda: fb.stack("a", "b"), 'stack([fb.col("a"), fb.col("b")])'),
    "TensorFlow's buckets": (lambda: DS.bucket_by_length(bucket_boundaries=[4]), "[64], [8, 4]"),
    "pandas' credentials": (lambda: fb.from_parquet("s3://a/b", storage_options={}), "AWS_ACCESS_KEY_ID"),
    "a mask": (lambda: DS.select_rows([True, False]), "numpy.flatnonzero(mask)"),
    "three parts": (lambda: DS.split([0.8, 0.1, 0.1]), "rest.split(0.5)"),
    "scikit-learn's test": (lambda: DS.split(test_size=0.1), "the share of the first part"),
    "a function of a column": (lambda: DS.with_column("y", abs), "map(fn, writes=['y'])"),
    "the name of a column": (lambda: DS.with_column("y", next(iter(DS.schema))), "write fb.col("),
    "values of a column": (lambda: DS.with_column("y", [1, 2, 3, 4]), "put the values into the source"),
    "pandas' query": (lambda: DS.filter("id > 1"), "filter(fb.col('x') > 0)"),
    "a column of a frame": (lambda: DS["id"], "fb.col('id') in expressions"),
    "columns by map": (lambda: DS.map({"y": fb.col("x") + 1}), "with_column('y', (col('x') + 1))"),
    "an item of a list": (lambda: fb.col("ids")[0], ".list.get(0)"),
    "an array's file": (lambda: fb.from_numpy("a.npy"), "from_numpy(numpy.load(path))"),
    "an open file": (lambda: fb.from_csv(io.StringIO("a\n1\n")), "name the file"),
    "one column": (lambda: fb.from_parquet("a.parquet", column="id"), "columns="),
}


@pytest.mark.parametrize("habit", HABITS)
def test_what_other_libraries_taught_is_answered_with_how_it_is_here(habit: str):
    call, usage = HABITS[habit]
    with pytest.raises((TypeError, E.InvalidPipelineError)) as caught:
        call()
    assert usage in str(caught.value)
    assert not re.search(r"\b\w*Ops\b", str(caught.value))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_is_told_from_lines(indent, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"a": 1}], indent=indent))
    with pytest.raises(E.DataError, match=r"from_json\(paths, field="):
        fb.from_jsonl(tmp_path / "a.json")
    (tmp_path / "cut.jsonl").write_text('{"a": 1}\n{"a": ')
    with pytest.raises(E.DataError, match="leave such lines out"):
        fb.from_jsonl(tmp_path / "cut.jsonl")


def test_all_of_them_is_no_number():
    for call, hint in ((lambda: DS.take(-1), "leave it out"), (lambda: DS.repeat(-1), "repeat\\(\\)")):
        with pytest.raises(E.InvalidPipelineError, match=rf"count=-1 is out of range\n.*{hint}"):
            call()


def test_a_type_error_from_within_is_no_fault_of_the_call(monkeypatch):
    def wrong(*_: Any) -> None:
        raise TypeError("from within")

    monkeypatch.setattr(fb.Dataset, "_then", wrong)
    with pytest.raises(TypeError, match=r"^from within$"):
        DS.batch(2)


def test_a_dataset_has_a_length_where_its_samples_are_counted(parquet, shards):
    assert len(DS) == 4
    assert len(DS.batch(3)) == 2
    assert len(fb.from_parquet(parquet / "*.parquet").batch(100, drop_remainder=True)) == 5
    assert bool(fb.range(0)), "no sample, and a dataset all the same"
    unknown = {
        "shows when it is computed": DS.filter(fb.col("id") > 1),
        "never ends": DS.repeat(),
        "cardinality": fb.from_tar(shards / "*.tar"),
    }
    for why, ds in unknown.items():
        with pytest.raises(TypeError, match=why):
            len(ds)
    assert len(list(unknown["cardinality"])) == unknown["cardinality"].cardinality == 60
