"""Names, addresses and values that users of other libraries write: the errors have code that works here."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import re
import types

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from forebay import errors as E
from forebay._src import habits, habits_formats


class Tensor:
    """A tensor whose numbers NumPy cannot read, as one of PyTorch in bfloat16."""

    def __array__(self, *args, **kwargs):
        raise TypeError("Got unsupported ScalarType BFloat16")


class Series:
    """A single column, as one of pandas or polars."""

    to_frame = None

    def __arrow_c_stream__(self, schema=None):
        return pa.chunked_array([[1]]).__arrow_c_stream__(schema)


def test_a_name_has_one_advice():
    tables = [habits.FUNCTIONS, habits.READERS, habits_formats.FORMATS]
    assert len({name for table in tables for name in table}) == sum(map(len, tables))
    assert not set(habits.METHODS) & set(habits.ELSEWHERE)
    assert [name for name in habits_formats.FORMATS if hasattr(fb, name)] == []


@pytest.mark.parametrize(
    ("owner", "name", "says"),
    [
        (fb, "from_huggingface", "write from_hf(dataset)"),
        (fb, "load_from_disk", "from_hf(datasets.load_from_disk(folder))"),
        (fb, "choose_from_datasets", "fb.interleave([a, b])"),
        (fb, "split_dataset_by_node", "to_torch(consumers='auto')"),
        (fb, "read_delta", "from_delta(table)"),
        (fb, "read_iceberg", "from_iceberg(table)"),
        (fb, "from_hdf5", "docs/recipes/arrays.md"),
        (fb, "from_zarr", "docs/recipes/arrays.md"),
        (fb, "from_sql", "pandas.read_sql"),
        (fb, "from_tfds", "from_array_record(f'{builder.data_dir}/*-train.array_record*')"),
        (fb, "from_audio_folder", "decode_audio"),
        (fb, "from_video_folder", "from_files('videos/*/*.mp4')"),
        (fb, "FixedLengthRecordDataset", "from_tokens(paths, dtype='uint8', length=record_bytes)"),
        (fb.Dataset, "from_delta", "fb.from_delta"),
        (fb.range(1), "max_tokens", "bucket_by_length('ids', [64, 128, 256], max_tokens=8192)"),
        (fb.range(1), "large_scale_jitter", "random_affine(column, 0, scale=(0.1, 2.0))"),
        (fb.range(1), "copy_paste", "docs/recipes/detection.md#copy-paste"),
        (fb.range(1), "to_webdataset", "save(folder, format='tar')"),
        (fb.range(1), "class_names", "sorted(os.listdir(root))"),
        (fb.range(1), "to_csv", "save(folder, format='csv')"),
        (fb.range(1), "fill_nan", "fb.where(fb.col('x').is_nan(), 0.0, fb.col('x'))"),
        (fb.col("x").dt, "tz_convert", "times are those of UTC"),
        (fb.range(1), "group_by", "batch_by_key('key', 32)"),
        (fb.range(1), "dropna", "filter(~fb.col('x').is_null())"),
        (fb, "WeightedRandomSampler", "docs/mixing.md#classes-in-balance"),
        (fb, "concat", "fb.concatenate([a, b])"),
        (fb, "text_dataset_from_directory", ".lookup({'neg': 0, 'pos': 1}, default=-1)"),
        (fb, "audio_dataset_from_directory", "decode_audio('bytes', sample_rate=16000)"),
        (fb.col("x"), "shift", "map(fn, reads=['x'], writes=['y'])"),
        (fb.col("x"), "atan2", "y.arctan2(x)"),
        (fb.col("x").str, "strptime", "to_time('s', '%d/%m/%Y')"),
        (fb.col("x").str, "replace_all", "replace(pattern, new, regex=True)"),
        (fb.col("x").list, "head", "slice(0, n)"),
        (fb.col("x").dt, "dayofweek", "weekday()"),
        (fb.range(1).distribute("host:1", job="x"), "state_dict", "it = iter(ds.distribute(...)); it.state_dict"),
    ],
)
def test_names_of_other_libraries_say_what_to_write(owner, name, says):
    with pytest.raises(AttributeError) as error:
        getattr(owner, name)
    assert says in str(error.value)
    assert "did you mean" not in str(error.value)


#: What has functions for users.
OWNERS = [fb, fb.range(1), fb.col("x"), fb.col("x").str, fb.col("x").list, fb.col("x").dt]


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: type(owner).__name__)
def test_a_wrong_call_of_any_function_says_what_to_write(owner):
    names = fb.__all__ if owner is fb else [name for name in dir(type(owner)) if not name.startswith("_")]
    functions = [getattr(owner, name) for name in names]
    plain = (types.FunctionType, types.MethodType)
    for function in (function for function in functions if isinstance(function, plain)):
        if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
            with pytest.raises(TypeError, match=r"unexpected keyword argument '\w+'; \w+"):
                function(no_such_argument=1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fb.from_image_folder("x", image_size=(180, 180)), 'resize("image", (height, width), antialias=False)'),
        (lambda: fb.from_image_folder("x", validation_split=0.2), ".split(0.8, seed=123)"),
        (lambda: fb.from_image_folder("x", classes=["cat", "dog"]), '.lookup({"cat": 0, "dog": 1}, default=-1)'),
        (lambda: fb.mix([], batching_method="stratified"), "write per_batch=n for 'stratified'"),
        (lambda: fb.mix([], probabilities=[0.8, 0.2]), "write weights="),
        (lambda: fb.mix([], stopping_strategy="all_exhausted"), '"all" for all_exhausted'),
        (lambda: fb.from_csv("x", nrows=5), ".take(n)"),
        (lambda: fb.from_csv("x", skiprows=2), "take such lines out of the file once"),
        (lambda: fb.from_csv("x", schema_overrides={"a": int}), "it names all columns that are read"),
        (lambda: fb.up(num_workers=2), "workers=n"),
        (lambda: fb.range(1).distribute("host:1", job="x", processing_mode="off"), "once an epoch"),
        (lambda: fb.from_csv("x", parse_dates=["t"]), 'fb.col("when").str.to_time("s")'),
        (lambda: fb.from_tar("x", shardshuffle=True), ".shuffle()"),
        (lambda: fb.range(1).pack("id", block_size=8), "pack(column, 1024)"),
        (lambda: fb.range(1).tokenize("id", "x", stride=128), "tokenizer.encode(text).overflowing"),
        (lambda: fb.range(1).drop(columns=["id"]), 'drop("a", "b")'),
        (lambda: fb.col("price") > decimal.Decimal("12.5"), "x.cast('float64')"),
        (lambda: fb.col("x").str.split(n=1), "split(',', index) for one part"),
        (lambda: fb.col("x").str.contains("a.", regex=True), "search(pattern)"),
    ],
)
def test_arguments_of_other_libraries_say_what_to_write(call, says):
    with pytest.raises(TypeError) as error:
        call()
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("minio://bucket/{a,b}.parquet", "s3://bucket/{a,b}.parquet, with AWS_ENDPOINT_URL=http://HOST:9000"),
        ("oci://bucket/a.parquet", "compat.objectstorage.REGION.oci.customer-oci.com, AWS_REGION"),
        ("oss://bucket/a.parquet", "https://BUCKET.s3.oss-REGION.aliyuncs.com, AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true"),
        ("hdfs://name/a.parquet", "mount it as a folder"),
        ("gcs://bucket/a.parquet", "write gs://bucket/a.parquet"),
        ("dbfs:/mnt/a.parquet", "/dbfs/"),
        ("pipe:aws s3 cp s3://bucket/a.tar -", "write the address that the command reads"),
    ],
)
def test_addresses_of_other_stores_say_what_to_write(address, says):
    with pytest.raises(E.InvalidPipelineError) as error:
        fb.from_parquet([address])
    assert says in str(error.value)
    assert error.value.context["file"] == address


@pytest.mark.parametrize(
    "make",
    [
        lambda: fb.from_numpy(Tensor()),
        lambda: fb.from_numpy({"x": Tensor()}),
        lambda: fb.from_dict({"x": [Tensor()]}),
        lambda: fb.from_map_dataset([{"x": Tensor()}]),
        lambda: fb.from_generator(lambda: iter([{"x": Tensor()}])),
        lambda: fb.range(2).map(lambda row: {"x": Tensor()}),
        lambda: fb.range(2).map(lambda rows: {"x": Tensor()}, batched=True),
        lambda: fb.range(2).map(lambda row: {"x": 1}, schema={"x": "bfloat16"}),
        lambda: fb.range(2).cast(id="bfloat16"),
    ],
)
def test_bfloat16_says_which_type_to_use(make):
    with pytest.raises((E.InvalidPipelineError, E.FunctionError)) as error:
        make()
    assert "bfloat16" in error.value.hint
    assert "float()" in error.value.hint or "float32" in error.value.hint


def test_results_of_other_forms_say_what_to_return():
    ds = fb.range(4)
    told = {
        "name the parts of the tuple": lambda: ds.map(lambda row: (row["id"], 1)),
        "json.dumps(value)": lambda: ds.map(lambda row: {"found": [{"bbox": 1}]}),
        "json.dumps(value) keeps": lambda: ds.map(lambda row: {"polygons": [[1.0, 2.0], [3.0]]}),
        "json.loads(row['x']) reads": lambda: fb.from_dict({"a": ['[{"b": 1}]']}).map(
            lambda row: {"b": row["a"][0]["b"]}
        ),
        "reads": lambda: fb.from_dict({"a": ["[[1, 2]]"]}).map(lambda row: {"b": np.array(row["a"], float)}),
        "time.isoformat()": lambda: ds.map(lambda row: {"b": dt.datetime(2024, 1, 1)}),
        "for name in rows[0]": lambda: ds.map(lambda rows: [{"y": 1}], batched=True),
    }
    for says, make in told.items():
        with pytest.raises(E.FunctionError) as error:
            make()
        assert says in error.value.hint
    rows = lambda batch: [{"y": int(i)} for i in batch["id"]]  # noqa: E731
    columns = lambda batch: {name: [row[name] for row in rows(batch)] for name in rows(batch)[0]}  # noqa: E731
    assert [int(row["y"]) for row in ds.map(columns, batched=True)] == [0, 1, 2, 3]


def test_empty_lists_beside_lists_of_lists_say_what_to_give():
    boxes = [[[1, 2, 3, 4], [5, 6, 7, 8]], []]
    for rows in (boxes, boxes[::-1]):
        with pytest.raises(E.FunctionError) as error:
            fb.from_map_dataset([{"boxes": value} for value in rows])
        assert "numpy.array(value, 'float32').reshape(-1, 4) in column 'boxes'" in error.value.hint
        ds = fb.from_map_dataset([{"boxes": np.array(value, "float32").reshape(-1, 4)} for value in rows])
        assert [len(row["boxes"]) for row in ds] == [len(value) for value in rows]


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_pack_names_the_cast_of_its_ids(dtype):
    ds = fb.from_map_dataset([np.arange(3, dtype=dtype), np.arange(5, dtype=dtype)])
    with pytest.raises(E.InvalidPipelineError) as error:
        ds.pack("value", 4)
    assert ".cast({'value': \"int32\"})" in error.value.hint
    packed = ds.cast({"value": "int32"}).pack("value", 4)
    assert [row["value"].tolist() for row in packed] == [[0, 1, 2, 0], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fb.from_numpy({"x": np.array(["2024-01-01"], "M8[D]")}), "array.astype('int64')"),
        (lambda: fb.from_dict({"x": [decimal.Decimal("1.50")]}), "str(value)"),
        (lambda: fb.from_dict({"x": [[1, None], [3, 4]]}), "a number in its place"),
        (lambda: fb.from_dict({"x": 5}), '{"x": [5]}'),
        (lambda: fb.from_dict({"x": {1, 2}}), '{"x": list(value)}'),
        (lambda: fb.from_dict({"x": None}), "a value for each row"),
        (lambda: fb.from_dict({"x": ["a"]}).with_column("y", fb.col("x") * 2), '.cast("float64")'),
        (lambda: fb.from_table(Series()), "to_frame()"),
        (lambda: fb.range(3).filter([fb.col("id") > 0, fb.col("id") < 2]), "join conditions by &"),
        (lambda: fb.range(3).filter(np.arange(3) > 1), "select_rows(numpy.flatnonzero(mask))"),
        (lambda: fb.range(3)[np.arange(3) > 1], "numpy.flatnonzero(mask)"),
        (lambda: fb.range(3).select(fb.col("id") * 2), "with_column(\"y\", (col('id') * 2))"),
    ],
)
def test_values_of_other_libraries_say_what_to_give(make, says):
    with pytest.raises(E.InvalidPipelineError) as error:
        make()
    assert says in error.value.hint


def test_a_text_that_looks_like_a_pattern_is_warned_of():
    text = fb.col("text").str
    ds = fb.from_dict({"text": ["cat", "cat|dog", "C++ (2.0)", "a\\d"]})
    for pattern in ("cat|dog", "^cat", r"a\d", "c.*t"):
        with pytest.warns(UserWarning, match=r"search\(") as told:
            found = [row["text"] for row in ds.filter(text.contains(pattern))]
        assert found == [row["text"] for row in ds.filter(text.search(re.escape(pattern)))]
        assert [one.filename for one in told] == [__file__]
    assert [len(list(ds.filter(text.contains(plain)))) for plain in ("C++ (2.0)", "|", ".", "US$")] == [1, 1, 1, 0]
