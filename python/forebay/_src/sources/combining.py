"""Datasets that are read as one: a mix, one after the other, or side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.ops.access_ops import AccessOps
from forebay._src.site import site
from forebay._src.sources.mix_schedule import Schedule, Weights
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

_MIX_USAGE = 'mix({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3})'


class CombineOps(AccessOps):
    """Puts another dataset behind this one."""

    __slots__ = ()

    def concatenate(self, *others: Dataset, source: str | None = None) -> Dataset:
        """The samples of this dataset, then those of the others, as `fb.concatenate` does.

        Args:
            *others: Datasets with the same columns, in any order.
            source: The name of a new column with the number of each sample's dataset, as text. Default: none.

        >>> import forebay as fb
        >>> [int(row["id"]) for row in fb.range(2).concatenate(fb.range(5, 7))]
        [0, 1, 5, 6]
        """
        return _combine("concatenate", "concatenate", _numbered("concatenate", (self, *others)), source)

    @explained(
        "window(8, stride=1, drop_remainder=True)",
        shift="write stride=: the samples between the starts of two windows",
    )
    def window(self, size: int, *, stride: int | None = None, drop_remainder: bool = False) -> Dataset:
        """Samples that are windows of `size` neighbouring samples, which may overlap.

        Each column becomes a list: numbers and arrays are stacked along a new first dimension, strings become lists of
        strings. It is tf.data's `window` with `batch`, whose `shift` is `stride` here. The dataset may have the ops
        that those of `zip` may have: put `shuffle` behind, where it moves whole windows. Rows that windows share are
        read, and computed, once for each chunk of rows.

        Args:
            size: The samples of a window, 1 to 65,536.
            stride: The samples between the starts of two windows. Default: `size`, so that windows do not overlap.
            drop_remainder: Whether windows at the end that have fewer samples are left out. Then columns have a fixed
                shape (`float32[8]`), else one that differs (`float32[?]`).

        Raises:
            InvalidPipelineError: The samples are not counted, or a column holds bytes, lists, or numbers that may be
                missing.

        >>> import forebay as fb
        >>> ds = fb.range(5).window(3, stride=1, drop_remainder=True)
        >>> ds.schema
        Schema(id: int64[3])
        >>> [row["id"].tolist() for row in ds]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        >>> [row["id"].tolist() for row in fb.range(5).window(3)]
        [[0, 1, 2], [3, 4]]
        """
        rows = arguments.whole(size, "window", "size", 1)
        how = {
            "size": rows,
            "stride": rows if stride is None else arguments.whole(stride, "window", "stride", 1),
            "drop_remainder": arguments.flag(drop_remainder, "window", "drop_remainder"),
        }
        return _combine("window", {"window": how}, _numbered("window", (self,)), None)


@explained(
    _MIX_USAGE,
    batching_method="write per_batch=n for 'stratified'; for batches of one dataset, source='s' and batch_by_key",
    probabilities='write weights={"web": 0.7, "code": 0.3}',
    seed="leave it out: the seed is that of the iteration, as in iter(seed=1)",
    stop_on_empty_dataset='write stop="first", the default, or "once", in which each sample comes once',
    stopping_strategy='write stop="first" for first_exhausted, "all" for all_exhausted, "once" for each sample once',
)
def mix(
    datasets: Mapping[str, Dataset] | Sequence[Dataset],
    *,
    weights: Weights | Schedule | None = None,
    stop: Literal["first", "all", "once"] | None = "first",
    rows: int | None = None,
    source: str | None = None,
    per_batch: int | None = None,
) -> Dataset:
    """Samples of several datasets, in shares that hold in every window of 1,024 samples.

    Each dataset keeps its order, its ops and its shuffle. In a window of 1,024 samples, a dataset with the share `w`
    has `1024 * w` of them, rounded up or down; over many windows the shares are exact. The order within a window
    follows from the seed and the epoch. A dataset that begins again is shuffled anew.

    Datasets may have row ops and order ops (`map`, `tokenize`, `shuffle`, `take`, `split`, …), and `filter`, `pack` and
    `flat_map`. With one of these, or a generator, the number of samples is known only when they were read: what needs
    the number (`shuffle`, `repeat`, `cache`) cannot come behind such a mix. `batch` and `cache` cannot come before it.

    Args:
        datasets: The datasets by name, or a list of them; 2 to 1,000. All have the same columns, in any order.
        weights: A positive number for each dataset: by name, or in the order of the list. Any sum will do. Default:
            the same for all. Weights that change with the rows of an epoch are an `fb.schedule`.
        stop: When an epoch ends. `"first"`: when one dataset has been read whole, so that no sample comes twice.
            `"all"`: when all have been read whole; the shorter ones begin again. `"once"`: when each sample came once;
            a dataset that has ended is left out, and the others keep the ratio of their weights. None: never.
        rows: Ends an epoch after so many samples, and begins datasets again as needed. With the default of `stop`, or
            None.
        source: The name of a new column with the name of each sample's dataset. Default: none.
        per_batch: The number of samples of a batch: a power of two, at most 1,024. Each batch then has the share of
            each dataset, rounded down or up. Default: only windows have these shares.

    Raises:
        InvalidPipelineError: The datasets have other columns, a weight is no positive number, or an op of a dataset
            has to come behind the mix.

    >>> import forebay as fb
    >>> web, code = fb.range(0, 70).shuffle(), fb.range(1000, 1030).shuffle()
    >>> ds = fb.mix({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3}, source="source")
    >>> rows = list(ds)
    >>> len(rows), sum(row["source"] == "code" for row in rows)
    (100, 30)
    >>> even = fb.range(0, 100).filter(fb.col("id") % 2 == 0)
    >>> [int(row["id"]) for row in fb.mix([even, fb.range(1000, 1100)], rows=8).iter(seed=1)]
    [1000, 0, 1001, 2, 4, 6, 1002, 1003]
    >>> batches = fb.mix([web, code], weights=[3, 1], source="source", per_batch=4).batch(4)
    >>> [int((batch["source"] == "1").sum()) for batch in batches.iter(seed=1)][:6]
    [1, 1, 1, 1, 1, 1]
    """
    parts = _named("mix", datasets)
    given = _shares(weights, [name for name, _ in parts], isinstance(datasets, Mapping))
    ends: Any = "never" if stop is None else arguments.choice(stop, "mix", "stop", "first", "all", "once")
    if rows is not None:
        if stop not in (None, "first"):
            raise InvalidPipelineError(
                f"mix: stop={stop!r} and rows={arguments.shown(rows)} both say when an epoch ends",
                {"hint": "leave one of them out"},
            )
        ends = {"rows": arguments.whole(rows, "mix", "rows", 1)}
    if per_batch is not None:
        given["per_batch"] = arguments.whole(per_batch, "mix", "per_batch", 2)
    return _combine("mix", {"mix": {**given, "stop": ends}}, parts, source)


@explained("concatenate([a, b])")
def concatenate(datasets: Iterable[Dataset] | Mapping[str, Dataset], *, source: str | None = None) -> Dataset:
    """The samples of several datasets, one dataset after the other.

    Datasets may have the same ops as those of `mix`. Shuffle behind it to put the samples of all into one random order.

    Args:
        datasets: A list of datasets, or datasets by name; 2 to 1,000. All have the same columns, in any order.
        source: The name of a new column with the name of each sample's dataset, or its number in the list, as text.
            Default: none.

    >>> import forebay as fb
    >>> [int(row["id"]) for row in concatenate([fb.range(2), fb.range(5, 7), fb.range(1)])]
    [0, 1, 5, 6, 0]
    """
    return _combine("concatenate", "concatenate", _named("concatenate", datasets), source)


@explained("interleave([a, b], cycle_length=2, block_length=16)")
def interleave(
    datasets: Iterable[Dataset] | Mapping[str, Dataset],
    *,
    cycle_length: int | None = None,
    block_length: int = 1,
    source: str | None = None,
) -> Dataset:
    """Blocks of samples of several datasets in turn, in the order of tf.data's `interleave`.

    Each sample comes once. Where one of the datasets that take turns ends, the next one of the list takes its turn.
    Datasets may have the same ops as those of `concatenate`. `mix` has shares instead of turns.

    Args:
        datasets: A list of datasets, or datasets by name; 2 to 1,000. All have the same columns, in any order.
        cycle_length: How many take turns. Default: all.
        block_length: The samples of one in its turn.
        source: The name of a new column with the name of each sample's dataset, or its number in the list, as text.
            Default: none.

    >>> import forebay as fb
    >>> ds = fb.interleave([fb.range(3), fb.range(10, 15), fb.range(20, 22)], cycle_length=2, block_length=2)
    >>> [int(row["id"]) for row in ds]
    [0, 1, 10, 11, 2, 12, 13, 20, 21, 14]
    """
    parts = _named("interleave", datasets)
    cycle = (
        max(len(parts), 1) if cycle_length is None else arguments.whole(cycle_length, "interleave", "cycle_length", 1)
    )
    how = {"cycle": cycle, "block": arguments.whole(block_length, "interleave", "block_length", 1)}
    return _combine("interleave", {"interleave": how}, parts, source)


@explained()
def zip(*datasets: Dataset, strict: bool = True) -> Dataset:
    """Samples with the columns of several datasets, which are read side by side.

    Sample `i` has the columns of sample `i` of each dataset. Datasets may have row ops, `take`, `skip`, `shard`,
    `split` and `select_rows`. Shuffle behind it: the columns of a sample stay together.

    Args:
        *datasets: 2 to 1,000 datasets whose columns have different names.
        strict: Whether all must have the same number of samples; an error says which one has not. With False, the rest
            of the longer ones is left out.

    >>> import forebay as fb
    >>> ds = zip(fb.range(3), fb.range(10, 13).rename(id="other"))
    >>> [(int(row["id"]), int(row["other"])) for row in ds]
    [(0, 10), (1, 11), (2, 12)]
    """
    if len(datasets) == 1 and isinstance(datasets[0], (list, tuple)):
        raise InvalidPipelineError("zip: one list was given, not datasets", {"hint": "write fb.zip(a, b)"})
    how = {"zip": {"strict": arguments.flag(strict, "zip", "strict")}}
    return _combine("zip", how, _numbered("zip", datasets), None)


def _named(op: str, datasets: Any) -> list[tuple[str, CombineOps]]:
    """Returns the datasets by name."""
    if isinstance(datasets, Mapping):
        for name in datasets:
            if not isinstance(name, str):
                raise InvalidPipelineError(
                    f"{op}: {arguments.shown(name)} is no name of a dataset", {"hint": "use strings as names"}
                )
        return [(name, _dataset(op, name, each)) for name, each in datasets.items()]
    if isinstance(datasets, CombineOps) or not isinstance(datasets, Iterable):
        usage = _MIX_USAGE if op == "mix" else f"{op}([a, b])"
        what = "one dataset" if isinstance(datasets, CombineOps) else type(datasets).__name__
        raise InvalidPipelineError(f"{op}: datasets is a list or a dictionary, not {what}", {"hint": f"write {usage}"})
    return _numbered(op, datasets)


def _numbered(op: str, datasets: Iterable[Any]) -> list[tuple[str, CombineOps]]:
    return [(str(number), _dataset(op, str(number), each)) for number, each in enumerate(datasets)]


def _dataset(op: str, name: str, value: Any) -> CombineOps:
    if isinstance(value, CombineOps):
        return value
    raise InvalidPipelineError(
        f"{op}: {name!r} is {arguments.shown(value)}, not a dataset",
        {"hint": "make datasets of arrays and files with from_numpy, from_parquet and the other sources"},
    )


def _shares(weights: Any, names: list[str], are_named: bool) -> dict[str, Any]:
    """Returns the weights of the first row, and how they change."""
    if not isinstance(weights, Schedule):
        return {"weights": _weights(weights, names, are_named)}
    (_, first), *others = weights.points
    points = [{"row": row, "weights": _weights(later, names, are_named)} for row, later in others]
    given: dict[str, Any] = {"weights": _weights(first, names, are_named)}
    return {**given, "changes": {"between": weights.between, "points": points}}


def _weights(weights: Any, names: list[str], are_named: bool) -> list[float]:
    """Returns a weight for each name."""
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, Mapping):
        unknown = [name for name in weights if name not in names]
        missing = [name for name in names if name not in weights]
        if unknown or missing:
            wrong = f"names {unknown[0]!r}, which is no dataset" if unknown else f"has none for {missing[0]!r}"
            raise InvalidPipelineError(
                f"mix: weights {wrong}", {"hint": "give one for each dataset: " + ", ".join(map(repr, names[:8]))}
            )
        return [arguments.number(weights[name], "mix", f"weights[{name!r}]") for name in names]
    if are_named or isinstance(weights, str) or not isinstance(weights, Iterable):
        raise InvalidPipelineError(f"mix: weights={arguments.shown(weights)}", {"hint": f"write {_MIX_USAGE}"})
    return [arguments.number(weight, "mix", f"weights[{place}]") for place, weight in enumerate(weights)]


def _combine(op: str, how: Any, parts: list[tuple[str, CombineOps]], column: str | None) -> Dataset:
    from forebay._src.dataset import Dataset

    if column is not None:
        arguments.text(column, op, "source")
    file, line = site()
    json = native_json.dumps({"how": how, "column": column}, op)
    native_json.dumps([name for name, _ in parts], op)
    pipelines = [(name, part._pipeline) for name, part in parts]
    return Dataset(_native.Pipeline.combine(json, pipelines, op, file, line))
