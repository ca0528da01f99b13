"""The warning of an iteration over a dataset whose files are not those of the iterations before it.

Each iteration lists the files of its source on a disk, so files that come, go or grow between two epochs change the
epochs that follow. A job of a service and a saved state hold on to the files with which they began. A dataset that is
made anew has no earlier iterations.
"""

from __future__ import annotations

from forebay._src.site import warn


class FilesChangedWarning(UserWarning):
    """The files of a dataset changed between two of its iterations, so the second one has other samples.

    `warnings.simplefilter("error", fb.FilesChangedWarning)` makes it an error.
    """


def warn_of_bytes(before: int, now: int) -> None:
    """Warns that the bytes of all files changed; the native module calls it."""
    warn(
        f"the files of this dataset changed since its last iteration: they had {before} bytes, and have {now} "
        "(each iteration lists them; name files that stay, or use a job of a service, which holds on to its files)",
        FilesChangedWarning,
    )
