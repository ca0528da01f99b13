"""Errors name their subject: the column, the line of the file and that of the script, the sample, the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest


def here(error: E.ForebayError) -> bool:
    return error.context["line"].startswith(__file__)


def test_a_column_that_a_file_lacks_is_no_missing_file(parquet):
    with pytest.raises(E.NotFoundError, match='no column "nane"') as caught:
        fb.from_parquet(parquet / "a.parquet", columns=["nane"])
    assert not isinstance(caught.value, FileNotFoundError)
    assert 'did you mean "name"' in caught.value.hint
    with pytest.raises(E.MissingFileError):
        fb.from_parquet(parquet / "none.parquet")


def test_a_line_of_a_file_is_no_line_of_the_script(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": \n')
    with pytest.raises(E.DataError) as caught:
        fb.from_jsonl(tmp_path / "a.jsonl")
    assert caught.value.context["file_line"] == "2"
    assert here(caught.value)


@pytest.mark.parametrize("source", ["files", "parquet"])
def test_a_file_that_is_gone_is_said_to_have_been_there(source: str, tmp_path, parquet):
    for i in range(4):
        (tmp_path / f"{i:02}").write_bytes((parquet / "b.parquet").read_bytes())
    ds = fb.from_files(tmp_path / "*") if source == "files" else fb.from_parquet(tmp_path / "*", columns=["i"]).batch(9)
    it = ds.iter(threads=1, epochs=None)
    next(it)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(E.MissingFileError, match="was there when it was indexed, and is gone since") as caught:
        list(it)
    assert caught.value.context["op"] == f"from_{source}"
    assert here(caught.value)
    assert "put it back" in caught.value.hint


def test_a_sample_that_a_function_is_tried_on_has_its_name(parquet):
    with pytest.raises(E.FunctionError, match="ZeroDivisionError") as caught:
        fb.from_parquet(parquet / "a.parquet").map(lambda row: {"x": 1 / 0})
    assert "a.parquet#0" in caught.value.context["sample"]


def test_a_function_that_needs_a_whole_batch_is_tried_on_one():
    for rows in (1, 2, 32):
        batches = fb.range(64).batch(rows, drop_remainder=True)
        ds = batches.map(lambda batch, rng, n=rows: {"x": batch["id"].reshape(n, 1)[rng.permutation(n)]})
        assert ds.schema["x"] == ("int64", (1,))
        assert sorted(n for batch in ds for (n,) in batch["x"].tolist()) == [*range(64)]
    with pytest.raises(E.FunctionError, match="size 32"):
        batches.map(lambda batch: {"x": batch["id"].reshape(33)})


def test_ctrl_c_in_a_trial_arrives_once():
    script = """
import os, signal, sys, time
import forebay as fb

# A shell starts what it runs in the background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def slow(row):
    if row["id"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    return row

try:
    fb.range(64).map(slow, schema={"id": "int64"}).batch(32).map(dict)
except KeyboardInterrupt:
    time.sleep(0.5)
    print("once")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90)
    assert done.stdout == "once\n", done.stderr


def test_an_op_of_a_fused_chain_is_blamed_and_not_the_decoder(images):
    ds = fb.from_image_folder(images).decode_image("image").random_flip("image")
    for cropped in (ds.random_crop("image", 64), ds.crop("image", 64, corner="bottom_right")):
        with pytest.raises(E.DataError, match=r"a crop of \(64, 64\)") as caught:
            list(cropped)
        assert caught.value.context["op"] in ("random_crop", "crop")
    jpeg = next(images.rglob("*.jpg")).read_bytes()
    damaged = fb.from_dict({"image": [jpeg[:-200]]}).decode_image("image")
    with pytest.raises(E.DataError) as caught:
        list(damaged.random_flip("image").random_crop("image", 8))
    assert caught.value.context["op"] == "decode_image"


def test_a_null_is_no_absent_field(tmp_path):
    for value, says in [('{"a": null}', 'field "a" of a line is null'), ("{}", 'a line has no field "a"')]:
        (tmp_path / "a.jsonl").write_text('{"a": 1}\n' * 150 + value + "\n")
        with pytest.raises(E.DataError, match=says) as caught:
            list(fb.from_jsonl(tmp_path / "a.jsonl"))
        assert caught.value.context["file_line"] == "151"


def test_an_array_where_the_schema_has_a_number():
    for given in ("int64", "int64?"):
        ds = fb.from_generator(lambda: iter([{"v": np.arange(3)}]), schema={"v": given})
        with pytest.raises(E.FunctionError, match="should be int64") as caught:
            list(ds)
        assert 'schema={"v": ("int64", [3])' in caught.value.hint


def test_a_value_of_another_type_that_a_generator_yields_has_its_number():
    ds = fb.from_generator(lambda: ({"a": i if i < 1500 else 1.5} for i in range(2000)))
    with pytest.raises(E.FunctionError, match="should be int64, and is float") as caught:
        list(ds)
    assert caught.value.context["sample"] == "0:1500"


@pytest.mark.parametrize("batched", [False, True])
def test_writing_to_what_a_function_gets_is_answered_with_what_to_do(batched: bool):
    def raised(row):
        row["a"] += 1
        return row

    ds = fb.from_numpy({"a": np.zeros((4, 2))})
    with pytest.raises(E.FunctionError, match="read-only") as caught:
        list(ds.map(raised, batched=batched))
    assert ".copy()" in caught.value.hint


def test_a_file_where_a_folder_is_wanted(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(E.InvalidPipelineError, match="where a folder is wanted") as caught:
        fb.from_image_folder(tmp_path / "file").cardinality  # noqa: B018
    assert caught.value.hint


def forebay(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def test_commands_say_what_they_take(tmp_path, parquet):
    for command, word in {
        ("sim", "--job", parquet / "a.parquet"): "JSON",
        ("run", f"{__file__}:ds"): f"the whole script: {__file__}",
        ("dispatcher", "--state-dir", parquet / "a.parquet", "--listen", "127.0.0.1:0"): "--state-dir DIR",
    }.items():
        done = forebay(*command)
        assert done.returncode != 0, command
        assert word in done.stderr, command


SIM = ("--step", "20ms", "--batch-cost", "50ms", "--batches", "500")


def test_a_plot_that_cannot_be_written_costs_no_table(tmp_path):
    done = forebay("sim", *SIM, "--svg", tmp_path / "none" / "a.svg")
    assert done.returncode != 0
    assert "a.svg" in done.stderr
    assert "forebay" in done.stdout
    assert len(done.stdout.splitlines()) > 3
