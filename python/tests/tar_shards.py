"""Tar shards whose samples differ in length."""

from __future__ import annotations

import io
import tarfile


def tar(ids: range, folder: str = "") -> bytes:
    """Returns an archive of two members for each id: its digits, and up to 3,000 zeros."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            if folder:
                entry = tarfile.TarInfo(folder)
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            for i in ids:
                for suffix, data in (("id", str(i).encode()), ("bin", bytes(i * 37 % 3000))):
                    info = tarfile.TarInfo(f"{folder}/{i:06}.{suffix}".removeprefix("/"))
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        return file.getvalue()
