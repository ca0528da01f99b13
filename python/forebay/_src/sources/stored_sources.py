"""Datasets in formats of other libraries: token files, Megatron's indexed datasets, MosaicML's and LitData's shards.

All are counted without reading a sample, by sizes and indexes, so that `shuffle` is over all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forebay._src import arguments
from forebay._src.arguments import Paths
from forebay._src.dataset import Dataset
from forebay._src.schema import dtype_name
from forebay._src.sources.file_sources import _files
from forebay._src.usage import explained

#: The most ids of a row: a gigabyte as int64.
_LENGTH_MAX = 2**27


@explained()
def from_tokens(
    paths: Paths, dtype: Any = "uint16", length: int = 1024, stride: int | None = None, column: str = "tokens"
) -> Dataset:
    """Flat files of token ids: each row is `length` consecutive ids.

    Ids become int64, which `torch.nn.Embedding` and `cross_entropy` need.

    Files are nanoGPT's (`ids.tofile`), llm.c's `.bin` with their header, and `.npy` of one dimension. No content
    travels with the pipeline. Rows are counted by file sizes, and only the first bytes of a file are read before its
    rows are. A row never spans two files. Ids after the last whole row of a file are left out.

    Args:
        paths: The files.
        dtype: The stored type of an id: an integer type. A file with a header of another type is an error.
        length: The ids of a row.
        stride: The ids from the beginning of a row to that of the next one. Default: `length`. With `length=1025,
            stride=1024` a row includes the target of its last input.
        column: The name of the column.

    >>> import numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.arange(10, dtype=np.uint16).tofile(pathlib.Path(folder, "train.bin"))
    ...     ds = from_tokens(folder + "/*.bin", length=5, stride=4)
    ...     ds.schema, [row["tokens"].tolist() for row in ds]
    (Schema(tokens: int64[5]), [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])
    """
    op = "from_tokens"
    step = None if stride is None else arguments.whole(stride, op, "stride", 1, _LENGTH_MAX)
    return _files(
        op,
        source="tokens",
        paths=arguments.paths(paths, op),
        dtype=dtype_name(dtype),
        length=arguments.whole(length, op, "length", 1, _LENGTH_MAX),
        stride=step,
        column=arguments.text(column, op, "column"),
    )


@explained()
def from_megatron(prefix: Paths, column: str = "tokens") -> Dataset:
    r"""Megatron's indexed datasets, a `.bin` and an `.idx` file each: documents as int32 lists, for `pack`.

    Args:
        prefix: The path of a dataset without the ending (as in `--data-path`), or with either of them; or several.
        column: The name of the column.

    >>> import numpy as np, pathlib, struct, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.array([7, 8, 9], dtype=np.uint16).tofile(pathlib.Path(folder, "my_text_document.bin"))
    ...     index = b"MMIDIDX\0\0" + struct.pack("<QBQQ2i2q3q", 1, 8, 2, 3, 2, 1, 0, 4, 0, 1, 2)
    ...     _ = pathlib.Path(folder, "my_text_document.idx").write_bytes(index)
    ...     ds = from_megatron(folder + "/my_text_document")
    ...     ds.schema, [row["tokens"].tolist() for row in ds]
    (Schema(tokens: int32[?]), [[7, 8], [9]])
    """
    op = "from_megatron"
    column = arguments.text(column, op, "column")
    return _files(op, source="megatron", paths=arguments.paths(prefix, op), column=column)


@explained()
def from_mds(paths: Paths, *, columns: Iterable[str] | None = None) -> Dataset:
    """Folders of MosaicML's shards (MDS, version 2), as `MDSWriter` of mosaicml-streaming writes them.

    Columns are numbers, arrays, texts (also `json` and `str_int`, as their text) and bytes (also `jpeg` and `png`, for
    `decode_image`, and `pil` and `pkl`, as stored: nothing is unpickled). Arrays whose encoding leaves type or shape
    open get those of the first sample, with dimensions that may differ from row to row; a row of another type or number
    of dimensions is a `DataError`. Checksums of the index are not verified.

    Shards may be compressed with zstd or gzip. A compressed shard is decompressed as a whole: shuffle these over
    windows, which is the default of `shuffle` for large ones. Others (`br`, `bz2`, `snappy`) are refused.

    Args:
        paths: The folders with an `index.json`; for one of several splits, the folder of the split, `"data/train"`.
        columns: The columns to read. Default: all.
    """
    op = "from_mds"
    names = arguments.columns(columns, op, "columns")
    return _files(op, source="mds", paths=arguments.paths(paths, op), columns=names)


@explained()
def from_litdata(paths: Paths, *, columns: Iterable[str] | None = None) -> Dataset:
    """Folders of LitData's chunks, as `litdata.optimize` writes them.

    A sample is a tree, and its leaves are the columns: `{"image": …, "deep": {"pair": (…, …)}}` has `image`,
    `deep.pair.0` and `deep.pair.1`; a sample that is no dictionary or tuple is `value`. Columns are numbers, truth
    values, texts, arrays and tensors, Pillow's images (uint8 of height, width and channels: modes L, RGB and RGBA), and
    files of any kind as their bytes (also `jpeg`, for `decode_image`). Arrays whose format leaves type or shape open
    get those of the first sample; a row of another type or number of dimensions is a `DataError`. Pickles, JSON and
    graphs are refused: leave them out by `columns=`. Chunks that were written for `TokensLoader` yield their documents.

    Chunks may be compressed with zstd, as a whole, by samples or by some samples together. A compressed chunk is
    decompressed as a whole: shuffle these over windows, which is the default of `shuffle` for large ones.

    Args:
        paths: The folders with an `index.json`.
        columns: The columns to read. Default: all.

    >>> import json, pathlib, struct, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = {"type": None, "context": None, "children_spec": []}
    ...     config = {"data_format": ["int"], "data_spec": json.dumps([1, spec]), "compression": None}
    ...     samples = [struct.pack("<Iq", 8, number) for number in (7, 8)]
    ...     chunk = struct.pack("<4I", 2, 16, 28, 40) + b"".join(samples)
    ...     entry = {"chunk_bytes": len(chunk), "chunk_size": 2, "filename": "chunk-0-0.bin", "dim": None}
    ...     _ = pathlib.Path(folder, "chunk-0-0.bin").write_bytes(chunk)
    ...     _ = pathlib.Path(folder, "index.json").write_text(json.dumps({"chunks": [entry], "config": config}))
    ...     [int(row["value"]) for row in from_litdata(folder)]
    [7, 8]
    """
    op = "from_litdata"
    names = arguments.columns(columns, op, "columns")
    return _files(op, source="litdata", paths=arguments.paths(paths, op), columns=names)
