"""Saving and restoring: the rest of the stream is the same after any cut."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import forebay as fb
import numpy as np
import pytest


def key(sample: dict) -> tuple:
    return tuple(
        (n, v.tobytes() if isinstance(v, np.ndarray) and v.dtype != object else repr(v)) for n, v in sample.items()
    )


def draw(row, rng):
    return {"id": row["id"], "noise": rng.random()}


PIPELINES = {
    "batches": lambda: fb.range(250).shuffle().map(draw).batch(16),
    "rows": lambda: fb.range(150).shuffle(),
    "filtered batches": lambda: fb.range(300).shuffle().filter(fb.col("id") % 3 == 0).batch(16),
    "filtered rows": lambda: fb.range(300).filter(fb.col("id") % 3 == 0),
    "tail": lambda: fb.range(400).filter(fb.col("id") % 3 != 0).skip(11).shard(2, 1).take(90).batch(7),
    "generator": lambda: (
        fb.from_generator(lambda: ({"i": i} for i in range(170))).filter(fb.col("i") % 2 == 0).batch(8)
    ),
    "repeat": lambda: fb.range(40).shuffle().repeat(3).batch(9),
}


#: Pipelines that only one consumer can have.
UNSHARED = ["tail", "generator"]


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
@pytest.mark.parametrize(
    ("name", "consumers"),
    [(name, one) for name in PIPELINES for one in [(0, 1), (1, 3)] if one[1] == 1 or name not in UNSHARED],
)
def test_the_rest_is_the_same_wherever_it_is_cut(name, consumers):
    ds = PIPELINES[name]()
    options = {"seed": 9, "epochs": 2, "consumers": consumers}
    everything = [key(b) for b in ds.iter(threads=2, **options)]
    cuts = sorted({0, 1, 2, len(everything) // 3, len(everything) // 2, len(everything) - 1, len(everything)})
    it, taken = ds.iter(threads=3, **options), 0
    for cut in (c for c in cuts if 0 <= c <= len(everything)):
        taken += sum(1 for _ in itertools.islice(it, cut - taken))
        saved = json.dumps(it.state_dict())
        assert len(saved) < 600
        state = json.loads(saved)
        again = PIPELINES[name]().iter(threads=1, **options)
        again.load_state_dict(state)
        assert [key(b) for b in again] == everything[cut:], cut
    it.close()


def test_an_iterator_can_be_rewound_in_place():
    it = fb.range(20).shuffle().batch(4).iter(seed=1)
    next(it)
    state = it.state_dict()
    rest = [b["id"].tolist() for b in it]
    it.load_state_dict(state)
    assert [b["id"].tolist() for b in it] == rest


def test_a_state_resumes_in_a_new_process():
    script = textwrap.dedent(
        """
        import json, sys
        import forebay as fb
        it = fb.range(100).shuffle().batch(10).iter(seed=4, threads=1)
        it.load_state_dict(json.loads(sys.argv[1]))
        print(json.dumps([b["id"].tolist() for b in it]))
        """
    )
    it = fb.range(100).shuffle().batch(10).iter(seed=4)
    next(it), next(it), next(it)
    state = it.state_dict()
    out = subprocess.run([sys.executable, "-c", script, json.dumps(state)], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == [b["id"].tolist() for b in it]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: fb.range(11).batch(2).iter(seed=1), "its source is range.*10.*, and here it is range.*11.*"),
        (lambda: fb.range(10).batch(2).iter(seed=2), "its seed is 1, and here it is 2"),
    ],
)
def test_a_state_of_something_else_is_refused(other, says):
    it = fb.range(10).batch(2).iter(seed=1)
    next(it)
    with pytest.raises(fb.errors.InvalidPipelineError, match=says):
        other().load_state_dict(it.state_dict())
    with pytest.raises(fb.errors.InvalidPipelineError):
        it.load_state_dict({})
    for nothing in (None, "state", [("seed", 1)]):
        with pytest.raises(fb.errors.InvalidPipelineError, match="a state is a dictionary") as caught:
            it.load_state_dict(nothing)
        assert "state_dict()" in caught.value.hint
    assert next(it)["id"].tolist() == [2, 3], "what is refused changes nothing"


def test_the_epoch_is_told():
    it = fb.range(4).batch(2).iter(epoch=3, epochs=2)
    assert it.epoch == 3
    epochs = []
    for _ in it:
        epochs.append(it.epoch)
    assert epochs == [3, 3, 4, 4]


def test_iterators_are_context_managers():
    with fb.range(1000).iter() as it:
        next(it)
    with pytest.raises(fb.errors.ClosedError):
        next(it)


GOLDEN = Path(__file__).parents[1] / "golden"
#: The pipelines of the golden states, none of which depends on the machine.
SAVED = {
    "batches": lambda: fb.range(250).shuffle().batch(16),
    "filtered": lambda: fb.range(300).shuffle().filter(fb.col("id") % 3 == 0).batch(16),
    "repeat": lambda: fb.range(40).shuffle().repeat(3).batch(9),
}


def save(name: str) -> dict:
    """Returns a state of this version, and the rows that come after it."""
    options = {"seed": 9, "epochs": 2, "consumers": (1, 3)}
    it = SAVED[name]().iter(**options)
    for _ in range(2):
        next(it)
    state = it.state_dict()
    return {"options": options, "state": state, "rest": [b["id"].tolist() for b in it]}


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_states_that_any_version_saved_give_the_rows_that_they_gave_there():
    """FOREBAY_WRITE_GOLDEN=1 writes the states of a new version. Existing states never change."""
    version = fb.range(1).iter().state_dict()["version"]
    ours = GOLDEN / f"states-v{version}.json"
    if "FOREBAY_WRITE_GOLDEN" in os.environ and not ours.exists():
        GOLDEN.mkdir(exist_ok=True)
        ours.write_text(json.dumps({name: save(name) for name in SAVED}, indent=1) + "\n")
    assert ours.exists()
    for file in sorted(GOLDEN.glob("states-v*.json")):
        for name, saved in json.loads(file.read_text()).items():
            options = {**saved["options"], "consumers": tuple(saved["options"]["consumers"])}
            it = SAVED[name]().iter(**options)
            it.load_state_dict(saved["state"])
            assert [b["id"].tolist() for b in it] == saved["rest"], (file.name, name)
