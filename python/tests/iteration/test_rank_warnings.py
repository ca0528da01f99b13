"""Processes that get the same batches, or unequal numbers of them, are warned."""

from __future__ import annotations

import itertools

import forebay as fb
import pytest
from pipelines import name


def quiet(read) -> None:
    # In tests a warning is an error.
    assert len(list(read())) > 0


@pytest.mark.parametrize(
    ("index", "count"),
    [
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_one_of_several_processes_is_told_before_its_first_batch(index, count, monkeypatch, service, tmp_path):
    monkeypatch.setenv(index, "1")
    monkeypatch.setenv(count, "4")
    ds = fb.range(40).batch(4)
    told = f"this is process 1 of 4 \\({index} and {count}.*each of them gets the same batches"
    readers = (lambda: ds, ds.iter, lambda: ds.distribute(service, job=name()))
    for read in readers:
        with pytest.warns(fb.RanksWarning, match=told) as caught:
            next(iter(read()))
        [warning] = [each for each in caught if issubclass(each.category, fb.RanksWarning)]
        assert warning.filename == __file__, "at the user's line"
    quiet(lambda: ds.iter(consumers=(0, 1)))
    quiet(lambda: ds.iter(consumers=(1, 4)))
    quiet(lambda: fb.range(40).shard(4, 1).batch(4))
    ds.show(1)
    fb.range(40).save(tmp_path / "saved")
    monkeypatch.setenv(count, "1")
    quiet(ds.iter)


def test_a_slurm_batch_script_that_runs_once_is_no_rank(monkeypatch):
    for variable, value in (("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")):
        monkeypatch.setenv(variable, value)
    quiet(fb.range(40).batch(4).iter)


def test_ranks_that_may_get_unequal_numbers_are_told(service):
    kept = fb.range(100).filter(fb.col("id") % 3 != 0).batch(4)
    known = fb.range(100).batch(4)
    with pytest.warns(
        fb.RanksWarning, match=r"filter \(.*test_rank_warnings.py:\d+\): how many batches each of 2 consumers"
    ):
        next(kept.iter(consumers=(0, 2)))
    # On a service they end together, unless the user allows different ends.
    for read in (kept.iter, lambda **options: kept.distribute(service, job=name(), **options)):
        quiet(lambda read=read: read(consumers=(0, 2), even=False))
        quiet(lambda read=read: read(consumers=(0, 2), coordinated=True))
    quiet(lambda: kept.iter(consumers=(0, 1)))
    quiet(lambda: itertools.islice(kept.iter(consumers=(0, 2), epochs=None), 30))
    quiet(lambda: known.iter(consumers=(0, 2)))
    with pytest.warns(fb.RanksWarning, match="on_error"):
        next(known.iter(consumers=(0, 2), on_error="skip"))
