"""The op on chats, which makes token ids and labels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.text import chat_templates
from forebay._src.text.text_ops import tokenizer_json
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forebay._src.dataset import Dataset

_VARIABLE = "variables of the template are given as variables={'enable_thinking': False}"


class ChatOps(Base):
    """The op on a column of chats."""

    __slots__ = ()

    @explained(
        'chat("messages", "tokenizer.json", labels="labels", max_length=4096)',
        assistant_only_loss="labels are those of the assistant; learn='all' keeps all",
        chat_template="write template=...",
        date_string="write date='2024-07-26'",
        enable_thinking=_VARIABLE,
        out="write output=...",
        padding="batch(n, pad={'labels': -100}) pads to the longest of a batch, and pad_to= to one length",
        return_assistant_tokens_mask="write mask='assistant_masks'",
        return_dict="leave it out: each row has columns",
        return_tensors="leave it out: batches are NumPy arrays, and to_torch() yields tensors",
        thinking=_VARIABLE,
        tokenize="leave it out: ids are always made, and text='text' adds the rendered text",
        truncation="write max_length=4096",
    )
    def chat(
        self,
        column: str,
        tokenizer: Any,
        *,
        template: Any = None,
        output: str = "input_ids",
        labels: str | None = "labels",
        mask: str | None = None,
        text: str | None = None,
        tools: str | Sequence[Mapping[str, Any]] | None = None,
        learn: Literal["assistant", "last", "all"] = "assistant",
        add_generation_prompt: bool = False,
        max_length: int | None = None,
        date: str | None = None,
        variables: Mapping[str, Any] | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Turns chats into token ids and labels, by a chat template and a Hugging Face tokenizer, run in Rust.

        Text and ids are those of `tokenizer.apply_chat_template(messages)` of `transformers`: special tokens are those
        that the template writes. Messages are a list of objects, which comes as its JSON text from `from_jsonl`,
        `from_parquet` and `from_hf`. A key without a value is left out.

        The assistant's ids are the ids that `{% generation %}` blocks of the template write, even in part. Without
        such blocks they are what each answer adds to the chat before it, behind the beginning that
        `add_generation_prompt` writes; the special token that ends an answer belongs to it, and white space behind that
        token does not. A template that writes an answer differently once more messages follow (Qwen 3 leaves out its
        reasoning) needs such blocks, or `learn="last"`.

        A template has no clock and no files, and makes at most 4,000,000 steps for a chat, of which 64 bytes of text
        count as one.

        Args:
            column: The column of messages: JSON text of a list of objects.
            tokenizer: The path of a `tokenizer.json`, or of its folder; a fast tokenizer of `transformers`; or a
                `tokenizers.Tokenizer`, with `template=`.
            template: The text of a Jinja template, a `Path` of one, or several by their names, of which `"tool_use"`
                is used with `tools=` and `"default"` otherwise. Default: the tokenizer's own, which lies beside a
                `tokenizer.json` in `chat_template.jinja` or `tokenizer_config.json`, as its special tokens do.
            output: The column of ids, int32, of differing lengths.
            labels: The column of labels, int32: the ids that are learned, and -100. None: no such column.
            mask: A column, int8, of 1 for each id that is learned, and 0.
            text: A column of the rendered text.
            tools: The column of tools, JSON text of a list, or missing; or the tools of all chats, as JSON schemas.
            learn: The ids that are learned: all answers of the assistant, the last one, or everything.
            add_generation_prompt: Whether the text ends with the beginning of an answer.
            max_length: The most ids of a chat; the end is cut off. Default: no limit.
            date: The day that templates write which ask for today's date, like `"2024-07-26"`.
            variables: Further variables of the template: `{"enable_thinking": False}`. They may replace special tokens.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the columns of ids and labels.

        Raises:
            InvalidPipelineError: There is no template, or it has a mistake.
            DataError: While it runs: the template refuses a chat, does not end, or writes answers whose place is not
                known.

        >>> import forebay as fb, json, tempfile, pathlib
        >>> vocab = {w: i for i, w in enumerate(["?", "<u>", "<a>", "</s>", "hi", "hello", "you"])}
        >>> model = {"type": "WordLevel", "vocab": vocab, "unk_token": "?"}
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
        >>> _ = path.write_text(json.dumps({"model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}}))
        >>> template = "{% for m in messages %}<{{ m.role[0] }}> {{ m.content }} </s> {% endfor %}"
        >>> template += "{% if add_generation_prompt %}<a> {% endif %}"
        >>> chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello you"}]
        >>> ds = fb.from_dict({"messages": [json.dumps(chat)]}).chat("messages", path, template=template)
        >>> row = next(iter(ds))
        >>> row["input_ids"].tolist(), row["labels"].tolist()
        ([1, 4, 3, 2, 5, 6, 3], [-100, -100, -100, -100, 5, 6, 3])
        """
        arguments.flag(keep_position, "chat", "keep_position")
        arguments.flag(add_generation_prompt, "chat", "add_generation_prompt")
        tokenizer = chat_templates.tokenizer_file(tokenizer)
        # A file that is missing is an error before its template is.
        backend = tokenizer_json(tokenizer, "chat", whole_texts=True).decode("utf-8", "surrogatepass")
        given = {} if variables is None else variables
        arguments.mapping(given, "chat", "variables", "variables={'enable_thinking': False}")
        values = {**chat_templates.special_tokens(tokenizer), **given}
        if tools is not None and not isinstance(tools, str):
            values["tools"] = [_tool(tool) for tool in tools]
        for which, made in (("labels", labels), ("mask", mask), ("text", text), ("date", date)):
            if made is not None:
                arguments.text(made, "chat", which)
        op: dict[str, Any] = {
            "op": "chat",
            "column": column,
            "output": output,
            "labels": labels,
            "mask": mask,
            "text": text,
            "tools": tools if isinstance(tools, str) else None,
            "learn": arguments.choice(learn, "chat", "learn", "assistant", "last", "all"),
            "add_generation_prompt": bool(add_generation_prompt),
            "max_length": None if max_length is None else arguments.whole(max_length, "chat", "max_length", 1),
            "chat": "{blob}",
        }
        spec = {
            "template": chat_templates.template_of(tokenizer, template, tools is not None),
            "variables": values,
            "date": date,
            "tokenizer": backend,
        }
        return self._then(op, keep_position, name, _json(spec))


def _tool(tool: Any) -> Any:
    if callable(tool):
        hint = "give its JSON schema: transformers.utils.get_json_schema(function)"
        raise InvalidPipelineError("chat: a tool is a function", {"hint": hint})
    return tool


def _json(spec: dict[str, Any]) -> bytes:
    try:
        return json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        hint = {"hint": "variables and tools are texts, numbers, truth values, lists and dictionaries"}
        raise InvalidPipelineError(f"chat: a variable or tool cannot be written as JSON: {error}", hint) from None
