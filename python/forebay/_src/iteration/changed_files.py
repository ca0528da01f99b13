"""The warning of an iteration over a dataset whose files are not those of the iterations before it.

Each iteration in process lists the files of its source on a disk, and so does each new job of a service. Files that
come, go or grow between two of them change the epochs that follow. A job and a saved state hold on to the files with
which they began. A dataset that is
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
        "(each iteration in this process and each new job lists them; name files that stay)",
        FilesChangedWarning,
    )
