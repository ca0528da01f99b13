"""JSON as a source: objects on lines of their own, and those in an array of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay._src import arguments
from forebay._src.arguments import Paths
from forebay._src.dataset import Dataset
from forebay._src.schema import to_fields
from forebay._src.sources.file_sources import _files
from forebay._src.usage import COMPRESSION, CREDENTIALS, READERS, explained
from forebay.errors import DataError


@explained(
    'from_jsonl(paths, schema={"x": "int64?"}) reads these fields',
    **READERS,
    columns='write schema={"x": "int64?"}, or put .select("x") behind it',
    compression_type=COMPRESSION,
    data_files="name the files first: from_jsonl(paths)",
    field='of one JSON document, from_json(paths, field="data"); nested fields are columns: .select("data.x")',
    lines="leave it out: each line is an object",
    storage_options=CREDENTIALS,
)
def from_jsonl(paths: Paths, *, schema: Mapping[str, Any] | None = None) -> Dataset:
    """JSON objects, one on each line; nested fields have dotted names. Blank lines at the end are no rows.

    Files may be compressed with gzip, zstd, bzip2 or xz.

    Args:
        paths: The files.
        schema: The fields to read: `{"name": dtype}` or `{"name": (dtype, shape)}`. `"int64?"` may be missing, and
            `("int64?", [None])` is an empty list if a line has none. A `"string"` is a text as it is, and any other
            value as its JSON text. Default: the fields of the first 100 lines, or of up to 10,000 lines (4 MiB) while a
            field has only nulls and empty lists; a list of numbers that some of them lack is read as text.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.jsonl").write_text('{"n": 1, "more": {"x": [0]}}')
    ...     ds = from_jsonl(folder + "/*.jsonl", schema={"n": "float32", "more": "string", "of": "int64?"})
    ...     [dict(row) for row in ds]
    [{'n': np.float32(1.0), 'more': '{"x": [0]}', 'of': None}]
    """
    fields = None if schema is None else to_fields("from_jsonl", schema)
    try:
        return _files("from_jsonl", source="jsonl", paths=arguments.paths(paths, "from_jsonl"), fields=fields)
    except DataError as error:
        told = error.message.endswith("not an object") or "EOF while parsing" in error.message
        if not told or str(error.context.get("file_line")) != "1":
            raise
        hint = 'if the file is one JSON document, write from_json(paths), or from_json(paths, field="annotations")'
        raise DataError(error.message, {**error.context, "hint": hint}) from None


@explained(
    'from_json(paths, field="data", schema={"x": "int64?"}) reads these fields of the objects in "data"',
    **READERS,
    columns='write schema={"x": "int64?"}, or put .select("x") behind it',
    compression_type=COMPRESSION,
    data_files="name the files first: from_json(paths)",
    lines="write from_jsonl(paths) for an object in each line",
    orient="an array of objects is read, as pandas' orient='records'",
    storage_options=CREDENTIALS,
)
def from_json(paths: Paths, *, field: str | None = None, schema: Mapping[str, Any] | None = None) -> Dataset:
    """JSON documents that have an array of objects, as COCO's annotations: each object is a sample.

    A document is never in memory as a whole: its array is read from front to back, object by object. The rest of the
    document behind the array of a `field` is not read. Files may be compressed with gzip, zstd, bzip2 or xz. Files
    with an object in each line are read by `from_jsonl`.

    Args:
        paths: The files.
        field: The member that is the array; with a dot, a member of a member (`"data.items"`). Default: the document
            itself is the array.
        schema: The fields of the objects to read, as in `from_jsonl`.

    >>> import json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     boxes = [{"image_id": 7, "bbox": [4.0, 5.0]}, {"image_id": 9, "bbox": []}]
    ...     _ = pathlib.Path(folder, "a.json").write_text(json.dumps({"info": {}, "annotations": boxes}))
    ...     [(int(row["image_id"]), row["bbox"].tolist()) for row in from_json(folder + "/a.json", field="annotations")]
    [(7, [4.0, 5.0]), (9, [])]
    """
    fields = None if schema is None else to_fields("from_json", schema)
    named = None if field is None else arguments.text(field, "from_json", "field")
    return _files("from_json", source="json", paths=arguments.paths(paths, "from_json"), field=named, fields=fields)
