"""The same code has the same name: in every process, from any folder, on any line; other code has another name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

#: Functions and objects of all kinds that users write. `{n}` is the part that a change replaces.
SCRIPT = textwrap.dedent(
    """
    import collections, dataclasses, enum, functools, json, re, sys, typing
    import numpy as np
    import forebay as fb
    from beside import helper
    import beside

    STOP = {{"the", "a", "of", "and", "to", "in", "{n}"}}
    TABLE = {{name: i for i, name in enumerate(["b", "a", "{n}"])}}
    PATTERN, ARRAY, MANY = re.compile("a+{n}"), np.arange({n}), [str(i) for i in range(1000 + {n})]
    T = typing.TypeVar("T")

    class Scale:
        __slots__ = ("k",)
        def __init__(self, k): self.k = k
        def __call__(self, row): return {{"y": row["id"] * self.k + {n}}}
        def method(self, row): return self(row)
        @property
        def twice(self): return 2 * self.k
        @staticmethod
        def fixed(row): return {{"y": {n}}}
        @classmethod
        def made(cls, row): return cls({n})(row)

    class Child(Scale):
        def __call__(self, row): return super().__call__(row)

    @dataclasses.dataclass(frozen=True)
    class Data:
        k: int = {n}
        def __call__(self, row): return {{"y": row["id"] * self.k}}

    class Colour(enum.Enum):
        RED = {n}
        BLUE = 2000

    Pair = collections.namedtuple("Pair", "x y")
    class Typed(typing.NamedTuple):
        a: int = {n}

    class Items:
        def __init__(self): self.held = {{"q", "w", "{n}"}}
        def __len__(self): return 5
        def __getitem__(self, i): return {{"y": i}}

    def plain(row): return {{"y": row["id"] + {n}}}
    def in_set(row): return {{"y": int(str(row["id"]) in {{"1", "22", "{n}"}})}}
    def from_globals(row): return {{"y": len(STOP) + TABLE["a"] + ARRAY[0] + bool(PATTERN.match("a")) + len(MANY)}}
    def default(row, k={n}, *, other={{"x", "y"}}): return {{"y": k}}
    def enumerated(row): return {{"y": Colour.RED.value}}
    def tuples(row): return {{"y": Pair({n}, 2).x + Typed().a}}
    def makes_class(row): return Scale({n})(row)
    def nested(row):
        def inner(x): return x + {n}
        return {{"y": inner(row["id"])}}
    def recursive(row, depth={n}): return recursive(row, depth - 1) if depth else {{"y": 1}}
    def closed(k):
        seen = [k]
        return lambda row: {{"y": len(seen) + k}}
    def decorated(function):
        @functools.wraps(function)
        def wrapper(row): return function(row)
        return wrapper
    def beside_it(row): return {{"y": helper(row["id"]) + beside.other()}}
    def library(row): return {{"y": np.clip(row["id"], 0, {n})}}
    @functools.lru_cache
    def remembered(n): return n + {n}
    def uses_remembered(row): return {{"y": remembered(row["id"])}}
    def generator():
        for i in range({n}): yield {{"y": i}}

    functions = {{
        "scale": Scale({n}), "method": Scale({n}).method, "static": Scale.fixed, "class method": Scale.made,
        "child": Child({n}), "data": Data(), "plain": plain, "set": in_set, "globals": from_globals, "default": default,
        "enum": enumerated, "tuples": tuples, "class": makes_class, "nested": nested, "recursive": recursive,
        "closure": closed({n}), "decorated": decorated(plain), "partial": functools.partial(default, k={n}),
        "remembered": uses_remembered, "beside": beside_it, "library": library, "lambda": lambda row: {{"y": {n}}},
    }}
    ids = {{k: fb.range(5).map(f, schema={{"y": "int64"}}).dataset_id for k, f in functions.items()}}
    ids["items"] = fb.from_map_dataset(Items(), schema={{"y": "int64"}}).dataset_id
    ids["generator"] = fb.from_generator(generator, schema={{"y": "int64"}}).dataset_id
    ids["cached"] = fb.range(5).map(Data(), schema={{"y": "int64"}}).cache().dataset_id
    print(json.dumps(ids))
    """
)
BESIDE = "def helper(x): return x + {n}\ndef other(): return {n}\n"


def ids(folder: Path, n: int, before: str = "", seed: str = "0") -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    (folder / "beside.py").write_text(before + BESIDE.format(n=n))
    (folder / "script.py").write_text(before + SCRIPT.format(n=n))
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    out = subprocess.run(
        [sys.executable, str(folder / "script.py")], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(out.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> dict[str, str]:
    return ids(tmp_path_factory.mktemp("first"), 7)


def test_the_same_code_has_the_same_name_everywhere(first, tmp_path):
    # The second time, modules are loaded from their compiled files.
    for n, (folder, before) in enumerate([("a", ""), ("a", ""), ("b", "# A line more.\n\n"), ("b", "")]):
        assert ids(tmp_path / folder, 7, before, seed=str(n)) == first


def test_other_code_has_another_name(first, tmp_path):
    other = ids(tmp_path / "a", 8)
    assert [name for name in first if first[name] == other[name]] == []


RESUMED = textwrap.dedent(
    """
    import json, sys
    import forebay as fb
    class Squares:
        def __len__(self): return 100
        def __getitem__(self, i): return {"id": i}
    class Scale:
        def __init__(self, k): self.k = k
        def __call__(self, row): return {"y": row["id"] * self.k, "z": row["id"] in {"a", "b", "c"}}
    ds = fb.from_map_dataset(Squares()).map(Scale(3)).shuffle().batch(10)
    what, argument = sys.argv[1:]
    if what == "save":
        it = ds.iter(seed=1)
        next(it)
        print(json.dumps(it.state_dict()))
    elif what == "load":
        it = ds.iter(seed=1)
        it.load_state_dict(json.loads(argument))
        print(len(list(it)))
    else:
        print(len(list(ds.distribute(argument, job="ranks", seed=1, consumers=(int(what), 2)))))
    """
)


def test_classes_of_a_script_are_resumed_and_shared_by_its_processes(tmp_path, service):
    script = tmp_path / "train.py"
    script.write_text(RESUMED)

    def run(*arguments: str) -> str:
        out = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
        assert out.returncode == 0, out.stderr
        return out.stdout

    assert int(run("load", run("save", ""))) == 9
    assert [int(run(rank, service.address)) for rank in "01"] == [5, 5]
