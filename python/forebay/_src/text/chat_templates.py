"""Finds the chat template of a tokenizer, and the special tokens that the template sees."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forebay._src import arguments
from forebay.errors import InvalidPipelineError, MissingFileError

#: The special tokens that templates know by name.
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
#: The most bytes of a file beside a tokenizer.
_FILE_MAX = 16 << 20
_HINT = 'give template=, the text of a Jinja template or Path("chat_template.jinja")'


def tokenizer_file(tokenizer: Any) -> Any:
    """Returns the `tokenizer.json` of a folder; anything else as it is."""
    if isinstance(tokenizer, (str, os.PathLike)):
        path = Path(arguments.path(tokenizer, "chat"))
        return path / "tokenizer.json" if path.is_dir() else path
    return tokenizer


def template_of(tokenizer: Any, template: Any, with_tools: bool) -> str:
    """Returns the text of the template that is given, or else of the tokenizer's own."""
    if template is None:
        template = _own_template(tokenizer)
    if isinstance(template, os.PathLike):
        text = _read(Path(arguments.path(template, "chat")))
        if text is None:
            raise MissingFileError("there is no such chat template", {"file": str(template), "hint": _HINT})
        return text
    if isinstance(template, (list, tuple)):
        template = {named.get("name"): named.get("template") for named in template if isinstance(named, Mapping)}
    if isinstance(template, Mapping):
        name = "tool_use" if with_tools and "tool_use" in template else "default"
        if name not in template:
            names = ", ".join(sorted(map(str, template)))
            raise InvalidPipelineError(f"chat: none of the templates is the default one: {names}", {"hint": _HINT})
        template = template[name]
    if not isinstance(template, str):
        raise InvalidPipelineError(f"chat: a template is a text, not {type(template).__name__}", {"hint": _HINT})
    if "{{" not in template and "{%" not in template:
        raise InvalidPipelineError(f"chat: template={arguments.shown(template)} is no template", {"hint": _HINT})
    return template


def special_tokens(tokenizer: Any) -> dict[str, str]:
    """Returns the special tokens of a tokenizer by their names, as far as the tokenizer names them."""
    if isinstance(tokenizer, os.PathLike):
        config = _config(Path(tokenizer))
        named = {name: config.get(name) for name in _TOKENS}
    else:
        known = getattr(tokenizer, "special_tokens_map", {})
        named = {name: known.get(name) for name in _TOKENS}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in named.items()}
    return {name: str(text) for name, text in texts.items() if text is not None}


def _own_template(tokenizer: Any) -> Any:
    if isinstance(tokenizer, os.PathLike):
        path = Path(tokenizer)
        text = _read(path.with_name("chat_template.jinja"))
        template = _config(path).get("chat_template") if text is None else text
        where = {"file": str(path)}
    else:
        template, where = getattr(tokenizer, "chat_template", None), {}
    if template is None:
        raise InvalidPipelineError("chat: the tokenizer has no chat template", {**where, "hint": _HINT})
    return template


def _config(tokenizer: Path) -> dict[str, Any]:
    path = tokenizer.with_name("tokenizer_config.json")
    text = _read(path)
    if text is None:
        return {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPipelineError(f"chat: no JSON: {error}", {"file": str(path)}) from None
    if not isinstance(config, dict):
        raise InvalidPipelineError("chat: the configuration of a tokenizer is an object", {"file": str(path)})
    return config


def _read(path: Path) -> str | None:
    """Returns the text of a file; None if there is no such file."""
    try:
        if path.stat().st_size > _FILE_MAX:
            raise InvalidPipelineError(
                "chat: the file is too large", {"file": str(path), "bound": f"{_FILE_MAX} bytes"}
            )
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPipelineError(f"chat: the file cannot be read: {error}", {"file": str(path)}) from None
