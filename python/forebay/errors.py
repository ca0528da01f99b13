"""All exceptions, by the action that the reader can take.

Every exception of Forebay is a `ForebayError`. Its class is its kind; `message` describes the event, `context` the
place (file, offset, sample, op, the line of your code), and `hint` the action to take.

    >>> import forebay as fb
    >>> try:
    ...     fb.range(3).select("di")
    ... except fb.errors.NotFoundError as error:
    ...     print(error.message)
    ...     print(error.hint)
    there is no column "di"
    did you mean "id"?
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

__all__ = [
    "ForebayError",
    "InvalidPipelineError",
    "NotFoundError",
    "PermissionDeniedError",
    "ConflictError",
    "DataError",
    "FunctionError",
    "UnavailableError",
    "ExhaustedError",
    "VersionMismatchError",
    "ClosedError",
    "InternalError",
]


class ForebayError(Exception):
    """The base of every exception of Forebay.

    Attributes:
        kind: Its kind, in the names of the service and the command line.
        message: The event, in one line.
        context: The place: `op`, `line`, `file`, `offset`, `sample`, `traceback` and so on, as far as known.
    """

    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, context: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.context: Mapping[str, str] = MappingProxyType(dict(context or {}))

    @property
    def hint(self) -> str | None:
        """The action to take, if one is known."""
        return self.context.get("hint")

    def __str__(self) -> str:
        """The message, then a line for each entry of the context."""
        lines = [self.message]
        # The cause decides how the error is handled, and tells a reader nothing new.
        for key, value in ((k, v) for k, v in self.context.items() if k != "fault"):
            if "\n" in value:
                lines += [f"  {key}:", *(f"    {line}" for line in value.rstrip().split("\n"))]
            else:
                lines.append(f"  {key}: {value}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[ForebayError], tuple[str, dict[str, str]]]:
        """Reduces the error, so that it can be pickled to other processes."""
        return type(self), (self.message, dict(self.context))


class InvalidPipelineError(ForebayError, ValueError):
    """Fix the pipeline or the argument."""

    kind = "invalid"


class NotFoundError(ForebayError, LookupError):
    """Fix the name or path: it does not exist."""

    kind = "not_found"


class MissingFileError(NotFoundError, FileNotFoundError):
    """Fix the path: no file is there. It is a `NotFoundError` and a `FileNotFoundError`."""


class PermissionDeniedError(ForebayError, PermissionError):
    """Get permission: to read it, or to use the service."""

    kind = "permission_denied"


class ConflictError(ForebayError):
    """Pick another name, or end the process that holds it."""

    kind = "conflict"


class DataError(ForebayError):
    """Fix the data: it is corrupt, or changed under the job."""

    kind = "data"


class FunctionError(ForebayError):
    """Fix your function: it raised, returned the wrong thing, died or never returned."""

    kind = "function"

    @property
    def traceback(self) -> str | None:
        """The frames of your own code, when it raised."""
        return self.context.get("traceback")


class UnavailableError(ForebayError, ConnectionError):
    """Retry, or start the service that does not answer."""

    kind = "unavailable"


class ExhaustedError(ForebayError, MemoryError):
    """Request less, or allow more."""

    kind = "exhausted"


class VersionMismatchError(ForebayError):
    """Install the same version on both sides."""

    kind = "version"


class ClosedError(ForebayError):
    """The job is finished, or the iterator or the service was closed."""

    kind = "closed"


class InternalError(ForebayError, RuntimeError):
    """Report a bug."""

    kind = "internal"


_KINDS: dict[str, type[ForebayError]] = {
    error.kind: error
    for error in (
        InvalidPipelineError,
        NotFoundError,
        PermissionDeniedError,
        ConflictError,
        DataError,
        FunctionError,
        UnavailableError,
        ExhaustedError,
        VersionMismatchError,
        ClosedError,
        InternalError,
    )
}


def _make(kind: str, message: str, context: list[tuple[str, str]]) -> ForebayError:
    """Returns the exception of a kind; the native module calls this."""
    fields = dict(context)
    # In a file that exists, a column or a member of a tar file may be missing, which is no missing file.
    if kind == "not_found" and "file" in fields and not {"columns", "extensions"} & fields.keys():
        return MissingFileError(message, fields)
    return _KINDS.get(kind, InternalError)(message, fields)
