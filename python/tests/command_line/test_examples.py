"""`fb.examples`, `examples/` and `forebay demo`: example data, and runs that need nothing else."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay._src import pictures
from PIL import Image


def test_the_encoders_write_what_pillow_reads():
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (13, 21)).astype(np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(pictures.png(grey)))) == grey).all()
    ramp = np.linspace(0, 255, 64 * 48 * 3).reshape(48, 64, 3).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(pictures.jpeg(ramp, quality=95))), int)
    assert read.shape == ramp.shape
    assert np.abs(read - ramp).mean() < 3


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 65_501)])
def test_what_no_jpeg_can_be_is_refused(shape):
    with pytest.raises(fb.errors.InvalidPipelineError, match="quality 90"):
        pictures.jpeg(np.zeros((*shape, 3), np.uint8))


def test_examples_are_the_same_every_time_and_nothing_is_written_over(tmp_path):
    first, second = fb.examples.digits(tmp_path / "a", 100), fb.examples.digits(tmp_path / "b", 100)
    for file in sorted(first.iterdir()):
        assert file.read_bytes() == (second / file.name).read_bytes()
    assert fb.examples.digits(first, 100) == first
    (first / "test.tar").write_bytes(b"mine")
    with pytest.raises(fb.errors.ConflictError, match=r"test\.tar exists and is another file"):
        fb.examples.digits(first, 100)
    assert (first / "test.tar").read_bytes() == b"mine"
    with tarfile.open(second / "test.tar") as tar:
        assert tar.getnames()[:2] == ["00000.png", "00000.cls"]


def test_photos_are_a_folder_of_classes(tmp_path):
    ds = fb.from_image_folder(str(fb.examples.photos(tmp_path / "photos", 9))).decode_image("image")
    rows = list(ds)
    assert sorted(int(row["label"]) for row in rows) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len({row["image"].shape for row in rows}) > 1


#: Programs of `examples/`, and the expected output of each. `make demo` runs digits.py.
PROGRAMS = {
    "images.py": "accuracy 0.9|accuracy 1.0",
    "language_model.py": "batches, perplexity 3.",
    "tabular.py": "epoch 2: 39 batches, loss 0.5",
    "ranks.py": "rank 1: 124 batches, stopped after 20: the same batches",
    "service.py": "they equal the batches that this process computes alone",
}
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_every_program_is_known():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"digits.py", *PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_it_stands(program, tmp_path):
    command = [sys.executable, str(EXAMPLES / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any(text in done.stdout for text in PROGRAMS[program].split("|")), done.stdout
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def demo(*options):
    command = [sys.executable, "-m", "forebay", "demo", "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(tmp_path):
    done = demo("--epochs", "2", "--dir", str(tmp_path))
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    # Two epochs are too few for training. All other rows must be ok.
    assert [name for name, row in rows.items() if not row["ok"]] in ([], ["held-out accuracy"])
    assert "is killed with SIGKILL in the middle of epoch 2" in done.stderr
    assert rows["samples per epoch"]["found"] == "1440"
    assert list(tmp_path.iterdir()) == []


def test_a_demo_without_shards_says_so(tmp_path):
    done = demo("--shards", str(tmp_path))
    assert done.returncode == 4
    assert str(tmp_path) in done.stderr
