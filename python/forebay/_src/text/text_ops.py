"""Ops on text, which make token ids and rows of one length."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.site import site
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forebay._src.dataset import Dataset


class TextOps(Base):
    """Ops on a column of texts or token ids."""

    __slots__ = ()

    @explained(
        'tokenize("text", "tokenizer.json", output="ids", max_length=512)',
        padding="batch(n, pad=0) pads ids to the longest of a batch, and pad_to=512 to one length",
        return_overflowing_tokens="of overlapping parts: flat_map(fn), with tokenizer.encode(text).overflowing",
        return_tensors="leave it out: batches are NumPy arrays, and to_torch() yields tensors",
        stride="of overlapping parts: flat_map(fn), with tokenizer.encode(text).overflowing",
        text_pair="of two texts: map(fn), with the tokenizer's encode(first, second)",
        truncation="write max_length=512",
    )
    def tokenize(
        self,
        column: str,
        tokenizer: Any,
        *,
        output: str | None = None,
        add_special_tokens: bool = True,
        max_length: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Turns text into token ids, by a Hugging Face tokenizer run in Rust on all threads.

        The ids are those of `tokenizer.encode(text).ids`, with the tokenizer's truncation and padding; for a tokenizer
        of `transformers`, those of `tokenizer(text).input_ids`, with neither. The tokenizer travels with the pipeline,
        and its content is part of the `dataset_id`.

        Args:
            column: The column of texts.
            tokenizer: The path of a `tokenizer.json`; a `tokenizers.Tokenizer`; or a fast tokenizer of `transformers`.
            output: The column of ids, int32, of differing lengths. Default: in place of the text.
            add_special_tokens: Whether to add the tokenizer's special tokens to each text (`[CLS]`, `</s>`).
            max_length: The most ids of a text, special ones included; the end is cut off. Default: the tokenizer's own
                truncation, or no limit.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the column of ids.

        >>> import forebay as fb
        >>> words = {"model": {"type": "WordLevel", "vocab": {"?": 0, "to": 1, "be": 2, "or": 3}, "unk_token": "?"}}
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
        >>> _ = path.write_text(json.dumps({**words, "pre_tokenizer": {"type": "Whitespace"}}))
        >>> ds = fb.from_dict({"text": ["to be or not", "to be"]}).tokenize("text", path)
        >>> [row["text"].tolist() for row in ds]
        [[1, 2, 3, 0], [1, 2]]
        """
        op = {
            "op": "tokenize",
            "column": column,
            "output": column if output is None else output,
            "tokenizer": "{blob}",
            "add_special_tokens": arguments.flag(add_special_tokens, "tokenize", "add_special_tokens"),
            "max_length": None if max_length is None else arguments.whole(max_length, "tokenize", "max_length", 1),
        }
        return self._then(op, keep_position, name, tokenizer_json(tokenizer))

    @explained(
        block_size="write pack(column, 1024)",
        eos_token="write eos_id=tokenizer.token_to_id(token)",
        max_length="write pack(column, 1024)",
        pad_token="write pad_id=tokenizer.token_to_id(token)",
        seq_length="write pack(column, 1024)",
    )
    def pack(
        self,
        column: str | Iterable[str],
        length: int,
        *,
        strategy: Literal["concat", "first_fit", "best_fit"] = "concat",
        eos_id: int | None = None,
        pad_id: int = 0,
        pad: Mapping[str, float] | None = None,
        segments: bool | None = None,
        cu_seqlens: bool = False,
        window: int | None = None,
        drop_remainder: bool = False,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Packs token lists of all lengths into rows of exactly `length` tokens, the training sequences of a model.

        It works on the stream in order, so `shuffle` and `repeat` come before it. Only its own columns are left:
        `column`, int32, and with `segments` also `position_ids` (a token's place in its document's part of the row,
        from 0) and `segment_ids` (its document, numbered from 1 in each row; 0 is padding), both int32.

        Of several columns, the first has the ids, and the others (labels, masks, weights) are cut and placed as the ids
        are. Their lists are as long as the ids in each row, and keep their dtype.

        - `"concat"`: end to end. A row is the next `length` tokens, and documents are cut where a row ends. Only the
          last row of an epoch may be padded.
        - `"first_fit"`: documents stay whole, each in the first row of its window with room for it.
        - `"best_fit"`: documents stay whole, the longest of a window first, each in the row that it leaves the least
          room in: less padding, and documents in another order within the window.

        A document of more than `length` tokens cannot stay whole: it fills rows of its own, and its rest is packed like
        a document. With several consumers each packs its own documents.

        Args:
            column: The column of token ids, int32; or several columns, that one first.
            length: Tokens of a row.
            strategy: The placement of documents in rows.
            eos_id: The id at the end of each document. Default: none.
            pad_id: The id that fills a row that is not full.
            pad: For each further column, the number that fills a row that is not full, and stands beside `eos_id`:
                `{"labels": -100}`.
            segments: Whether there are `position_ids` and `segment_ids`. Default: yes if documents stay whole.
            cu_seqlens: Whether there is a column `cu_seqlens`, int32[?], of the bounds of a row's documents: 0, and the
                end of each, without padding.
            window: The number of documents that `"first_fit"` and `"best_fit"` pack together, 4096 by default: a larger
                one leaves less padding. It ends sooner when its documents would fill as many rows as it has documents.
            drop_remainder: Whether `"concat"` leaves out a last row that would be padded.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset of packed rows.

        >>> import forebay as fb, numpy as np
        >>> lists = lambda row: {"ids": np.arange(1, row["id"] + 1, dtype=np.int32)}
        >>> ds = fb.range(5).map(lists, schema={"ids": ("int32", (None,))})
        >>> [row["ids"].tolist() for row in ds.pack("ids", 4, eos_id=9)]
        [[9, 1, 9, 1], [2, 9, 1, 2], [3, 9, 1, 2], [3, 4, 9, 0]]
        >>> [row["segment_ids"].tolist() for row in ds.pack("ids", 4, strategy="best_fit")]
        [[1, 2, 2, 2], [1, 1, 0, 0], [1, 1, 1, 1]]
        >>> both = ds.with_column("labels", fb.col("ids") * 10).pack(["ids", "labels"], 6, pad={"labels": -100})
        >>> [row["labels"].tolist() for row in both]
        [[10, 10, 20, 10, 20, 30], [10, 20, 30, 40, -100, -100]]
        """
        if strategy not in ("concat", "first_fit", "best_fit"):
            raise InvalidPipelineError(
                f"pack: unknown strategy {strategy!r}", {"hint": "use 'concat', 'first_fit' or 'best_fit'"}
            )
        with_segments = arguments.flag_or_none(segments, "pack", "segments")
        drops = arguments.flag(drop_remainder, "pack", "drop_remainder")
        ids, along = _along(column, pad, [name for name, *_ in self._pipeline.schema])
        self._check_ids(ids)
        op: dict[str, Any] = {
            "op": "pack",
            "column": ids,
            "length": arguments.whole(length, "pack", "length", 1),
            "strategy": strategy,
            "eos_id": None if eos_id is None else arguments.whole(eos_id, "pack", "eos_id", *_INT32),
            "pad_id": arguments.whole(pad_id, "pack", "pad_id", *_INT32),
        }
        if along:
            op["along"] = along
        if arguments.flag(cu_seqlens, "pack", "cu_seqlens"):
            op["cu_seqlens"] = True
        if strategy == "concat":
            if window is not None:
                raise InvalidPipelineError("pack: concat has no window", {"hint": "leave window= out"})
            op |= {"segments": with_segments or False, "drop_remainder": drops}
        else:
            if with_segments is False or drops:
                wrong = "drop_remainder=True" if drops else "segments=False"
                raise InvalidPipelineError(f"pack: {wrong} goes with strategy='concat' alone", {"hint": "leave it out"})
            op["window"] = 4096 if window is None else arguments.whole(window, "pack", "window", 1)
        return self._then(op, keep_position, name)

    def _check_ids(self, ids: str) -> None:
        """Refuses ids of another integer type, with the cast to write."""
        for name, dtype, shape, *_ in self._pipeline.schema:
            if name == ids and shape == [None] and "int" in dtype and dtype != "int32":
                hint = f'it packs lists of int32: put .cast({{{ids!r}: "int32"}}) in front of it'
                raise InvalidPipelineError(f'pack: column "{ids}" is {dtype}[?]', {"column": ids, "hint": hint})


def _along(
    column: str | Iterable[str], pad: Mapping[str, float] | None, known: Sequence[str]
) -> tuple[str, list[dict[str, Any]]]:
    """Returns the column of ids, and the columns along it with what pads them; `known` are the columns of a sample."""
    usage = 'pad={"labels": -100} names each column behind the first'
    arguments.mapping({} if pad is None else pad, "pack", "pad", usage)
    padding = {} if pad is None else dict(pad)
    names = [column] if isinstance(column, str) else arguments.columns(column, "pack", "column") or []
    if not names:
        raise InvalidPipelineError("pack: no column was given", {"hint": 'pack(["input_ids", "labels"], 4096)'})
    if len(set(names)) < len(names):
        raise InvalidPipelineError("pack: a column is named twice", {"hint": "name each column once"})
    ids, *others = names
    for name in others:
        arguments.known_column("pack", name, known)
    if wrong := set(padding) ^ set(others):
        raise InvalidPipelineError(
            f"pack: pad= and the columns behind {ids!r} differ: {', '.join(sorted(map(str, wrong)))}",
            {"hint": f"{usage}; pad_id= is for {ids!r}"},
        )
    return ids, [{"column": name, "pad": arguments.number(padding[name], "pack", "pad")} for name in others]


def tokenizer_json(tokenizer: Any, op: str = "tokenize", whole_texts: bool = False) -> bytes:
    """Returns a tokenizer as JSON: the same bytes for the same tokenizer, from a file or an object.

    With `whole_texts`, it neither cuts nor pads.
    """
    parse_float: Callable[[str], float] = float
    if isinstance(tokenizer, (str, os.PathLike)):
        text, parse_float = _tokenizer_file(Path(arguments.path(tokenizer, op)), op), _score
    else:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            message = f"{op}: a {type(tokenizer).__name__} is no tokenizer that runs in Rust"
            raise InvalidPipelineError(message, {"hint": _HINT})
        text = backend.to_str()
    try:
        content = json.loads(text, parse_float=parse_float)
        if whole_texts or hasattr(tokenizer, "backend_tokenizer"):
            # Each call of a `transformers` tokenizer sets these, so they are not part of the tokenizer.
            content["truncation"] = content["padding"] = None
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidPipelineError(f"{op}: this is no tokenizer.json: {error}", {"hint": _HINT}) from None
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _tokenizer_file(path: Path, op: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        file, line = site()
        context = {"file": str(path), "op": op, "line": f"{file}:{line}", "hint": _HINT}
        raise MissingFileError("there is no such tokenizer", context) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPipelineError(f"{op}: {str(path)!r} cannot be read: {error}", {"hint": _HINT}) from None


def _score(text: str) -> float:
    """Parses a number of a file as the `tokenizers` package does: digits, then a power of ten, each rounded.

    One score in ten differs from the nearest float in its last bit, and scores that tie decide the ids.
    """
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent or 0) - len(fraction)
    if len(whole + fraction) > 19 or not -308 <= power <= 308:
        return float(text)
    number = float(int(whole + fraction))
    number = number / float(f"1e{-power}") if power < 0 else number * float(f"1e{power}")
    return -number if text.startswith("-") else number


_INT32 = (-(2**31), 2**31 - 1)
_HINT = (
    "give the path of a tokenizer.json, a tokenizers.Tokenizer, or a fast tokenizer of transformers; of a name on the "
    "hub, tokenizers.Tokenizer.from_pretrained(name)"
)
