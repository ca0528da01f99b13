"""Formats, data bases and stores that Forebay does not read itself, and the code that reads them all the same."""

from __future__ import annotations

from collections.abc import Mapping

_ARRAYS = (
    "write fb.range(n).map(Read, batched=True) with a class that opens the file when it is made: docs/recipes/arrays.md"
)
_EXPORT = "write the result as Parquet files, and from_parquet(folder + '/*.parquet')"
_ROWS = "write from_map_dataset(rows), or from_dict({'x': [...]})"
_MEDIA = "from_files('{0}/*/*.{1}').with_column('label', fb.col('path').str.split('/', -2))"
_AUDIO = "write " + _MEDIA.format("audio", "wav") + ".decode_audio('bytes', sample_rate=16000)"
_VIDEO = "write " + _MEDIA.format("videos", "mp4") + ".decode_video('bytes', frames=16)"
_TFDS = (
    "write from_array_record(f'{builder.data_dir}/*-train.array_record*'), or from_tfrecord of '*-train.tfrecord*': "
    "the files of one part"
)
_SQL = "write from_table(pandas.read_sql(query, connection)); of a large result, from_parquet of an export"

_FORMATS: Mapping[str, str] = {
    "avro": "write the records as Parquet files for from_parquet, or from_generator of fastavro.reader",
    "bigquery": _EXPORT,
    "dask": _EXPORT,
    "databricks_tables": _EXPORT,
    "delta_sharing_tables": _EXPORT,
    "duckdb": "write from_table(duckdb.sql(query))",
    "excel": "write from_table(pandas.read_excel(path))",
    "h5": _ARRAYS,
    "hdf5": _ARRAYS,
    "lmdb": _ARRAYS,
    "mongo": _EXPORT,
    "npy": "write from_numpy(numpy.load(path)); of a file that is larger than memory: docs/recipes/arrays.md",
    "npz": "write from_numpy(dict(numpy.load(path)))",
    "orc": "write from_table(pyarrow.orc.read_table(path))",
    "snowflake": _EXPORT,
    "spark": _EXPORT,
    "sql": _SQL,
    "sqlite": _SQL,
    "zarr": _ARRAYS,
}

#: Of the package: names of readers of these formats, as Ray Data, pandas and others have them.
FORMATS: Mapping[str, str] = {
    **{f"from_{name}": advice for name, advice in _FORMATS.items()},
    **{f"read_{name}": advice for name, advice in _FORMATS.items()},
    "FixedLengthRecordDataset": (
        "write from_tokens(paths, dtype='uint8', length=record_bytes).cast(tokens='uint8'); docs/recipes/arrays.md has "
        "files with a header"
    ),
    "SqlDataset": _SQL,
    "audio_dataset_from_directory": _AUDIO,
    "from_audio_folder": _AUDIO,
    "from_audiofolder": _AUDIO,
    "from_binary_files": "write from_files(paths)",
    "from_items": _ROWS,
    "from_iterable": "write from_generator(function)",
    "from_tf": "write from_generator(ds.as_numpy_iterator), or the source that reads its files",
    "from_tfds": _TFDS,
    "from_torch": "write from_map_dataset(dataset)",
    "from_video_folder": _VIDEO,
    "from_videofolder": _VIDEO,
    "read_audio": "write from_files(paths).decode_audio('bytes', sample_rate=16000)",
    "read_avro": _FORMATS["avro"],
    "read_binary_files": "write from_files(paths)",
    "read_delta": "write from_delta(table)",
    "read_deltalake": "write from_delta(table)",
    "read_hudi": _EXPORT,
    "read_iceberg": "write from_iceberg(table) of a table of pyiceberg",
    "read_lance": "write from_lance(uri)",
    "read_numpy": _FORMATS["npy"],
    "scan_delta": "write from_delta(table)",
    "scan_iceberg": "write from_iceberg(table)",
    "read_videos": "write from_files(paths).decode_video('bytes', frames=16)",
    "read_table": "write from_table(table)",
}

_SAME_AS_S3 = "write s3://{0}, with AWS_ENDPOINT_URL={1}, AWS_REGION and the keys of that store in the environment"
_MOUNTED = "mount it as a folder and name files there, or copy the files to a disk or a store"

#: By scheme: what to write for the addresses of stores. `{0}` is the part behind the scheme.
STORES: Mapping[str, str] = {
    "b2": _SAME_AS_S3.replace("{1}", "https://s3.REGION.backblazeb2.com"),
    "dbfs": "name files as folders of the machine, /dbfs/...; or write s3://, gs:// or az:// of the storage below it",
    "ftp": _MOUNTED,
    "gcs": "write gs://{0}",
    "hdfs": _MOUNTED,
    "minio": _SAME_AS_S3.replace("{1}", "http://HOST:9000"),
    "oci": _SAME_AS_S3.replace("{1}", "https://NAMESPACE.compat.objectstorage.REGION.oci.customer-oci.com"),
    "oss": _SAME_AS_S3.replace(
        "{1}", "https://BUCKET.s3.oss-REGION.aliyuncs.com, AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true"
    ),
    "s3n": "write s3://{0}",
    "sftp": _MOUNTED,
    "ssh": _MOUNTED,
    "wasbs": "write az://CONTAINER/PATH, with AZURE_STORAGE_ACCOUNT_NAME in the environment",
    "webhdfs": _MOUNTED,
}


def of_store(path: str) -> str | None:
    """Returns what to write for an address of a store that is not read by this name, or `None`.

    >>> of_store("gcs://bucket/a.parquet")
    'write gs://bucket/a.parquet'
    """
    if path.startswith("pipe:"):
        return "no command is run: write the address that the command reads, s3://..., gs://... or https://..."
    scheme, _, rest = path.partition(":/")
    advice = STORES.get(scheme) if rest else None
    # The address may have braces of its own.
    return None if advice is None else advice.replace("{0}", rest.lstrip("/"))
