"""Keras with each backend, and `tf.data`."""

from __future__ import annotations

import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest

pytest.importorskip("keras")
HERE = Path(__file__).parent


def expected(epochs: int, rows: int = 24, known: bool = True) -> list:
    """The mean of the targets of each batch."""
    ds = fb.range(rows).shuffle().with_column("y", fb.col("id") / 2)
    ds = ds if known else ds.filter(fb.col("id") < 20)
    return [
        [round(float(b["y"].mean()), 2) for b in ds.batch(4, drop_remainder=True).iter(seed=3, epoch=e)]
        for e in range(epochs)
    ]


def needs(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")


@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_each_epoch_of_fit_is_an_epoch(backend, tmp_path):
    needs(backend)
    script = [sys.executable, str(HERE / "keras_fits.py"), backend, str(tmp_path / "out.json")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-8000:]
    out = json.loads((tmp_path / "out.json").read_text())

    def same(name: str, want: list) -> None:
        assert np.allclose(out[name], want, atol=0.02), (name, out[name], want)

    want = expected(3)
    same("three epochs", want)
    same("weights", want[:1])
    same("one batch", expected(3, rows=7))
    same("unknown", expected(2, known=False))
    steps = want[0] + want[1]
    same("steps", [steps[i : i + 3] for i in range(0, 12, 3)])
    same("again", [[want[0]], [want[1]]])
    same("validated", [np.mean(want[0][:2])] * 3)
    same("resumed after an epoch", want)
    assert out["predicted"] == [24, 1]
    if backend != "tensorflow":
        same("resumed within", [want[:2]] * 2)


REFUSED = {
    "text": (lambda: fb.from_dict({"s": ["a"]}).batch(1).to_keras(x="s"), "to_keras: column 's' is string"),
    "samples": (lambda: fb.range(4).to_keras(x="id"), "there are none"),
    "missing": (lambda: fb.from_dict({"n": [1, None]}).batch(1).to_keras(x="n"), "may be missing"),
    "no such column": (lambda: fb.range(4).batch(2).to_keras(x="id", y="z"), 'no column "z"'),
    "no targets": (lambda: fb.range(4).batch(2).to_keras(x="id", weight="id"), "weight= belongs to targets"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_said_at_once(what):
    make, says = REFUSED[what]
    with pytest.raises(fb.errors.ForebayError, match=says):
        make()


def test_inputs_have_names_or_places():
    ds = fb.range(4).with_column("y", fb.col("id") * 2).batch(4)
    named = next(iter(ds.to_keras(x={"left": "id", "right": "y"}, y="id")))
    placed = next(iter(ds.to_keras(x=["id", "y"])))
    assert named[0]["right"].tolist() == placed[0][1].tolist() == [0, 2, 4, 6]
    assert (len(named), len(placed)) == (2, 1)


def test_tf_data_iterates_over_epochs():
    needs("tensorflow")
    import tensorflow as tf

    ds = fb.from_dict(
        {"n": list(range(10)), "name": [f"n\0{i}" for i in range(10)], "ragged": [[1.5] * i for i in range(10)]}
    )
    ds = ds.shuffle()
    want = [[row["n"] for row in ds.iter(seed=2, epoch=epoch)] for epoch in range(3)]
    found = ds.to_tf(seed=2)
    assert found.cardinality() == 10
    assert found.element_spec["ragged"] == tf.TensorSpec([None], tf.float64)
    assert [[int(row["n"]) for row in found] for _ in range(2)] == want[:2]
    row = next(iter(ds.to_tf(seed=2, columns=("name", "ragged"))))
    assert (row[0].numpy(), row[1].shape) == (b"n\0%d" % want[0][0], want[0][0])
    batches = ds.select("n").batch(4, drop_remainder=True).to_tf(seed=2, columns="n")
    assert [b.shape for b in batches.repeat(2)] == [(4,)] * 4
    ragged = ds.batch(4, ragged=True).to_tf(seed=2, columns="ragged")
    assert ragged.element_spec == tf.RaggedTensorSpec([None, None], tf.float64, ragged_rank=1)
    assert [b.to_list() for b in ragged] == [[[1.5] * n for n in want[0][at : at + 4]] for at in (0, 4, 8)]
    unknown = ds.filter(fb.col("n") > 3).to_tf()
    assert unknown.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert len(list(itertools.islice(unknown, 20))) == 6
    failing = fb.range(4).map(lambda row: {"id": 1 // (2 - int(row["id"]))}).to_tf()
    with pytest.raises(tf.errors.OpError, match="ZeroDivisionError"):
        list(failing)
    with pytest.raises(fb.errors.InvalidPipelineError, match="may be missing"):
        fb.from_dict({"s": ["a", None]}).to_tf()
