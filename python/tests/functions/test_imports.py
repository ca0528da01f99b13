"""The modules that a function imports when it runs are part of its name, and travel with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import pipelines
import pytest
from forebay._src.functions import pickling


class Blocks:
    """Is pickled only once `go_on` is set."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __reduce__(self):
        self.begun.set()
        assert self.go_on.wait(60)
        return (int, ())


def test_a_thread_that_has_pickled_takes_no_module_from_another_one(tmp_path):
    first, second = Blocks(), Blocks()
    with ThreadPoolExecutor(2) as pool:
        results = []
        for blocks in (first, second):
            results.append(pool.submit(pickling.dumps, [blocks, pipelines.fingerprint], "a list"))
            assert blocks.begun.wait(60)
        first.go_on.set()
        results[0].result()
        second.go_on.set()
        pickled, _ = results[1].result()
    (tmp_path / "pickled").write_bytes(pickled)
    # A process that has forebay, and not the modules of the tests.
    code = "import cloudpickle; print(cloudpickle.loads(open('pickled', 'rb').read())[1].__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fingerprint\n", "")
    assert not cloudpickle.list_registry_pickle_by_value()


#: Ways to import one's own module late, and its result. `{n}` is the part that a change replaces.
WAYS = {
    "function": """
        def f(row):
            import late
            return {"y": late.value()}
    """,
    "from": """
        def f(row):
            from late import value as v
            return {"y": v()}
    """,
    "submodule": """
        def f(row):
            import pack.inner.deep
            return {"y": pack.inner.deep.value()}
    """,
    "from package": """
        def f(row):
            from pack.inner import deep
            return {"y": deep.value()}
    """,
    "folder": """
        def f(row):
            from plain.deep import value
            return {"y": value()}
    """,
    "relative": """
        def f(row):
            from pack import relative
            return {"y": relative.value()}
    """,
    "nested": """
        def f(row):
            def inner():
                return [(lambda: __import__("late").value())() for _ in range(1)][0]
            return {"y": inner()}
    """,
    "by name": """
        import importlib
        def f(row):
            return {"y": importlib.import_module("pack.inner.deep").value()}
    """,
    "transitive": """
        def f(row):
            import through
            return {"y": through.value()}
    """,
    "at the top of another": """
        import beside
        def f(row):
            return {"y": beside.value()}
    """,
    "method": """
        class F:
            def __call__(self, row):
                return self.value()
            def value(self):
                import late
                return {"y": late.value()}
        f = F()
    """,
    "closure, default and partial": """
        import functools
        def late_value():
            import late
            return late.value()
        def made(get):
            def f(scale, row, other=late_value):
                return {"y": (get() + other()) * scale // 2}
            return functools.partial(f, 1)
        f = made(late_value)
    """,
    "decorator": """
        import functools
        def decorated(function):
            @functools.wraps(function)
            def wrapper(row):
                from late import value
                return {"y": value()}
            return wrapper
        @decorated
        def f(row):
            return row
    """,
    "set beforehand": """
        import config
        config.SIZE = NUMBER
        def f(row):
            import config
            return {"y": config.twice() // 2}
    """,
    "generator": """
        def generator():
            from late import value
            yield {"y": value()}
    """,
}
FILES = {
    "late.py": "import threading\nlock = threading.Lock()\ndef value():\n    with lock: return {n}\n",
    "through.py": "import sys\nfrom late import value as inner\ndef value():\n    return inner()\n",
    "beside.py": "def value():\n    import late\n    return late.value()\n",
    "config.py": "SIZE = 1\ndef twice():\n    return SIZE * 2\n",
    "pack/__init__.py": "",
    "pack/inner/__init__.py": "raise_if_missing = True\n",
    "pack/inner/deep.py": "def value():\n    return {n}\n",
    "plain/deep.py": "def value():\n    return {n}\n",
    "pack/relative.py": "def value():\n    from .inner.deep import value\n    return value()\n",
}
SCRIPT = """
import json, os, sys
os.environ["FOREBAY_CACHE"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cache")
import forebay as fb
NUMBER = {n}
sets = {{}}
for name, code in {ways!r}.items():
    names = {{"__name__": "__main__", "NUMBER": NUMBER}}
    exec(code, names)
    if "generator" in names:
        sets[name] = fb.from_generator(names["generator"], schema={{"y": "int64"}})
    else:
        sets[name] = fb.range(3).map(names["f"], schema={{"y": "int64"}}).cache().batch(3)
def values(it):
    return sorted({{int(v) for batch in it for v in (batch["y"] if batch["y"].shape else [batch["y"]])}})
ids = {{name: ds.dataset_id for name, ds in sets.items()}}
process = {{name: values(ds.iter(executor="process")) for name, ds in sets.items()}} if {n} == 7 else {{}}
service = {{}}
if len(sys.argv) > 1:
    # One worker computes all of them, beside those of the other version.
    with fb.connect(sys.argv[1]) as connection:
        service = {{name: values(ds.distribute(connection, job=f"{{name}} {{NUMBER}}")) for name, ds in sets.items()}}
local = {{name: values(ds.iter()) for name, ds in sets.items()}}
print(json.dumps([ids, local, process, service]))
"""


def run(folder: Path, n: int, *arguments: str, before: str = "") -> list[dict]:
    for file, text in FILES.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(before + text.format(n=n))
    ways = {name: textwrap.dedent(code) for name, code in WAYS.items()}
    (folder / "train.py").write_text(SCRIPT.format(n=n, ways=ways))
    # The processes run in another folder than the script, so the modules next to it must travel.
    out = subprocess.run(
        [sys.executable, str(folder / "train.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_what_is_imported_late_is_in_the_name_and_travels(tmp_path, service):
    # The service gets one after the other, in the same processes; the folder and its cache are the same.
    for n in (7, 8):
        ids, local, process, on_service = run(tmp_path, n, service.address)
        assert local == {name: [n] for name in WAYS}
        assert on_service == {name: [n] for name in WAYS}
        assert process == ({name: [n] for name in WAYS} if n == 7 else {})
        if n == 7:
            first = ids
    assert [name for name in WAYS if ids[name] == first[name]] == []
    # The same code has the same name, on other lines and in another folder.
    (tmp_path / "other").mkdir()
    assert run(tmp_path / "other", 8, before="# A line more.\n\n")[0] == ids


def test_a_module_that_was_loaded_again_is_refused(tmp_path, monkeypatch):
    import importlib

    import forebay as fb

    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "loaded_again.py"
    file.write_text("def value():\n    return 1\n")

    def function(row):
        import loaded_again

        return {"y": loaded_again.value()}

    ds = fb.range(3).map(function)
    assert [int(row["y"]) for row in ds] == [1, 1, 1]
    file.write_text("def value():\n    return 1 + 1\n")
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.reload(sys.modules["loaded_again"])
    with pytest.raises(fb.errors.FunctionError, match="make the pipeline again"):
        list(ds)
    assert [int(row["y"]) for row in fb.range(3).map(function)] == [2, 2, 2]


def test_what_travels_is_the_users_alone():
    from forebay._src.functions import pickling

    def function(row):
        import json
        import sys

        import numpy.linalg
        import pytest

        return {"y": len(json.dumps([])) + len(sys.path) + numpy.linalg.norm([1]) + bool(pytest)}

    assert b"forebay._src.functions.shipping" not in pickling.dumps(function, "a function")[0]


def test_what_cannot_be_seen_has_a_version():
    import forebay as fb

    def function(row):
        return {"y": len(os.environ)}

    class Items:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> dict:
            return {"y": i}

    ds, schema = fb.range(3), {"y": "int64"}
    makes = {
        "map": lambda version: ds.map(function, schema=schema, version=version),
        "filter": lambda version: ds.filter(lambda row: bool(row), version=version),
        "items": lambda version: fb.from_map_dataset(Items(), schema=schema, version=version),
        "generator": lambda version: fb.from_generator(lambda: iter([{"y": 1}]), schema=schema, version=version),
    }
    for make in makes.values():
        ids = [make(version).dataset_id for version in (None, 1, "1", "2024-05")]
        assert len(set(ids)) == 4
        assert make("1").dataset_id == ids[2]
        for wrong in (True, 1.5, b"1"):
            with pytest.raises(fb.errors.InvalidPipelineError, match="version="):
                make(wrong)
