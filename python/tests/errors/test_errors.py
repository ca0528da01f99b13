"""Bad input gets a clear, typed error."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import os
import pickle
import tarfile
import uuid

import forebay as fb
import numpy as np
import pytest
from pictures import encoded, picture

E = fb.errors


def test_every_kind_has_its_exception():
    from forebay import _native

    for kind, cls in E._KINDS.items():
        text = json.dumps({"kind": kind, "message": "m", "context": [["op", "map"], ["hint", "h"]]})
        error = _native.raise_error(text)
        assert type(error) is cls
        assert (error.kind, error.message, error.hint, dict(error.context)) == (
            kind,
            "m",
            "h",
            {"op": "map", "hint": "h"},
        )
        assert str(error) == "m\n  op: map\n  hint: h"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert isinstance(error, E.ForebayError)


def test_a_missing_file_and_an_empty_glob(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        fb.from_tar(tmp_path / "none.tar")
    assert isinstance(caught.value, E.NotFoundError)
    assert "none.tar" in str(caught.value)
    assert "test_errors.py" in caught.value.context["line"]
    with pytest.raises(E.NotFoundError, match="train-"):
        fb.from_tar(tmp_path / "train-*.tar")
    with pytest.raises(E.InvalidPipelineError, match="no paths"):
        fb.from_tar([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(PermissionError) as caught:
        list(fb.from_text(path))
    assert isinstance(caught.value, E.PermissionDeniedError)
    assert "secret.txt" in str(caught.value)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_truncated_tar_names_file_and_offset(shards, tmp_path, shuffled):
    data = (shards / "train-000.tar").read_bytes()
    path = tmp_path / "cut.tar"
    path.write_bytes(data[: len(data) // 2 + 100])
    ds = fb.from_tar(path)
    with pytest.raises(E.DataError) as caught:
        list(ds.shuffle() if shuffled else ds)
    assert "cut.tar" in caught.value.context["file"]


def test_a_tfrecord_with_a_bad_checksum(tmp_path):
    from sources.test_sources import record

    frames = [record(b"data %d" % i) for i in range(5)]
    frames[3] = frames[3][:14] + b"X" + frames[3][15:]
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(b"".join(frames))
    with pytest.raises(E.DataError) as caught:
        list(fb.from_tfrecord(path))
    assert "bad.tfrecord" in caught.value.context["file"]
    assert caught.value.context["offset"]
    assert len(list(fb.from_tfrecord(path, verify=False))) == 5


def test_an_image_that_cannot_be_decoded_names_its_sample(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(5):
            data = encoded(picture(i), "PNG") if i != 3 else b"this is no image"
            member = tarfile.TarInfo(f"{i}.png")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    ds = fb.from_tar(tmp_path / "a.tar").decode_image("png")
    with pytest.raises(E.DataError) as caught:
        list(ds)
    assert "a.tar" in str(caught.value)
    assert caught.value.context["sample"]
    assert caught.value.context["op"] == "decode_image"
    assert "test_errors.py" in caught.value.context["line"]


def test_a_file_that_changed_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n" * 1000)
    it = fb.from_text(path).shuffle().iter(threads=1)
    next(it)
    path.write_text("other\n")
    with pytest.raises(E.DataError):
        list(it)


@pytest.mark.parametrize("where", ["here", "service"])
def test_a_file_that_is_written_over_in_place_is_never_mixed_with_what_it_was(tmp_path, where, until, request):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old line\n" * 5000)
    ds = fb.from_text(path).shuffle().repeat(None).batch(64)
    if where == "here":
        it = iter(ds.iter(threads=2, on_error="skip"))
    else:
        service = request.getfixturevalue("service")
        it = iter(ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", on_error="skip").iter())
    next(it)
    pinned = path.stat()

    def overwrite() -> bool:
        with path.open("r+b") as file:
            file.write(b"new line\n" * 5000)
        return path.stat().st_mtime_ns != pinned.st_mtime_ns

    until(overwrite)
    assert (path.stat().st_ino, path.stat().st_size) == (pinned.st_ino, pinned.st_size)
    batches = itertools.islice(it, 20_000)
    with pytest.raises(E.DataError, match="this file changed since it was indexed") as caught:
        assert all(set(batch["text"]) == {"old line"} for batch in batches)
    assert caught.value.context["file"] == str(path)
    assert it.skipped == []


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda ds: ds.select("idd"), E.NotFoundError, "idd"),
        (lambda ds: ds.drop("x"), E.NotFoundError, "x"),
        (lambda ds: ds.with_column("y", fb.col("nope") + 1), E.NotFoundError, "nope"),
        (lambda ds: ds.filter(fb.col("id")), E.InvalidPipelineError, "truth value"),
        (lambda ds: ds.batch(0), E.InvalidPipelineError, "size=0 is out of range"),
        (lambda ds: ds.batch("many"), E.InvalidPipelineError, "whole number"),
        (lambda ds: ds.batch(2).shuffle(), E.InvalidPipelineError, "comes after batch"),
        (lambda ds: ds.shard(3, 3), E.InvalidPipelineError, "index 3 is out of range"),
        (lambda ds: ds.repeat(0), E.InvalidPipelineError, "out of range"),
        (lambda ds: ds.take(-1), E.InvalidPipelineError, "count=-1 is out of range"),
        (lambda ds: ds.cast(id="int65"), E.InvalidPipelineError, "int65"),
        (lambda ds: ds.decode_image("id"), E.InvalidPipelineError, "not bytes"),
        (lambda ds: ds.map(3), E.InvalidPipelineError, "cannot be called"),
        (lambda ds: ds.map(lambda r: r, timeout=0), E.InvalidPipelineError, "timeout"),
        (lambda ds: ds.map(lambda r: r, reads=["nope"], schema={"x": "int64"}), E.NotFoundError, "nope"),
        (lambda ds: ds.map(lambda r: r, schema={"x": "int99"}), E.InvalidPipelineError, "int99"),
        (lambda ds: ds.iter(seed=-1), E.InvalidPipelineError, "seed=-1"),
        (lambda ds: ds.iter(consumers=(2, 2)), E.InvalidPipelineError, r"consumers\[0\]=2 is out of range"),
        (lambda ds: ds.iter(executor="gpu"), E.InvalidPipelineError, "gpu"),
        (lambda ds: ds.prefetch(0), E.InvalidPipelineError, "count=0"),
    ],
)
def test_a_wrong_argument_fails_when_written(make, error, says):
    with pytest.raises(error, match=says):
        make(fb.range(3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.resize("i", 0), "size=0"),
        (lambda ds: ds.resize("i", 100_000), "65500"),
        (lambda ds: ds.random_resized_crop("i", 8, scale=(0.5, 1.5)), "scale"),
        (lambda ds: ds.random_resized_crop("i", 8, scale=(0.5,)), "scale"),
        (lambda ds: ds.resize("i"), "either size or shorter"),
        (lambda ds: ds.resize("i", 8, shorter=8), "either size or shorter"),
        (lambda ds: ds.resize("i", 8, max_size=9), "max_size goes with shorter"),
        (lambda ds: ds.resize("i", shorter=0), "shorter=0"),
        (lambda ds: ds.resize("i", shorter=65_501), "shorter=65501"),
        (lambda ds: ds.resize("i", shorter=8, max_size=8), "max_size=8"),
        (lambda ds: ds.resize("i", shorter=8).batch(2), "different shapes"),
        (lambda ds: ds.random_flip("i", p=1.5), "p=1.5"),
        (lambda ds: ds.random_flip("i", direction="up"), "direction 'up'"),
        (lambda ds: ds.random_flip("i", p=float("nan")), "p=nan"),
        (lambda ds: ds.normalize("i", mean=[0.5], std=[0.5]), "3 channels"),
        (lambda ds: ds.normalize("i", mean=[0.5] * 3, std=[0, 1, 1]), "std"),
        (lambda ds: ds.normalize("i", mean=[124, 116, 104], std=[58] * 3), "mean=124"),
        (lambda ds: ds.decode_image("i"), "not bytes"),
        (lambda ds: ds.batch(2), "different shapes"),
    ],
)
def test_a_wrong_argument_of_an_image_op(make, says):
    ds = fb.from_dict({"i": [encoded(picture(0), "PNG")]}).decode_image("i")
    with pytest.raises(E.InvalidPipelineError, match=says):
        make(ds)
    with pytest.raises(E.InvalidPipelineError, match="not decoded yet"):
        fb.from_dict({"i": [b""]}).resize("i", 8)


def test_errors_name_the_op_and_the_users_line():
    with pytest.raises(E.NotFoundError) as caught:
        fb.range(3).select("idd")
    assert caught.value.context["op"] == "select"
    assert caught.value.context["line"].startswith(__file__)
    assert caught.value.hint == 'did you mean "id"?'


def test_columns_of_different_lengths():
    with pytest.raises(E.InvalidPipelineError, match="rows"):
        fb.from_numpy({"a": np.zeros(3), "b": np.zeros(4)})
    with pytest.raises(E.InvalidPipelineError):
        fb.from_dict({"a": [1, "x"]})
    with pytest.raises(E.InvalidPipelineError, match="dictionary"):
        fb.from_dict([1, 2])


def test_a_closed_iterator_says_so():
    it = fb.range(10).iter()
    next(it)
    it.close()
    with pytest.raises(E.ClosedError):
        next(it)


def test_a_closed_service_says_so_at_once():
    ds = fb.range(8).batch(2)
    service = fb.up(workers=1, threads=1)
    before = ds.distribute(service, job="before").iter()
    service.close()
    service.close()
    calls = {
        "jobs": service.jobs,
        "workers": service.workers,
        "scale": service.scale,
        "cancel": lambda: service.cancel("before"),
        "add_worker": service.add_worker,
        "kill_worker": service.kill_worker,
        "distribute": lambda: iter(ds.distribute(service, job="after")),
        "a reader that had not begun": lambda: next(before),
    }
    for name, call in calls.items():
        # A request to the ended dispatcher would be an UnavailableError.
        with pytest.raises(E.ClosedError, match="was closed") as caught:
            call()
        assert service.address in str(caught.value), name
        assert "up()" in caught.value.hint, name


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"seed": -1}, "0 to 18446744073709551615"),
        ({"consumers": 3}, "consumers=(rank, world)"),
        ({"consumers": (1, 2, 3)}, "consumers=(rank, world)"),
        ({"consumers": (4, 4)}, "0 to 3"),
        ({"even": "no"}, "None"),
        ({"threads": -1}, "0 to 4096"),
        ({"error_budget": "all"}, "share"),
    ],
)
def test_a_bad_argument_is_named_with_the_method_that_was_called(given, hint, tmp_path):
    ds = fb.range(8)
    calls = {
        "iter": ds.iter,
        "distribute": lambda **options: ds.distribute("forebay://127.0.0.1:1", job="none", **options),
        "save": lambda **options: ds.save(tmp_path / "saved", **options),
    }
    takers = [op for op in calls if inspect.signature(getattr(fb.Dataset, op)).parameters.keys() >= given.keys()]
    assert len(takers) >= 2
    for op in takers:
        with pytest.raises(E.InvalidPipelineError, match=rf"^{op}: {next(iter(given))}") as caught:
            calls[op](**given)
        assert hint in caught.value.hint


def test_a_finished_iterator_stays_finished():
    it = fb.range(2).iter()
    assert len(list(it)) == 2
    assert list(it) == []
