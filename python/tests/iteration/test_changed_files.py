"""The warning of files that change between two iterations of one process."""

import warnings

import forebay as fb
import pytest
from pipelines import name


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_iteration_over_other_files_than_the_last_one_warns_at_the_loop(tmp_path, shuffled):
    for file in "abc":
        (tmp_path / f"{file}.txt").write_text("one\ntwo\n" * 50)
    ds = fb.from_text(tmp_path / "*.txt")
    ds = (ds.shuffle() if shuffled else ds).batch(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.FilesChangedWarning)
        assert [sum(1 for _ in ds.iter(epoch=epoch)) for epoch in range(2)] == [30, 30]
    (tmp_path / "b.txt").unlink()
    with pytest.warns(fb.FilesChangedWarning, match="had 1200 bytes, and have 800") as caught:
        assert sum(1 for _ in ds.iter(epoch=2)) == 20
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.FilesChangedWarning)
        assert sum(1 for _ in ds.iter(epoch=3)) == 20


def test_a_new_job_over_other_files_than_the_last_one_warns(tmp_path, service):
    for file in "abc":
        (tmp_path / f"{file}.txt").write_text("one\ntwo\n" * 50)
    ds = fb.from_text(tmp_path / "*.txt").batch(10)
    first, second = name(), name()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.FilesChangedWarning)
        assert sum(1 for _ in ds.distribute(service, job=first)) == 30
        assert sum(1 for _ in ds.iter()) == 30
        (tmp_path / "b.txt").unlink()
    with pytest.warns(fb.FilesChangedWarning, match="had 1200 bytes, and have 800") as caught:
        assert sum(1 for _ in ds.distribute(service, job=second)) == 20
    assert [warning.filename for warning in caught] == [__file__]
