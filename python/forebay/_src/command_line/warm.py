"""`forebay cache warm`: computes the cached rows of a script's datasets before a job needs them.

A name of cached rows includes the ops that compute them, and a function by its code and its module. So the script must
be `__main__` here, too, and its code under `if __name__ == "__main__":` must be left out.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import types
from typing import Any

from forebay import _native
from forebay._src.dataset import Dataset
from forebay.errors import InvalidPipelineError

#: The environment variables that open the cache of this process, by option.
_VARIABLES = {
    "cache": "FOREBAY_CACHE",
    "memory": "FOREBAY_CACHE_MEMORY",
    "disk": "FOREBAY_CACHE_DISK",
    "store": "FOREBAY_CACHE_STORE",
}


def warm(options: str, file: str | os.PathLike[str]) -> str:
    """Computes rows, and returns the result for each dataset. The command calls this; both sides use JSON."""
    from forebay._src.command_line.cli import as_script, named_datasets, script_and_name, top_level_datasets

    wanted = json.loads(options)
    for option, variable in _VARIABLES.items():
        if wanted[option] is not None:
            os.environ[variable] = str(wanted[option])
    path, chosen = script_and_name(os.fspath(file))
    path = as_script(path, [])
    names = _defined(path)
    found = named_datasets(path, names, chosen) if chosen else top_level_datasets(names)
    caches = {name: ds._pipeline.kept() for name, ds in found.items()}
    kept = {name: pipeline for name, pipeline in caches.items() if pipeline is not None}
    if not kept:
        raise InvalidPipelineError(
            f"{', '.join(found) or path} keeps nothing",
            {"hint": "write .cache() behind the ops that should run once"},
        )
    return json.dumps([_compute(name, pipeline, wanted) for name, pipeline in kept.items()])


def _defined(path: str) -> dict[str, Any]:
    """Returns the names at the top level of a script, as `python script` defines them, without its main part."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    tree.body = [node for node in tree.body if not _is_main_part(node)]
    main = types.ModuleType("__main__")
    main.__package__ = None
    main.__file__ = path
    # It stays, because functions look up their globals in it when they are called.
    sys.modules["__main__"] = main
    exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)
    return vars(main)


def _is_main_part(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') in (
        '__name__ == "__main__"',
        '"__main__" == __name__',
    )


def _compute(name: str, pipeline: _native.Pipeline, wanted: dict[str, Any]) -> dict[str, Any]:
    """Runs one pipeline over all its rows. Rows that fail are not cached, and raise no error here."""
    progress = _native.Progress(f"keeping {name}")
    it = Dataset(pipeline).iter(
        seed=wanted["seed"], epoch=0, threads=wanted["threads"], consumers=(0, 1), on_error="skip", error_budget=1.0
    )
    try:
        rows = 0
        for done, _ in enumerate(it):
            rows = rows or it.stats()["cache"]["rows"]["all"]
            progress.show(done, rows)
            # A store may be slower than the ops: rows that find its queue full would not be cached.
            _native.ease_cache()
        _native.flush_cache()
        said = it.stats()["cache"]["rows"]
    finally:
        progress.end()
        it.close()
    skipped = len(it.skipped)
    return {
        "dataset": name,
        "rows": said["all"],
        "computed": said["computed"],
        "on_disk": said["on_disk"],
        "in_store": said["in_store"],
        "failed": skipped,
    }
