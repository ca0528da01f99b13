"""What can go wrong, by what its reader must do about it.

Every exception of Forebay is a `ForebayError`. Its class is its kind; `message` says what happened, `context` where
(file, offset, sample, op, the line of your code), and `hint` what to do.

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
        kind: What kind it is, as the service and the command line name it.
        message: What happened, in one line.
        context: Where: `op`, `line`, `file`, `offset`, `sample`, `traceback` and so on, as far as known.
    """

    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, context: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.context: Mapping[str, str] = MappingProxyType(dict(context or {}))

    @property
    def hint(self) -> str | None:
        """What to do about it, if something can be said."""
        return self.context.get("hint")

    def __str__(self) -> str:
        """The message, then a line for each piece of context."""
        lines = [self.message]
        # Whose fault it is decides what becomes of it; it is not news for a reader.
        for key, value in ((k, v) for k, v in self.context.items() if k != "fault"):
            if "\n" in value:
                lines += [f"  {key}:", *(f"    {line}" for line in value.rstrip().split("\n"))]
            else:
                lines.append(f"  {key}: {value}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[ForebayError], tuple[str, dict[str, str]]]:
        """Errors cross processes."""
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
    """Pick another name, or end what holds it."""

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
    """Retry, or start what does not answer."""

    kind = "unavailable"


class ExhaustedError(ForebayError, MemoryError):
    """Ask for less, or allow more."""

    kind = "exhausted"


class VersionMismatchError(ForebayError):
    """Install the same version on both sides."""

    kind = "version"


class ClosedError(ForebayError):
    """What was asked for has ended: the job is finished, or the iterator or the service was closed."""

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
    """Makes the exception of a kind; the native module calls this."""
    fields = dict(context)
    # A column, or a member of a tar file, may be what is missing from a file that is there.
    if kind == "not_found" and "file" in fields and not {"columns", "extensions"} & fields.keys():
        return MissingFileError(message, fields)
    return _KINDS.get(kind, InternalError)(message, fields)
