"""Dead letters: a file of the samples that were left out, with the data that a retry needs.

A file is JSON lines. The first describes the pipeline (`graph`, the pickles of its functions, `seed`); each other line
is one sample: its name, its error, and its record, an Arrow IPC stream of one row (base64), which any Arrow library
reads. A sample that could not be read at all has no record; its error names the file and the place.
"""

from __future__ import annotations

import base64
import errno
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forebay import _native, errors
from forebay.errors import ForebayError, InvalidPipelineError

#: A file does not grow beyond this: later samples are written without their records.
FILE_BYTES_MAX = 1 << 30
#: Files of another format are refused.
FORMAT = 1

Loss = tuple[int, int, int, int, Any, "bytes | None"]


class DeadLetters:
    """The file that one iterator writes, from the first sample on. A resumed run appends to it."""

    def __init__(self, path: str, pipeline: _native.Pipeline, seed: int) -> None:
        self.path, self._pipeline, self._seed = path, pipeline, seed
        self._known: set[tuple[int, int, int]] | None = None

    def add(self, losses: Iterable[Loss]) -> None:
        """Writes samples that the file does not have yet; they are on disk when it returns.

        Raises:
            ForebayError: The file cannot be written; then it has none of these samples.
        """
        try:
            known = self._open() if self._known is None else self._known
            self._known = known
            written = set()
            with open(self.path, "ab", buffering=0) as file, _whole_or_nothing(file) as size:
                for loss in losses:
                    key = (loss[0], loss[2], loss[3])
                    if key not in known and key not in written:
                        written.add(key)
                        size += _write_all(file, _line_of(loss, size))
                os.fsync(file.fileno())
            known |= written
        except OSError as error:
            raise _cannot_write(self.path, error) from None

    def _open(self) -> set[tuple[int, int, int]]:
        head = {
            "forebay_quarantine": FORMAT,
            "dataset": self._pipeline.dataset_id,
            "seed": self._seed,
            "graph": json.loads(self._pipeline.to_json()),
            "blobs": {name: base64.b64encode(blob).decode() for name, blob in self._pipeline.op_blobs()},
        }
        if os.path.exists(self.path) and os.path.getsize(self.path):
            found, letters = read(self.path)
            for key in ("dataset", "seed"):
                if found[key] != head[key]:
                    raise errors.ConflictError(
                        f"the quarantine file is of another {key}",
                        {"file": self.path, "hint": "give quarantine= another path, or move the file away"},
                    )
            known = {(e["epoch"], e["number"], e["repetition"]) for e in letters}
            _cut_last_line(self.path)
            return known
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "wb", buffering=0, opener=_private) as file, _whole_or_nothing(file):
            _write_all(file, json.dumps(head).encode() + b"\n")
        return set()


@contextmanager
def _whole_or_nothing(file: io.FileIO) -> Iterator[int]:
    """Yields the length of a file, and cuts the file to it if a write within the context fails."""
    start = file.seek(0, os.SEEK_END)
    try:
        yield start
    except BaseException:
        with suppress(OSError):
            file.truncate(start)
        raise


def _line_of(loss: Loss, at: int) -> bytes:
    """Returns the line of a sample, which begins at byte `at` of its file."""
    epoch, split, number, repetition, error, record = loss
    if record is not None and at + len(record) * 4 // 3 > FILE_BYTES_MAX:
        record = None
    letter = {
        "epoch": epoch,
        "split": split,
        "sample": error.context.get("sample", "?"),
        "number": number,
        "repetition": repetition,
        "op": error.context.get("op"),
        "kind": error.kind,
        "error": error.message,
        "context": dict(error.context),
        "record": None if record is None else base64.b64encode(record).decode(),
    }
    return json.dumps(letter).encode() + b"\n"


def _write_all(file: io.FileIO, line: bytes) -> int:
    """Writes a line and returns its length; a full disk may accept a part of it before it refuses the rest."""
    left = memoryview(line)
    while left:
        left = left[file.write(left) :]
    return len(line)


def _cut_last_line(path: str) -> None:
    """Removes a last line without an end, which a writer left when it died."""
    with open(path, "rb+") as file:
        whole = size = file.seek(0, os.SEEK_END)
        while whole:
            start = max(whole - (1 << 16), 0)
            file.seek(start)
            if (end := file.read(whole - start).rfind(b"\n")) >= 0:
                whole = start + end + 1
                break
            whole = start
        if whole < size:
            file.truncate(whole)


def _cannot_write(path: str, error: OSError) -> ForebayError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    kind: type[ForebayError] = errors.ExhaustedError if full else errors.UnavailableError
    kind = errors.PermissionDeniedError if isinstance(error, PermissionError) else kind
    hint = "make room" if full else "make it writable"
    hint += ", or give quarantine= another path; the iterator's next call tries again and loses no batch"
    return kind(f"cannot write the quarantine file: {error.strerror}", {"file": path, "hint": hint})


def _private(path: str, flags: int) -> int:
    """Opens a file; a new one is for this user alone, because it has records as they were read."""
    return os.open(path, flags, 0o600)


def read(path: str) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Returns a file's description of its pipeline, and its samples. A last line that was cut off is left out.

    Raises:
        ForebayError: There is no such file, or it is of another kind.
    """
    try:
        with open(path, encoding="utf-8") as file:
            head = json.loads(file.readline())
        known = head["forebay_quarantine"] == FORMAT
    except FileNotFoundError:
        raise errors.MissingFileError("there is no such file", {"file": path}) from None
    except (ValueError, KeyError, TypeError):
        raise errors.DataError("this is no quarantine file", {"file": path}) from None
    if not known:
        raise errors.VersionMismatchError("the quarantine file was written by another version", {"file": path})

    def letters() -> Iterator[dict[str, Any]]:
        with open(path, encoding="utf-8") as file:
            next(file)
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)

    return head, letters()


def command(action: str, paths: list[str], sample: str | None, as_json: bool) -> tuple[str, int]:
    """Runs `forebay quarantine`: returns its output and its exit code (1: samples still fail)."""
    paths = paths or sorted(str(p) for p in Path().glob("quarantine-*.jsonl"))
    if not paths:
        raise InvalidPipelineError("no quarantine file was named, and none is here", {"hint": "name one"})
    found = [(path, head, e) for path in paths for head, all_of in [read(path)] for e in all_of if _is(e, sample)]
    if sample is not None and not found:
        raise errors.NotFoundError(f"no sample {sample!r} is in quarantine", {"hint": "see `forebay quarantine ls`"})
    if action == "retry":
        rows = [{**_line(path, e), **_retry(head, e)} for path, head, e in found]
        failed = sum(row["passes"] is not True for row in rows)
        return (json.dumps(rows, indent=2) if as_json else _verdicts(rows)), int(failed > 0)
    if action == "show":
        shown = [{**_line(path, e), "context": e["context"], "record": _columns(head, e)} for path, head, e in found]
        return (json.dumps(shown, indent=2) if as_json else "\n\n".join(map(_show, shown))), 0
    lines = [_line(path, e) for path, _, e in found]
    return (json.dumps(lines, indent=2) if as_json else _table(lines)), 0


def _is(letter: dict[str, Any], sample: str | None) -> bool:
    return sample is None or sample in (letter["sample"], str(letter["number"]))


def _line(path: str, letter: dict[str, Any]) -> dict[str, Any]:
    record = letter["record"]
    kept = {"bytes": None if record is None else len(record) * 3 // 4}
    return {"file": path, **{k: letter[k] for k in ("sample", "epoch", "split", "op", "kind", "error")}, **kept}


def _retry(head: dict[str, Any], letter: dict[str, Any]) -> dict[str, Any]:
    if letter["record"] is None:
        return {"passes": None, "now": "its record was not kept: read its file again"}
    blobs = {name: base64.b64decode(blob) for name, blob in head["blobs"].items()}
    try:
        record, part = base64.b64decode(letter["record"]), letter["context"].get("part")
        _native.retry(json.dumps(head["graph"]), blobs, head["seed"], record, part)
    except ForebayError as error:
        return {"passes": False, "now": str(error)}
    return {"passes": True, "now": None}


def _columns(head: dict[str, Any], letter: dict[str, Any]) -> dict[str, str] | None:
    """Returns the columns of a record, shortened, for display."""
    if letter["record"] is None:
        return None
    part = letter["context"].get("part")
    row = _native.record_row(json.dumps(head["graph"]), base64.b64decode(letter["record"]), part)
    return {name: _short(value) for name, value in row.items()}


def _short(value: Any) -> str:
    size = f" ({len(value)} bytes)" if isinstance(value, bytes) else ""
    text = repr(value.item() if hasattr(value, "item") and value.ndim == 0 else value)
    return f"{text if len(text) <= 72 else text[:64] + '…'}{size}"


def _table(lines: list[dict[str, Any]]) -> str:
    rows = [["SAMPLE", "EPOCH", "OP", "ERROR"]]
    rows += [[e["sample"], str(e["epoch"]), e["op"] or "(reading)", e["error"].splitlines()[0]] for e in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]]) for row in rows)


def _show(shown: dict[str, Any]) -> str:
    text = [f"{shown['sample']} of epoch {shown['epoch']}, split {shown['split']}  ({shown['file']})"]
    text.append(str(_error(shown)))
    for name, value in (shown["record"] or {"(record)": "was not kept"}).items():
        text.append(f"  {name} = {value}")
    return "\n".join(text)


def _error(shown: dict[str, Any]) -> ForebayError:
    return errors._make(shown["kind"], shown["error"], list(shown["context"].items()))


def _verdicts(rows: list[dict[str, Any]]) -> str:
    said = {True: "passes now", False: "still fails", None: "cannot be tried"}
    lines = []
    for row in rows:
        why = "" if row["passes"] else f": {row['now'].splitlines()[0]}"
        lines.append(f"{row['sample']}  {said[row['passes']]}{why}")
    passed = sum(row["passes"] is True for row in rows)
    return "\n".join([*lines, f"{passed} of {len(rows)} pass now"])
