"""Ops on text: to token ids."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.base import Base
from forebay.errors import InvalidPipelineError, NotFoundError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class TextOps(Base):
    """Ops on a column of texts."""

    __slots__ = ()

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

        The tokenizer travels with the pipeline, and its content is part of the `dataset_id`. The truncation and the
        padding that it was saved with are left out.

        Args:
            column: The column of texts.
            tokenizer: The path of a `tokenizer.json`; or a `tokenizers.Tokenizer`; or one of `transformers`' fast ones.
            output: The column of ids, int32, of differing lengths. Default: in place of the text.
            add_special_tokens: Whether each text is framed as the tokenizer was trained to (`[CLS]`, `</s>`).
            max_length: The most ids of a text, special ones included; the end is cut off. Default: all are kept.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.

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
            "add_special_tokens": bool(add_special_tokens),
            "max_length": None if max_length is None else arguments.whole(max_length, "tokenize", "max_length", 1),
        }
        return self._then(op, keep_position, name, _tokenizer_json(tokenizer))


def _tokenizer_json(tokenizer: Any) -> bytes:
    """Returns a tokenizer as JSON: the same bytes for the same tokenizer, wherever it comes from."""
    if isinstance(tokenizer, (str, os.PathLike)):
        path = Path(tokenizer)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotFoundError(f"tokenize: there is no file {str(path)!r}", {"hint": _HINT}) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidPipelineError(f"tokenize: {str(path)!r} cannot be read: {error}", {"hint": _HINT}) from None
    else:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            message = f"tokenize: a {type(tokenizer).__name__} is no tokenizer that runs in Rust"
            raise InvalidPipelineError(message, {"hint": _HINT})
        text = backend.to_str()
    try:
        content = json.loads(text)
        # A call of a `transformers` tokenizer changes these; they are not used, and must not change the dataset's id.
        content["truncation"] = content["padding"] = None
    except (ValueError, TypeError) as error:
        raise InvalidPipelineError(f"tokenize: this is no tokenizer.json: {error}", {"hint": _HINT}) from None
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


_HINT = "give the path of a tokenizer.json, a tokenizers.Tokenizer, or a fast tokenizer of transformers"
