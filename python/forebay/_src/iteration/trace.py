"""A trace of a window of time, as a file that Perfetto and `chrome://tracing` open."""

from __future__ import annotations

import os
import tempfile
import warnings
from types import TracebackType

from forebay import _native
from forebay._src import arguments
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

#: The most spans of a trace, if the user sets no other bound: about 50 MB of file.
SPANS = 200_000


class Trace:
    """Records what happens to batches in this process, and on the workers from which they come.

    It is a context: recording begins at its start, and the file is written at its end, also after an error. One trace
    is recorded at a time. The rows of batches are the same with and without it.

    Attributes:
        path: The file.
        spans: The number of spans in it, once it is written.
        dropped: The number of later spans that are not in it.

    >>> import forebay as fb
    >>> import json, os, tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> with fb.trace(os.path.join(folder.name, "run.json")) as trace:
    ...     for batch in fb.range(1000).with_column("x", fb.col("id") * 2).batch(100):
    ...         pass
    >>> names = {event["name"] for event in json.loads(Path(trace.path).read_text())["traceEvents"]}
    >>> sorted(names & {"read", "with_column", "merge", "wait", "train"}), trace.dropped
    (['merge', 'read', 'train', 'wait', 'with_column'], 0)
    >>> folder.cleanup()
    """

    def __init__(self, path: arguments.PathLike, *, spans: int = SPANS) -> None:
        self.path = arguments.path(path, "trace")
        if "://" in self.path or not self.path:
            hint = 'give a path, such as "run.json"'
            raise InvalidPipelineError(f"trace: {self.path!r} is no file on this machine", {"hint": hint})
        self._most = arguments.whole(spans, "trace", "spans", 1, 2_000_000)
        self.spans = self.dropped = 0

    def __enter__(self) -> Trace:
        """Begins to record.

        Raises:
            InvalidPipelineError: Another trace is being recorded, or the folder cannot be written to.
        """
        try:
            # Now rather than after hours of training.
            self._file = tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=os.path.dirname(self.path) or ".", prefix=".forebay-trace-", delete=False
            )
        except OSError as error:
            message = f"trace: {self.path!r} cannot be written: {error.strerror}"
            raise InvalidPipelineError(message, {"hint": "name a file in a folder that exists"}) from None
        try:
            _native.trace_start(self._most, False)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the recording, and writes the file."""
        recorded = _native.trace_stop(f"trainer {os.getpid()}")
        if recorded is None:
            self._discard()
            return
        text, self.spans, self.dropped = recorded
        try:
            with self._file as file:
                file.write(text)
            os.replace(self._file.name, self.path)
        except BaseException:
            self._discard()
            raise
        if self.dropped:
            warnings.warn(
                f"the trace {self.path!r} has the first {self.spans} spans; {self.dropped} later ones were dropped: "
                "trace a shorter time, or set spans=",
                stacklevel=2,
            )

    def _discard(self) -> None:
        self._file.close()
        if os.path.exists(self._file.name):
            os.unlink(self._file.name)


@explained()
def trace(path: arguments.PathLike, *, spans: int = SPANS) -> Trace:
    """Records a trace while its context is open, and writes it to a file.

    Open the file at https://ui.perfetto.dev or `chrome://tracing`. For each chunk of rows it shows when it was read,
    when each op ran, on which thread of which process; for a job on a service also the lease, the wait for the worker
    and the transfer; and for each batch how long the loop waited and trained.

    Args:
        path: The file, on this machine. It is replaced.
        spans: The most spans to record; later ones are counted, and dropped with a warning. At most 2,000,000.

    >>> import forebay as fb
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, fb.trace(os.path.join(folder, "run.json")) as trace:
    ...     batches = list(fb.range(10).batch(5))
    >>> trace.spans > 4
    True
    """
    return Trace(path, spans=spans)
