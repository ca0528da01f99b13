"""Warns of an iteration whose files are not those of the iterations before it in this process.

Each iteration lists the files of its source, so files that come, go or grow between two epochs change the epochs that
follow. A job of a service and a saved state hold on to the files with which they began.
"""

from __future__ import annotations

import json

from forebay._src.site import warn

#: The most datasets that are remembered; the oldest is forgotten first.
_KNOWN_MAX = 1024
#: The bytes of all files, by the id of the dataset.
_bytes: dict[str, int] = {}


class FilesChangedWarning(UserWarning):
    """The files of a dataset changed between two iterations of one process, so the second one has other samples.

    `warnings.simplefilter("error", fb.FilesChangedWarning)` makes it an error.
    """


def note_files(dataset_id: str, position: str) -> None:
    """Notes the size of the files of an iteration, which is in its position. Warns if an earlier one had another."""
    now = json.loads(position).get("source", {}).get("bytes")
    if not isinstance(now, int):
        return
    before = _bytes.pop(dataset_id, now)
    if len(_bytes) >= _KNOWN_MAX:
        _bytes.pop(next(iter(_bytes)), None)
    _bytes[dataset_id] = now
    if now != before:
        warn(
            f"the files of this dataset changed since its last iteration: they had {before} bytes, and have {now} "
            "(each iteration lists them; name files that stay, or use a job of a service, which holds on to its files)",
            FilesChangedWarning,
        )
