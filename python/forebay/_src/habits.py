"""Names of ops in other libraries, and the code to write here instead. An `AttributeError` shows this code."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

_CHAIN = "write fb.concatenate([a, b])"
_CHOOSE = "write fb.interleave([a, b]), which takes turns, or fb.mix({'a': a, 'b': b}, weights={'a': 0.7, 'b': 0.3})"
_MIX = "write fb.mix({'a': a, 'b': b}, weights={'a': 0.7, 'b': 0.3})"

#: Of datasets.
METHODS: Mapping[str, str] = {
    "amplitude_to_db": "write log_mel(column, preset='torchaudio'), or spectrogram(column)",
    "apply": "call the function: fn(ds)",
    "apply_chat_template": "write chat('messages', tokenizer)",
    "as_numpy_iterator": "iterate over the dataset: its batches are NumPy arrays",
    "bucket_by_sequence_length": "write bucket_by_length",
    "choose_from_datasets": _CHOOSE,
    "concat": "write concatenate(other)",
    "group_by_window": "write batch_by_key(column, size); bucket_by_length groups by length",
    "interleave": "write fb.interleave([a, b], cycle_length=2, block_length=1)",
    "deduplicate": "write unique('key'), which keeps the first sample of each key",
    "distinct": "write unique('key'), which keeps the first sample of each key",
    "drop_duplicates": "write unique('key'), which keeps the first sample of each key",
    "fbank": "write log_mel(column, preset='kaldi')",
    "frequency_masking": "write spec_augment(column, time_masks=0)",
    "load_audio": "write decode_audio(column, sample_rate=16000)",
    "log_mel_spectrogram": "write log_mel(column, preset='whisper')",
    "map_batches": "write map(fn, batched=True)",
    "mel_filter_bank": "write mel(column) or log_mel(column), which begin with the sound",
    "mel_spectrogram": "write mel(column), or log_mel(column)",
    "num_rows": "write len(ds)",
    "pad_or_trim": "write crop_audio(column, 30)",
    "padded_batch": "write batch(n, pad=0): pad= is padding_values, pad_to= padded_shapes",
    "random_split": "write split(0.9, seed=0)",
    "ragged_batch": "write batch(n, ragged=True): a column of lists is a Ragged, with .values and .offsets",
    "rebatch": "give batch the size that you want",
    "remove_columns": "write drop(...)",
    "resample": "write resample_audio(column, 16000)",
    "rename_column": "write rename(old='new')",
    "rename_columns": "write rename(old='new')",
    "sample_from_datasets": _MIX,
    "scan": "keep the state where you iterate: ops see single samples",
    "select_columns": "write select(...)",
    "set_epoch": "give iter() epoch=, or call set_epoch of ds.to_torch() or ds.to_jax()",
    "set_format": "batches are NumPy arrays; to_torch(), to_jax() and to_tf() give tensors",
    "sliding_window": "write window(size, stride=1, drop_remainder=True)",
    "sort_by": "write sort(column)",
    "sort_values": "write sort(column)",
    "stft": "write spectrogram(column, n_fft=256, win_length=255, hop=128, power=1, edge=None): absolute values",
    "take_while": "itertools.takewhile(fn, ds) stops where you iterate",
    "time_masking": "write spec_augment(column, freq_masks=0)",
    "to_tf_dataset": "write to_tf()",
    "train_test_split": "write train, test = ds.split(0.9, seed=0)",
    "with_format": "batches are NumPy arrays; to_torch(), to_jax() and to_tf() give tensors",
    "with_indices": "write enumerate(), which adds a column of numbers",
    "zip": "write fb.zip(a, b)",
}

_ROWS = "use pyarrow, pandas or Polars on the files of save(folder)"
_BY_TOKENS = "write bucket_by_length('ids', [64, 128, 256], max_tokens=8192)"
_COPY_PASTE = "zip the images with a permutation of them, and map: docs/recipes/detection.md#copy-paste"
_SAVED = "write save(folder, format='{}')"
_BY_KEY = "write batch_by_key('key', 32) for batches of one key each; ds.describe() has statistics"
_NOT_MISSING = "write filter(~fb.col('x').is_null())"
_LABELS = "a label is the place of its folder among the sorted names: sorted(os.listdir(root))"
_WEIGHTED = (
    "write fb.mix of a dataset for each class, with weights=: docs/mixing.md#classes-in-balance; or "
    "select_rows(rng.choice(len(ds), n, p=p))"
)
_LEFT_OUT = "leave it out: threads and prefetching are chosen here"
_BY_INDEX = "leave it out: one class is read from its start and by index"
_SHARE = "filter(lambda row, rng: rng.random() < share[row['label']]) keeps a share of each class"
_NUMBERED = "fb.range as a source, or a column of numbers, gives each sample its own"
_PARTS = "write map(fn, reads=['x'], writes=['x'])"

#: Of datasets: properties, conversions, and ops whose task is done elsewhere here.
ELSEWHERE: Mapping[str, str] = {
    "add_column": "write with_column(name, expression)",
    "assign": "write with_column(name, expression)",
    "batch_by_tokens": _BY_TOKENS,
    "batched": "write batch(n)",
    "cast_column": "write cast(x='int32'); Audio: decode_audio(column, sample_rate=16000); Image: decode_image(column)",
    "class_names": _LABELS,
    "class_to_idx": _LABELS,
    "classes": _LABELS,
    "class_encode_column": "map with a dictionary gives each name its number",
    "chunk": "write pack(column, length), which cuts ids into rows of one length",
    "collect": "write list(ds)",
    "column_names": "write list(ds.schema)",
    "columns": "write list(ds.schema)",
    "copy": "write with_column('copy', fb.col('x')) for one more column; a dataset never changes, so it needs no copy",
    "copy_paste": _COPY_PASTE,
    "count": "write len(ds); cardinality counts files, too",
    "decode": (
        "write decode_image(column), decode_audio(column), cast(txt='string') or cast(cls=int); other members are "
        "decoded with map"
    ),
    "drop_nulls": _NOT_MISSING,
    **dict.fromkeys(("iloc", "loc"), "write ds[i], ds[a:b] or select_rows([...])"),
    **dict.fromkeys(("isna", "isnull"), "write filter(fb.col('x').is_null()), or ds.describe() for their numbers"),
    **dict.fromkeys(("max", "mean", "median", "min", "nunique", "quantile", "std", "sum"), "write ds.describe()"),
    **dict.fromkeys(("dtypes", "info"), "write schema, and ds.describe() for statistics"),
    "dropna": _NOT_MISSING,
    "duplicate": "write with_column('copy', fb.col('x'))",
    "dynamic_batch": _BY_TOKENS,
    "element_spec": "write schema",
    "features": "write schema",
    "fill_nan": "write with_column('x', fb.where(fb.col('x').is_nan(), 0.0, fb.col('x')))",
    "fillna": "write fill_null('x', 0) of missing values; nan that is not missing stays, as in polars",
    "fingerprint": "write dataset_id",
    "first": "write ds[0]",
    "flatten": "structs come as columns, outer.inner",
    "flatten_indices": "leave it out: a shuffle has no indices",
    "get_single_element": "write ds[0]",
    "group_by": _BY_KEY,
    "groupby": _BY_KEY,
    "head": "write take(5), or show(5)",
    "ignore_errors": "write iter(on_error='skip')",
    "iter_batches": "write batch(n).iter()",
    "iter_jax_batches": "write batch(n).to_jax()",
    "iter_rows": "write iter()",
    "iterrows": "write iter()",
    "itertuples": "write iter()",
    "iter_torch_batches": "write batch(n).to_torch()",
    "large_scale_jitter": "write resize(column, size).random_affine(column, 0, scale=(0.1, 2.0))",
    "limit": "write take(n)",
    "load_state_dict": "iterators have states: it = ds.iter(); it.load_state_dict(state)",
    "map_dict": _PARTS,
    "map_tuple": _PARTS,
    "map_with_index": _NUMBERED,
    "materialize": "write cache(), or save(folder)",
    "max_tokens": _BY_TOKENS,
    "max_tokens_per_batch": _BY_TOKENS,
    "mp_prefetch": _LEFT_OUT,
    "num_columns": "write len(ds.schema)",
    "merge": "write join(table, on='key')",
    "options": "leave it out: explain() shows what is chosen here",
    "oversample": _WEIGHTED,
    "pipe": "call the function: fn(ds)",
    "prefetch_to_device": "to_jax() and to_torch(device='cuda') copy batches ahead",
    "push_to_hub": "write save(folder, format='parquet'), and upload the folder",
    "query": "write filter(fb.col('x') > 3)",
    "random_map": "write map(fn) with fn(row, rng)",
    "random_shuffle": "write shuffle()",
    "reduce": "keep the state where you iterate: ops see single samples",
    "rejection_resample": _SHARE,
    "rename_keys": "write rename(old='new')",
    "rsample": "write filter(lambda row, rng: rng.random() < p)",
    "save_to_disk": "write save(folder)",
    "sample": "write shuffle().take(n); a share of the samples is split(0.1)[0]",
    "seed": "write iter(seed=1)",
    "set_transform": "write map(fn)",
    "shape": "len(ds) and len(ds.schema) are its parts",
    "size": "write len(ds)",
    "slice": "write ds[a:b]",
    "snapshot": "write cache(), or save(folder)",
    "sparse_batch": "write batch(n, pad=0, lengths=...), which pads and tells the lengths",
    "state_dict": "iterators have states: it = ds.iter(); it.state_dict()",
    "simple_copy_paste": _COPY_PASTE,
    "tail": "write ds[-5:]",
    "to_arrow": _ROWS,
    "to_csv": _SAVED.format("csv"),
    "to_dict": _ROWS,
    "to_dicts": "write list(ds)",
    "to_iter_dataset": _BY_INDEX,
    "to_iterable_dataset": _BY_INDEX,
    "to_json": _SAVED.format("jsonl"),
    "to_list": "write list(ds)",
    "to_numpy": "batches are NumPy arrays; all samples in one are ds.batch(len(ds))[0]",
    "to_pandas": _ROWS,
    "to_parquet": "write save(folder, format='parquet')",
    "to_polars": _ROWS,
    "to_tfrecord": _SAVED.format("tfrecord"),
    "to_tfrecords": _SAVED.format("tfrecord"),
    "to_tensor": "write normalize(column, mean=[0, 0, 0], std=[1, 1, 1], layout='CHW'), and to_torch() at the end",
    "to_tuple": "write select('jpg', 'cls'): samples are dictionaries",
    "to_pylist": "write list(ds)",
    "to_webdataset": "write save(folder, format='tar')",
    "unbatched": "leave batch out: samples come one by one without it; map(fn, batched=True) gets many at once",
    "union": _CHAIN,
    "value_counts": "write ds.describe()['x'].top",
    "weighted": _WEIGHTED,
    "where": "write filter(expression)",
    "with_columns": "write with_column(name, expression), once for each",
    "with_epoch": "itertools.islice(ds.iter(epochs=None), n) ends after n batches",
    "with_length": "leave it out: cardinality counts the samples",
    "with_options": "leave it out: explain() shows what is chosen here",
    "with_transform": "write map(fn)",
    "write_csv": _SAVED.format("csv"),
    "write_json": _SAVED.format("jsonl"),
    "write_ndjson": _SAVED.format("jsonl"),
    "write_parquet": "write save(folder, format='parquet')",
    "write_tfrecords": _SAVED.format("tfrecord"),
    "write_webdataset": "write save(folder, format='tar')",
}

#: Of iterators.
ITERATORS: Mapping[str, str] = {
    "get_next": "write next(it)",
    "get_state": "write state_dict()",
    "restore": "write load_state_dict(state)",
    "save": "state_dict() is small, and plain JSON: save it with the model",
    "set_state": "write load_state_dict(state)",
    "start_prefetch": "leave it out: an iterator starts at the first next(it)",
}

#: Of the package.
FUNCTIONS: Mapping[str, str] = {
    "AUTOTUNE": "leave it out: threads and prefetching are chosen here",
    "choose_from_datasets": _CHOOSE,
    "concat": "write fb.concatenate([a, b]) of datasets, fb.concat_str of texts, fb.stack of numbers side by side",
    "concatenate_datasets": _CHAIN,
    "from_huggingface": "write from_hf(dataset)",
    "from_list": "write from_dict({'x': [...]}), or from_map_dataset(rows)",
    "from_pandas": "write from_table(frame)",
    "from_polars": "write from_table(frame)",
    "from_tensor_slices": "write from_numpy({'x': x, 'y': y})",
    "interleave_datasets": "write fb.interleave([a, b]), which takes turns; with probabilities, fb.mix",
    "load_dataset": "write from_parquet('hf://datasets/ORG/NAME/**/*.parquet'), or from_hf(datasets.load_dataset(...))",
    "sample_from_datasets": _MIX,
    "when": "write fb.where(condition, yes, no)",
}


_COCO = (
    "write the annotations as a line for each image, for from_jsonl: docs/recipes/detection.md#from-cocos-annotations"
)

#: Of the package: classes and functions that read or write files in other libraries.
READERS: Mapping[str, str] = {
    "ArrayRecordDataSource": "write from_array_record(paths)",
    "CocoDetection": _COCO,
    "CsvDataset": "write from_csv(paths)",
    "DataLoader": "iterate over a dataset with batch(n), or over its to_torch()",
    "ImageFolder": "write from_image_folder(root)",
    "IterDataset": "write from_generator(function)",
    "MapDataset": "write from_map_dataset(source)",
    "MDSWriter": "write ds.save(folder, format='mds')",
    "ShardWriter": "write ds.save(folder, format='tar')",
    "StreamingDataset": "write from_mds(folder)",
    "TFRecordDataset": "write from_tfrecord(paths)",
    "TextLineDataset": "write from_text(paths)",
    "WebDataset": "write from_tar(paths)",
    "WeightedRandomSampler": _WEIGHTED,
    "from_coco": _COCO,
    "from_feather": "write from_arrow(paths)",
    "from_tensors": "write from_numpy({'x': x[None]})",
    "from_webdataset": "write from_tar(paths)",
    "image_dataset_from_directory": "write from_image_folder(root)",
    "list_files": "write from_files(pattern); the other sources accept patterns, too",
    "split_dataset_by_node": "write iter(consumers=(rank, world)), or to_torch(consumers='auto'), which finds its rank",
    "text_dataset_from_directory": (
        "write from_files(root + '/*/*.txt').with_column('text', fb.col('bytes').cast(str)).with_column('label', "
        "fb.col('path').str.split('/', -2).lookup({'neg': 0, 'pos': 1}, default=-1))"
    ),
    "timeseries_dataset_from_array": "write from_numpy({'x': series}).window(size, stride=1)",
    "load_from_disk": "write from_hf(datasets.load_from_disk(folder)), or from_arrow(folder + '/data-*.arrow')",
    "make_batched_features_dataset": "write from_tfrecord(paths, features={...})",
    "make_csv_dataset": "write from_csv(paths)",
    "read_csv": "write from_csv(paths)",
    "read_images": "write from_files(paths), or from_image_folder(root)",
    "read_json": "write from_jsonl(paths) for an object in each line, from_json(paths) for an array of objects",
    "read_parquet": "write from_parquet(paths)",
    "read_text": "write from_text(paths)",
    "read_tfrecords": "write from_tfrecord(paths)",
    "read_webdataset": "write from_tar(paths)",
}


def public_names(owner: object, asked: str) -> list[str]:
    """Returns the names that an object has for users; none if the name that was asked for is not for users."""
    return [] if asked.startswith("_") else [name for name in dir(type(owner)) if not name.startswith("_")]


def missing(owner: str, name: str, known: Mapping[str, str], names: list[str]) -> AttributeError:
    """Returns the error for a name that does not exist, with the code to write instead or the nearest name.

    >>> missing("Dataset", "padded_batch", METHODS, [])
    AttributeError('Dataset has no padded_batch; write batch(n, pad=0): pad= is padding_values, pad_to= padded_shapes')
    >>> missing("Dataset", "shufle", METHODS, ["shuffle"])
    AttributeError('Dataset has no shufle; did you mean shuffle?')
    """
    near = difflib.get_close_matches(name, names, 1)
    hint = known.get(name) or (f"did you mean {near[0]}?" if near else "")
    return AttributeError(f"{owner} has no {name}" + (f"; {hint}" if hint else ""))
