"""Ops that make of token ids what a model trains on, at random: masks, spans, middles, prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forebay._src.dataset import Dataset

_INT32 = (-(2**31), 2**31 - 1)


class TrainingOps(Base):
    """Ops on a column of token ids. Each draws by (seed, epoch, sample), so a row differs from epoch to epoch."""

    __slots__ = ()

    @explained(
        'mask_tokens("input_ids", mask_id=103, vocab_size=30522, special_ids=[101, 102])',
        mlm_probability="write probability=0.15",
        mask_replace_prob="write mask_replace=0.8",
        random_replace_prob="write random_replace=0.1",
        tokenizer="write mask_id=tokenizer.mask_token_id, vocab_size=len(tokenizer) and special_ids=all_special_ids",
    )
    def mask_tokens(
        self,
        column: str,
        mask_id: int,
        vocab_size: int,
        *,
        probability: float = 0.15,
        mask_replace: float = 0.8,
        random_replace: float = 0.1,
        special_ids: Iterable[int] = (),
        labels: str = "labels",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Masks random ids, as BERT is trained.

        Each id that is not special is chosen with `probability`. Of the chosen ids, `mask_replace` become `mask_id`,
        `random_replace` become a random id, and the others stay. This is the rule of `DataCollatorForLanguageModeling`
        of `transformers`.

        Args:
            column: The column of ids, int32, which is changed in place.
            mask_id: The id of `[MASK]`.
            vocab_size: The number of ids of the vocabulary. A random id is less.
            probability: The probability with which an id is chosen.
            mask_replace: The share of chosen ids that become `mask_id`.
            random_replace: The share of chosen ids that become a random id.
            special_ids: Ids that are never chosen: `tokenizer.all_special_ids`.
            labels: The column of labels, int32: the chosen ids, and -100 for all others.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with masked ids and labels.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"ids": np.arange(10, 20, dtype=np.int32)[None]})
        >>> ds = ds.map(lambda row: row, schema={"ids": ("int32", (None,))})
        >>> ds = ds.mask_tokens("ids", mask_id=3, vocab_size=100, probability=0.4, random_replace=0, mask_replace=1)
        >>> row = next(iter(ds))
        >>> bool(((row["ids"] == 3) == (row["labels"] != -100)).all())
        True
        """
        op = {
            "op": "mask_tokens",
            "column": column,
            "labels": labels,
            "mask_id": arguments.whole(mask_id, "mask_tokens", "mask_id", *_INT32),
            "vocab_size": arguments.whole(vocab_size, "mask_tokens", "vocab_size", 1),
            "probability": arguments.number(probability, "mask_tokens", "probability"),
            "mask_replace": arguments.number(mask_replace, "mask_tokens", "mask_replace"),
            "random_replace": arguments.number(random_replace, "mask_tokens", "random_replace"),
            "special_ids": sorted(set(_ids(special_ids, "mask_tokens", "special_ids"))),
        }
        return self._then(op, keep_position, name)

    @explained(
        'corrupt_spans("input_ids", range(32099, 31999, -1), eos_id=1)',
        mean_noise_span_length="write mean_length=3.0",
        noise_density="write density=0.15",
    )
    def corrupt_spans(
        self,
        column: str,
        sentinel_ids: Iterable[int],
        *,
        density: float = 0.15,
        mean_length: float = 3.0,
        eos_id: int | None = None,
        labels: str = "labels",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Replaces random spans of ids with sentinels, as T5 is trained.

        `density` of a row's ids, rounded, lie in spans; the number of spans is that number divided by `mean_length`,
        rounded, at least one and at most the number of sentinels. All divisions into spans are equally likely, and a
        row begins with an id outside a span. A row of fewer than two ids has no span; its labels are `eos_id` alone.

        Args:
            column: The column of ids, int32, which is changed in place: each span becomes a sentinel.
            sentinel_ids: The sentinels, in the order in which they are used. T5: `range(32099, 31999, -1)`.
            density: The share of ids that lie in spans, between 0 and 1.
            mean_length: The mean number of ids of a span, 1 or more.
            eos_id: The id at the end of both lists. Default: none.
            labels: The column of the spans, int32, each behind its sentinel.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the shortened ids and the spans.

        >>> import forebay as fb, numpy as np
        >>> lists = {"ids": ("int32", (None,))}
        >>> ds = fb.range(1).map(lambda row: {"ids": np.arange(10, 14, dtype=np.int32)}, schema=lists)
        >>> row = next(iter(ds.corrupt_spans("ids", [99, 98], density=0.5, mean_length=2, eos_id=1)))
        >>> row["ids"].tolist(), row["labels"].tolist()
        ([10, 11, 99, 1], [99, 12, 13, 1])
        """
        op = {
            "op": "corrupt_spans",
            "column": column,
            "labels": labels,
            "sentinel_ids": _ids(sentinel_ids, "corrupt_spans", "sentinel_ids"),
            "density": arguments.number(density, "corrupt_spans", "density"),
            "mean_length": arguments.number(mean_length, "corrupt_spans", "mean_length"),
            "eos_id": None if eos_id is None else arguments.whole(eos_id, "corrupt_spans", "eos_id", *_INT32),
        }
        return self._then(op, keep_position, name)

    @explained(
        'fill_in_middle("text", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", rate=0.5)',
        fim_rate="write rate=0.5",
        fim_spm_rate="write spm_rate=0.5",
    )
    def fill_in_middle(
        self,
        column: str,
        prefix: int | str,
        suffix: int | str,
        middle: int | str,
        *,
        rate: float = 0.5,
        spm_rate: float = 0.5,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Moves a random middle part to the end, at random, so that a model learns to fill gaps.

        A row that is changed is cut at two places, all pairs equally likely. Its parts come as `prefix` P `suffix` S
        `middle` M, or, with `spm_rate`, as `prefix` `suffix` S `middle` P M. Texts are cut between characters, before
        `tokenize`; ids are cut between ids, behind it.

        Args:
            column: The column of texts or of ids, int32, which is changed in place.
            prefix: The mark of the prefix: its text for texts, or its id for ids.
            suffix: The mark of the suffix.
            middle: The mark of the middle part.
            rate: The probability with which a row is changed.
            spm_rate: The probability with which the suffix of a changed row comes first.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the changed column.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"text": ["def f(): return 1"] * 2})
        >>> for row in ds.fill_in_middle("text", "<P>", "<S>", "<M>", rate=1, spm_rate=0).iter(seed=1):
        ...     _, before, after, between = row["text"].replace("<S>", "<P>").replace("<M>", "<P>").split("<P>")
        ...     print(before + between + after)
        def f(): return 1
        def f(): return 1
        """
        tokens = (prefix, suffix, middle)
        if all(isinstance(token, str) for token in tokens):
            marks: list[Any] = list(tokens)
        elif any(isinstance(token, str) for token in tokens):
            hint = "give three texts for a column of texts, or three ids for a column of ids"
            raise InvalidPipelineError("fill_in_middle: some marks are texts, and some are ids", {"hint": hint})
        else:
            marks = _ids(tokens, "fill_in_middle", "marks")
        op = {
            "op": "fill_in_middle",
            "column": column,
            "tokens": marks,
            "rate": arguments.number(rate, "fill_in_middle", "rate"),
            "spm_rate": arguments.number(spm_rate, "fill_in_middle", "spm_rate"),
        }
        return self._then(op, keep_position, name)

    def prefix_lm(
        self,
        column: str,
        *,
        labels: str = "labels",
        prefix_length: str = "prefix_length",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Divides each row at random into a prefix, which a model sees as a whole, and a part that it learns.

        The length of the prefix is uniform from 1 to all ids but one. A row of fewer than two ids is all prefix.

        Args:
            column: The column of ids, int32, which stays.
            labels: The column of labels, int32: -100 in the prefix, and the ids behind it.
            prefix_length: The column of the number of ids of the prefix, int32.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with labels and the length of the prefix.

        >>> import forebay as fb, numpy as np
        >>> lists = {"ids": ("int32", (None,))}
        >>> ds = fb.range(1).map(lambda row: {"ids": np.array([7, 8], np.int32)}, schema=lists)
        >>> row = next(iter(ds.prefix_lm("ids")))
        >>> row["labels"].tolist(), int(row["prefix_length"])
        ([-100, 8], 1)
        """
        op = {
            "op": "prefix_lm",
            "column": column,
            "labels": arguments.text(labels, "prefix_lm", "labels"),
            "prefix_length": arguments.text(prefix_length, "prefix_lm", "prefix_length"),
        }
        return self._then(op, keep_position, name)


def _ids(value: Any, op: str, name: str) -> list[int]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise InvalidPipelineError(f"{op}: {name} is a list of ids, not {arguments.shown(value)}")
    return [arguments.whole(number, op, name, *_INT32) for number in value]
