"""Classes in place of functions: their objects are made once in each process."""

from __future__ import annotations

import os
from collections import UserDict
from pathlib import Path

import forebay as fb
import pytest
from forebay import errors as E


def setting(made: Path, factor: int):
    """Returns a class that notes each object it makes."""

    class Scale:
        def __init__(self) -> None:
            self.factor = factor
            with made.open("a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, row, rng):
            return {"y": row["id"] * self.factor, "drawn": rng.random()}

    return Scale


def pairs(batches):
    return [(int(row["y"]), float(row["drawn"])) for row in batches]


def test_a_class_makes_one_object_in_each_process_that_computes(tmp_path):
    made = tmp_path / "made"
    ds = fb.range(40).map(setting(made, 3), schema={"y": "int64", "drawn": "float64"})
    here = pairs(ds.iter(seed=3))
    assert [y for y, _ in here] == [3 * i for i in range(40)]
    assert made.read_text().split() == [str(os.getpid())]
    made.unlink()
    assert pairs(ds.iter(seed=3, executor="process")) == here
    with fb.up(workers=2) as service:
        assert pairs(ds.distribute(service, job="scale", seed=3)) == here
    others = made.read_text().split()
    assert len(others) == len(set(others)) >= 2
    assert str(os.getpid()) not in others


def test_the_object_is_no_part_of_the_pipeline(tmp_path):
    columns = {"y": "int64", "drawn": "float64"}
    made = [fb.range(4).map(setting(tmp_path / "made", factor), schema=columns) for factor in (2, 2, 5)]
    first, again, other = (ds.dataset_id for ds in made)
    assert first == again != other
    assert not (tmp_path / "made").exists()


def test_classes_of_dictionaries_are_functions_and_arguments_are_asked_for():
    class Row(UserDict):
        def __call__(self, row):
            raise AssertionError

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, row):
            return {"y": row["id"] * self.factor}

    assert [int(row["id"]) for row in fb.range(3).map(dict)] == [0, 1, 2]
    assert [int(row["id"]) for row in fb.range(3).map(Row)] == [0, 1, 2]
    assert [int(row["y"]) for row in fb.range(3).map(Scale(2))] == [0, 2, 4]
    for make in (fb.range(3).map, fb.range(3).filter, lambda fn: fb.range(3).flat_map(fn, schema={"y": "int64"})):
        with pytest.raises(E.InvalidPipelineError, match=r"Scale needs arguments: factor(.|\n)*Scale\(\.\.\.\)"):
            make(Scale)
    with pytest.raises(TypeError, match="give an object, map\\(Class"):
        fb.range(3).map(Scale, fn_constructor_args=[2])


def test_calls_of_all_kinds_are_known():
    class Static:
        @staticmethod
        def __call__(row, rng):
            return {"y": row["id"] + (rng.random() < 2)}

    class Torch:
        def _forward(self, *arguments):
            return {"y": arguments[0]["id"] + 1}

        __call__ = _forward

    for made in (Static, Torch):
        assert [int(row["y"]) for row in fb.range(3).map(made)] == [1, 2, 3]


def test_a_constructor_that_fails_is_the_users_error():
    class Broken:
        def __init__(self):
            raise OSError("no such model")

        def __call__(self, row):
            return row

    with pytest.raises(E.FunctionError, match="Broken raised OSError: no such model"):
        fb.range(3).map(Broken)
