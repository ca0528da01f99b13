"""Names, addresses and values that users of other libraries write: the errors have code that works here."""

from __future__ import annotations

import forebay as fb
import numpy as np
import pytest
from forebay import errors as E
from forebay._src import habits, habits_formats


class Tensor:
    """A tensor whose numbers NumPy cannot read, as one of PyTorch in bfloat16."""

    def __array__(self, *args, **kwargs):
        raise TypeError("Got unsupported ScalarType BFloat16")


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
        (fb, "from_delta", "deltalake.DeltaTable(path).file_uris()"),
        (fb, "read_delta", "deltalake.DeltaTable(path).file_uris()"),
        (fb, "from_iceberg", "plan_files()"),
        (fb, "from_hdf5", "docs/recipes/arrays.md"),
        (fb, "from_zarr", "docs/recipes/arrays.md"),
        (fb, "from_sql", "pandas.read_sql"),
        (fb, "from_tfds", "from_array_record(f'{builder.data_dir}/*-train.array_record*')"),
        (fb, "from_audio_folder", "decode_audio"),
        (fb, "from_video_folder", "from_files('videos/*/*.mp4')"),
        (fb, "FixedLengthRecordDataset", "from_tokens(paths, dtype='uint8', length=record_bytes)"),
        (fb.Dataset, "from_delta", "from_parquet"),
        (fb.range(1), "max_tokens", "bucket_by_length('ids', [64, 128, 256], max_tokens=8192)"),
        (fb.range(1), "large_scale_jitter", "random_affine(column, 0, scale=(0.1, 2.0))"),
        (fb.range(1), "mosaic", "docs/recipes/detection.md#mosaic"),
        (fb.range(1), "copy_paste", "docs/recipes/detection.md#mosaic"),
        (fb.range(1), "to_webdataset", "save(folder, format='tar')"),
    ],
)
def test_names_of_other_libraries_say_what_to_write(owner, name, says):
    with pytest.raises(AttributeError) as error:
        getattr(owner, name)
    assert says in str(error.value)
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("r2://bucket/{a,b}.parquet", "s3://bucket/{a,b}.parquet, with AWS_ENDPOINT_URL=https://ACCOUNT.r2."),
        ("oci://bucket/a.parquet", "compat.objectstorage"),
        ("hdfs://name/a.parquet", "mount it as a folder"),
        ("gcs://bucket/a.parquet", "write gs://bucket/a.parquet"),
        ("dbfs:/mnt/a.parquet", "/dbfs/"),
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
