"""The `forebay` command."""

from __future__ import annotations

import argparse
import inspect
import json as json_
import os
import runpy
import signal
import sys
from typing import TYPE_CHECKING

import forebay
from forebay import _native
from forebay._src.command_line.commands import COMMANDS, EXITS, SCRIPT_HELP
from forebay.errors import ForebayError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from forebay._src.dataset import Dataset


def main() -> None:
    """Runs the command line and exits with its code."""
    # Ctrl-C ends the command as it ends others; in a script that the command runs, Python raises KeyboardInterrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:2] == ["quality"]:
        sys.exit(quality(sys.argv[2:]))
    if sys.argv[1:2] == ["cluster"]:
        sys.exit(cluster(sys.argv[2:]))
    name = "".join(sys.argv[1:2])
    if name.endswith(".py"):
        print(f"error: {name!r} is a script, and not a command", file=sys.stderr)
        print(f"  hint: run it with python {name}, or with forebay run {name}", file=sys.stderr)
        sys.exit(2)
    if command := COMMANDS.get(name):
        sys.excepthook = show_script_error
        sys.exit(command(sys.argv[2:]))
    sys.exit(_native.cli_main(sys.argv[1:]))


def run_file(file: os.PathLike[str], arguments: list[str], service: str | None) -> int:
    """Runs a script as `__main__`, with the service's address in `FOREBAY_SERVICE`. The command calls this."""
    if service is not None:
        os.environ["FOREBAY_SERVICE"] = service
    path = as_script(file, arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as exit_:
        return _code(exit_.code)
    except KeyboardInterrupt:
        return 130
    return 0


def datasets_of(file: str | os.PathLike[str], method: str) -> dict[str, Dataset]:
    """Runs a script and returns its datasets, by name.

    `FILE` stands for the datasets at the script's top level. `FILE:NAME` stands for one of them, or for what the
    function `NAME` of the script returns: a dataset, or a list, tuple or dict of datasets. If there is none, the
    error's hint names `method`.
    """
    path, wanted = script_and_name(os.fspath(file))
    path = as_script(path, [])
    try:
        names = runpy.run_path(path, run_name=f"__forebay_{method}__")
    except SystemExit as exit_:
        raise NotFoundError(
            f"{path!r} ended by sys.exit({exit_.code!r}) before its datasets could be read",
            {"hint": "put the call under `if __name__ == '__main__':`, or in a function"},
        ) from None
    if wanted is not None:
        return named_datasets(path, names, wanted)
    found = top_level_datasets(names)
    if not found:
        raise NotFoundError(
            f"{path!r} defines no dataset at its top level",
            {
                "hint": f"name a function that returns one ({path}:FUNCTION), assign one to a variable outside of "
                f"functions, or print(ds.{method}()) in the script"
            },
        )
    return found


def script_and_name(file: str) -> tuple[str, str | None]:
    """Divides `FILE:NAME`."""
    path, colon, name = file.rpartition(":")
    return (path, name) if colon and name.isidentifier() and not os.path.isfile(file) else (file, None)


def top_level_datasets(names: dict[str, object]) -> dict[str, Dataset]:
    """Returns the datasets that the top level of a script defines, by name.

    A dataset whose name begins with an underscore is left out.
    """
    from forebay._src.dataset import Dataset

    return {name: value for name, value in names.items() if isinstance(value, Dataset) and not name.startswith("_")}


def named_datasets(path: str, names: dict[str, object], wanted: str) -> dict[str, Dataset]:
    """Returns the datasets that `wanted` stands for, by name: a dataset of the script, or the result of a function."""
    from forebay._src.dataset import Dataset

    if wanted not in names:
        usable = [
            name
            for name, value in names.items()
            if not name.startswith("_") and (isinstance(value, Dataset) or _is_function(path, value))
        ]
        hint = f"it has {', '.join(usable)}" if usable else "it has no functions, and no datasets at its top level"
        raise NotFoundError(f"{path!r} defines no {wanted!r}", {"hint": hint})
    value, what = names[wanted], f"{wanted!r} of {path!r}"
    if inspect.isfunction(value):
        value, what = _call(value, what), f"what {what} returns"
    members: dict[str, object] = {wanted: value}
    if isinstance(value, dict):
        members = {f"{wanted}[{key!r}]": member for key, member in value.items()}
    elif isinstance(value, (list, tuple)):
        members = {f"{wanted}[{number}]": member for number, member in enumerate(value)}
    found = {name: member for name, member in members.items() if isinstance(member, Dataset)}
    if not found:
        message = f"{what} is no dataset, but {type(value).__name__}"
        raise NotFoundError(message, {"hint": "name a dataset, or a function that returns datasets"})
    return found


def _call(function: Callable[..., object], what: str) -> object:
    """Calls a function without arguments."""
    needed = [
        parameter.name for parameter in inspect.signature(function).parameters.values() if _is_required(parameter)
    ]
    if needed:
        raise NotFoundError(
            f"{what} cannot be called without {', '.join(needed)}",
            {"hint": "give each argument a default, or name a function without arguments that calls it"},
        )
    return function()


def _is_function(path: str, value: object) -> bool:
    """Returns whether a script defines this function."""
    return inspect.isfunction(value) and value.__code__.co_filename == path


def _is_required(parameter: inspect.Parameter) -> bool:
    is_one = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return is_one and parameter.default is inspect.Parameter.empty


def show_script_error(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Prints an error of a user's script without the frames that lead to the script."""
    own = (os.path.dirname(forebay.__file__), runpy.__file__, "<frozen runpy>")
    # The first frame is the command itself.
    at = traceback and traceback.tb_next
    while at is not None and at.tb_frame.f_code.co_filename.startswith(own):
        at = at.tb_next
    sys.__excepthook__(kind, error.with_traceback(at), at)


def explain_file(file: os.PathLike[str], splits: bool, json: bool) -> str:
    """Returns the explanations of all datasets that a script defines at its top level. The command calls this."""
    found = datasets_of(file, "explain")
    if json:
        return json_.dumps({name: json_.loads(ds._pipeline.to_json()) for name, ds in found.items()}, indent=2)
    return "\n".join(f"{name}\n{'-' * len(name)}\n{ds.explain(splits=splits)}" for name, ds in found.items())


def quality(arguments: list[str]) -> int:
    """Runs `forebay quality`, and returns its exit code."""
    from forebay._src.command_line.quality import quality_file

    parser = argparse.ArgumentParser(
        prog="forebay quality",
        description="Measure how well the datasets of a Python script are shuffled. Reads their sources twice.",
        epilog="Examples:\n  forebay quality train.py\n  forebay quality train.py --label cls --batches 1000",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help=SCRIPT_HELP)
    parser.add_argument("--label", help="a column of the source: how long runs of the same value are")
    parser.add_argument("--id", help="a column of the source that tells rows apart")
    parser.add_argument("--batch", type=int, help="rows of a batch; those of the pipeline by default")
    parser.add_argument("--batches", type=int, help="how many batches of the shuffled epoch are read; all by default")
    parser.add_argument("--seed", type=int, default=0, help="what the order follows from")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = vars(parser.parse_args(arguments))
    try:
        print(quality_file(given.pop("file"), given.pop("json"), **given))
    except ForebayError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXITS.get(error.kind, 1)
    return 0


def cluster(arguments: list[str]) -> int:
    """Runs `forebay cluster`, and returns its exit code."""
    from forebay._src.cluster import command

    try:
        return command.run(arguments)
    except ForebayError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXITS.get(error.kind, 1)


def as_script(file: str | os.PathLike[str], arguments: list[str]) -> str:
    """Sets `sys.argv` and `sys.path` as if Python ran the script, and returns its path."""
    path = os.fspath(file)
    if not os.path.isfile(path):
        whole, name = script_and_name(path)
        hint = f"this command runs the whole script: {whole}" if name and os.path.isfile(whole) else ""
        raise NotFoundError(f"there is no script {path!r}", {"hint": hint or "give the path of a python file"})
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    return path


def _code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1
