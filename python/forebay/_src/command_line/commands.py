"""The commands of `forebay` that are written in Python: their options, and their exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

from forebay.errors import ForebayError

#: How commands describe their argument `file`.
SCRIPT_HELP = (
    "FILE: the datasets at the top level of this script; FILE:NAME: the dataset NAME, or the datasets that the "
    "function NAME returns"
)

#: Exit codes by the kind of an error, as of the other commands.
EXITS = {"unavailable": 3, "not_found": 4, "permission_denied": 4, "data": 5, "function": 6, "version": 7}


def parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Returns a parser with the help of a command."""
    return argparse.ArgumentParser(
        prog=f"forebay {name}",
        description=description,
        epilog="Examples:\n" + "\n".join(f"  {line}" for line in examples.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(command: Callable[[], int]) -> int:
    """Runs a command, and returns its exit code; an error of ours is a message on stderr."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except ForebayError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXITS.get(error.kind, 1)
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def info(arguments: list[str]) -> int:
    """Runs `forebay info`."""
    from forebay._src.command_line import info as info_

    of = parser(
        "info",
        "Show what a source holds: files, bytes, rows, and the statistics of its columns.\n"
        f"Reads the first {info_.ROWS} rows and says so.",
        "forebay info train.parquet\nforebay info 's3://bucket/shards/{000..127}.tar' --rows 500\n"
        "forebay info photos/ --json",
    )
    of.add_argument("source", help="a path, a pattern, a folder or a URL")
    of.add_argument("--format", help="the kind of source; found by names of files by default")
    of.add_argument("--columns", help="the columns to describe, with commas between them; all by default")
    of.add_argument("--rows", type=_positive, default=info_.ROWS, help="how many rows are read (default: %(default)s)")
    of.add_argument("--all", action="store_true", help="read all rows")
    of.add_argument("--count", action="store_true", help="count the rows of files without an index, by reading them")
    of.add_argument("--json", action="store_true", help="print JSON")
    given = of.parse_args(arguments)

    def command() -> int:
        columns = None if given.columns is None else given.columns.split(",")
        rows = None if given.all else given.rows
        try:
            found = info_.info(given.source, format=given.format, columns=columns, rows=rows, count=given.count)
        except ForebayError as error:
            # There is no script whose line could be at fault.
            raise type(error)(error.message, {k: v for k, v in error.context.items() if k != "line"}) from None
        print(found.to_json() if given.json else found)
        return 0

    return run(command)


def lint(arguments: list[str]) -> int:
    """Runs `forebay lint`."""
    from forebay._src.lint.lint import command

    of = parser(
        "lint",
        "Look for mistakes and for slow parts in the datasets at the top level of a Python script.\n"
        "Runs the script (not as __main__), calls its functions on the first samples, and measures for a second.",
        "forebay lint train.py\nforebay lint train.py --strict --json",
    )
    of.add_argument("file", help=SCRIPT_HELP)
    of.add_argument("--strict", action="store_true", help="exit with 1 also if there are warnings")
    of.add_argument("--no-run", action="store_true", help="compute no samples: only look at the ops")
    of.add_argument("--json", action="store_true", help="print JSON")
    given = of.parse_args(arguments)
    return run(lambda: command(given.file, given.strict, given.json, not given.no_run))


def preview(arguments: list[str]) -> int:
    """Runs `forebay preview`."""
    from forebay._src.preview.preview import preview

    of = parser(
        "preview",
        "Write an HTML page with the first samples before and behind each op of the datasets of a Python script.\n"
        "Runs the script, not as __main__. The page has no scripts and loads nothing.",
        "forebay preview train.py\nforebay preview train.py:train --epoch 3 --out train.html --png train.png",
    )
    of.add_argument("file", help=SCRIPT_HELP)
    of.add_argument("--out", default="preview.html", help="the page (default: %(default)s)")
    of.add_argument("--png", help="a contact sheet, too; needs Pillow")
    of.add_argument("--samples", type=_few, default=8, help="how many samples, 64 at most (default: %(default)s)")
    of.add_argument("--seed", type=int, default=0, help="the seed of random choices (default: %(default)s)")
    of.add_argument("--epoch", type=int, default=0, help="the epoch (default: %(default)s)")
    given = vars(of.parse_args(arguments))

    def command() -> int:
        try:
            preview(given.pop("file"), given["out"], **{name: of for name, of in given.items() if name != "out"})
        except OSError as error:
            if isinstance(error, ForebayError):
                raise
            print(f"error: {error.strerror}: {error.filename}", file=sys.stderr)
            return 4
        print(given["out"])
        return 0

    return run(command)


def _few(text: str) -> int:
    number = _positive(text)
    if number > 64:
        raise argparse.ArgumentTypeError("use 64 or fewer")
    return number


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number; use 1 or more") from None
    if number < 1:
        raise argparse.ArgumentTypeError("use 1 or more")
    return number


#: By name.
COMMANDS: dict[str, Callable[[list[str]], Any]] = {"info": info, "lint": lint, "preview": preview}
