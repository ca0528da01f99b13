"""The public names of the package, which loads this module when one of them is first used.

So a process of a service, or of a user's function, starts without them: in a tenth of the time.
"""

from forebay import callbacks, errors, examples
from forebay import cluster as cluster
from forebay import ray as ray  # not in __all__: `from forebay import *` would hide Ray itself
from forebay._native import VERSION as __version__
from forebay._src.command_line.quality import ShuffleQuality
from forebay._src.dataset import Dataset
from forebay._src.describe.result import ColumnStatistics, Statistics
from forebay._src.expr.expr import Expr, coalesce, col, concat_list, lit, stack, where
from forebay._src.expr.expr_texts import concat_str, format
from forebay._src.functions.tolerance import NonDeterministicWarning, SkippedSample
from forebay._src.functions.user_errors import SkipSample
from forebay._src.images.image_ops import IMAGENET_MEAN, IMAGENET_STD
from forebay._src.iteration.changed_files import FilesChangedWarning
from forebay._src.iteration.distributed import Distributed
from forebay._src.iteration.headspace import Headspace
from forebay._src.iteration.iterator import DatasetIterator
from forebay._src.iteration.no_batches import NoBatchesWarning
from forebay._src.iteration.otel import OtelTrace, trace_otel
from forebay._src.iteration.ranks import RanksWarning
from forebay._src.iteration.repeats import RepeatedEpochWarning
from forebay._src.iteration.saving import Saved
from forebay._src.iteration.trace import Trace, trace
from forebay._src.ragged import Ragged
from forebay._src.schema import Column, Schema
from forebay._src.service.security import Tls
from forebay._src.service.service import Service, connect, up
from forebay._src.sources.combining import concatenate, interleave, mix, zip
from forebay._src.sources.csv_source import from_csv
from forebay._src.sources.delta_source import from_delta
from forebay._src.sources.file_sources import (
    from_arrow,
    from_files,
    from_image_folder,
    from_parquet,
    from_tar,
    from_text,
    from_tfrecord,
    load,
)
from forebay._src.sources.hf_source import from_hf
from forebay._src.sources.iceberg_source import from_iceberg
from forebay._src.sources.json_sources import from_json, from_jsonl
from forebay._src.sources.library_sources import from_array_record, from_lance
from forebay._src.sources.memory_sources import from_dict, from_generator, from_map_dataset, from_numpy, range
from forebay._src.sources.mix_schedule import Schedule, schedule
from forebay._src.sources.store_settings import storage_options
from forebay._src.sources.stored_sources import from_litdata, from_mds, from_megatron, from_tokens
from forebay._src.sources.table_sources import from_table

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Column",
    "ColumnStatistics",
    "Dataset",
    "DatasetIterator",
    "Distributed",
    "Expr",
    "FilesChangedWarning",
    "Headspace",
    "Ragged",
    "RanksWarning",
    "RepeatedEpochWarning",
    "Saved",
    "Schedule",
    "Schema",
    "NoBatchesWarning",
    "NonDeterministicWarning",
    "OtelTrace",
    "Service",
    "ShuffleQuality",
    "SkipSample",
    "SkippedSample",
    "Statistics",
    "Tls",
    "Trace",
    "__version__",
    "callbacks",
    "coalesce",
    "col",
    "concat_list",
    "concat_str",
    "concatenate",
    "connect",
    "errors",
    "examples",
    "format",
    "from_array_record",
    "from_arrow",
    "from_csv",
    "from_dict",
    "from_files",
    "from_generator",
    "from_hf",
    "from_image_folder",
    "from_json",
    "from_jsonl",
    "from_lance",
    "from_delta",
    "from_iceberg",
    "from_litdata",
    "from_map_dataset",
    "from_mds",
    "from_megatron",
    "from_numpy",
    "from_parquet",
    "from_table",
    "from_tar",
    "from_text",
    "from_tfrecord",
    "from_tokens",
    "interleave",
    "lit",
    "load",
    "mix",
    "range",
    "schedule",
    "stack",
    "storage_options",
    "trace",
    "trace_otel",
    "up",
    "where",
    "zip",
]
