"""Oversized data is refused by its declared size, before memory is allocated for it."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import tarfile
import textwrap
import zlib

import forebay as fb
import numpy as np
import pytest
import zstandard
from pictures import encoded, picture

E = fb.errors
GIB = 1 << 30
#: The memory that a refusal may use beyond that of an interpreter with NumPy.
ROOM = 192 << 20


def png(width: int, height: int) -> bytes:
    """Returns a PNG that declares this size, and whose pixels are many zeros in as few bytes as zlib can make."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes(1 << 20), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    data = encoded(picture(1, 16, 16), "JPEG")
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def webp(width: int, height: int) -> bytes:
    data = encoded(picture(1, 16, 16), "WEBP")[12:]
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def bombs(root) -> dict[str, str]:
    """Returns files, and the reader of each."""
    for name, data in {"png": png(60_000, 60_000), "jpg": jpeg(60_000, 60_000), "webp": webp(16_384, 16_384)}.items():
        (root / f"bomb.{name}").write_bytes(data)
    with open(root / "long.tfrecord", "wb") as file:
        file.write(struct.pack("<QI", 3 * GIB, 0))
        file.truncate(4 * GIB)
    member = tarfile.TarInfo("0.bin")
    member.size = 3 * GIB
    with open(root / "long.tar", "wb") as file:
        file.write(member.tobuf(tarfile.USTAR_FORMAT))
        file.truncate(4 * GIB)
    for name in ("long.txt", "long.bin"):
        with open(root / name, "wb") as file:
            file.truncate(4 * GIB)
    zeros = bytes(64 << 20)
    (root / "long.gz").write_bytes(gzip.compress(zeros, 1))
    (root / "long.zst").write_bytes(zstandard.compress(zeros, 1))
    many = "".join(f'"{i}":0,' for i in range(100_000)).rstrip(",")
    (root / "wide.jsonl").write_text("{" + many + "}\n")
    (root / "deep.jsonl").write_text('{"' + "k" * (1 << 20) + '":{' + many + "}}\n")
    (root / "nested.jsonl").write_text('{"a":' * 100_000 + "1" + "}" * 100_000 + "\n")
    return {
        **{f"bomb.{kind}": "fb.from_files(path).decode_image('bytes')" for kind in ("png", "jpg", "webp")},
        "long.tfrecord": "fb.from_tfrecord(path, verify=False)",
        "long.tar": "fb.from_tar(path)",
        **{f"long.{kind}": "fb.from_text(path)" for kind in ("txt", "gz", "zst")},
        "long.bin": "fb.from_files(path)",
        **{f"{name}.jsonl": "fb.from_jsonl(path)" for name in ("wide", "deep", "nested")},
    }


READER = """
    import json, resource, sys
    import forebay as fb
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for path, expression in json.load(sys.stdin):
        before = peak()
        for shuffled in (False, True):
            try:
                ds = eval(expression)
                for _ in ds.shuffle() if shuffled else ds:
                    pass
                print(json.dumps([path, "it was read", {}, 0]))
            except fb.errors.ForebayError as error:
                said = type(error).__name__ + ": " + error.message
                print(json.dumps([path, said, dict(error.context), peak() - before]))
"""


def test_bombs_are_refused_with_what_to_do_and_take_no_memory(tmp_path):
    cases = [(str(tmp_path / name), expression) for name, expression in bombs(tmp_path).items()]
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READER)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
        env={"FOREBAY_RECORD_BYTES_MAX": str(32 << 20), "PATH": "/usr/bin", "FOREBAY_CACHE": str(tmp_path / "cache")},
    )
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(lines) == 2 * len(cases)
    for path, message, context, taken in lines:
        assert message.startswith(("ExhaustedError", "DataError")), (path, message)
        assert taken < ROOM, (path, message, taken)
        if "long." in path:
            assert "limit of 33554432" in message
            assert "FOREBAY_RECORD_BYTES_MAX" in context["hint"]
            assert context["file"] == path


def test_what_the_default_limit_allows_is_read(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(40 << 20))
    (batch,) = fb.from_files(tmp_path / "a.bin").batch(1)
    assert len(batch["bytes"][0]) == 40 << 20


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_found_where_they_are(dtype, value):
    rows, shape = 300, (2, 3)
    x = np.random.default_rng(0).standard_normal((rows, *shape)).astype(dtype)
    ds = fb.from_numpy({"x": x, "n": np.arange(rows)})
    clean = [batch["x"] for batch in ds.batch(32)]
    for a, b in zip(ds.check_finite().batch(32), clean, strict=True):
        np.testing.assert_array_equal(a["x"], b)
    x[217, 1, 2] = value
    spoiled = fb.from_numpy({"x": x, "n": np.arange(rows)})
    for checked in (spoiled.check_finite("x"), spoiled.batch(32).check_finite()):
        with pytest.raises(E.DataError, match="which is not finite") as caught:
            list(checked)
        context = caught.value.context
        assert (context["sample"], context["column"], context["index"]) == ("row 217", "x", "[1, 2]")
        assert "test_limits.py" in context["line"]


def test_lists_of_any_length_are_looked_at_and_integers_need_not_be():
    ds = fb.from_dict({"x": [0.5, 1.5, float("inf")], "n": [1, None, 3]})
    with pytest.raises(E.DataError) as caught:
        list(ds.check_finite())
    assert caught.value.context["sample"] == "row 2"
    assert len(list(ds.take(2).check_finite())) == 2
    with pytest.raises(E.InvalidPipelineError, match="no floating-point numbers"):
        ds.check_finite("n")
    with pytest.raises(E.InvalidPipelineError, match="no column of floating-point"):
        ds.select("n").check_finite()
    ragged = fb.from_generator(
        lambda: iter([{"r": np.float32([1, 2])}, {"r": np.float32([3, np.nan, 5])}]), schema={"r": ("float32", (None,))}
    )
    with pytest.raises(E.DataError) as caught:
        list(ragged.check_finite())
    assert (caught.value.context["sample"], caught.value.context["index"]) == ("row 1", "[1]")
