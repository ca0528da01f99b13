"""Chat templates of the published shapes, written anew by their behaviour, and chats to try them on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

#: By name: the special tokens that the template knows, and the roles that it has besides user and assistant.
_SHAPES: dict[str, tuple[dict[str, str], set[str]]] = {
    "chatml": ({"eos_token": "<|im_end|>"}, {"system"}),
    "chatml, learned": ({}, {"system"}),
    "llama 2": ({"bos_token": "<s>", "eos_token": "</s>"}, {"system"}),
    "llama 3": ({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, {"system"}),
    "llama 3.1": ({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, {"system", "tool"}),
    "mistral": ({"bos_token": "<s>", "eos_token": "</s>"}, set()),
    "mistral nemo": ({"bos_token": "<s>", "eos_token": "</s>"}, {"system", "tool"}),
    "gemma": ({"bos_token": "<bos>", "eos_token": "<eos>"}, set()),
    "gemma 3": ({"bos_token": "<bos>", "eos_token": "<eos>"}, {"system"}),
    "phi 3": ({"eos_token": "<|endoftext|>"}, {"system"}),
    "phi 4": ({}, {"system"}),
    "zephyr": ({"eos_token": "</s>"}, {"system"}),
    "qwen 2.5": ({"eos_token": "<|im_end|>"}, {"system", "tool"}),
    "qwen 3": ({"eos_token": "<|im_end|>"}, {"reasoning", "system", "tool"}),
    "deepseek 3": ({"bos_token": "<|begin_of_sentence|>", "eos_token": "<|end_of_sentence|>"}, {"system"}),
    "vicuna": ({"eos_token": "</s>"}, {"system"}),
    "alpaca": ({"eos_token": "</s>"}, {"system"}),
    "command r": ({"bos_token": "<BOS>", "eos_token": "<|END|>"}, {"system"}),
    "hermes, with tools": ({"bos_token": "<s>"}, {"system", "tool"}),
    "granite": ({}, {"system", "tool"}),
    "smol, learned": ({}, {"system"}),
}


def _template(name: str) -> str:
    folder = Path(__file__).parent / "golden" / "chat_templates"
    return (folder / f"{name.replace(',', '').replace(' ', '_')}.jinja").read_bytes().decode()


#: By name: the template, its special tokens, and its roles.
SHAPES = {name: (_template(name), *rest) for name, rest in _SHAPES.items()}

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather <today> & 'tomorrow' — é",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "A place"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["place"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]

_WORDS = [
    "yes",
    "no",
    "über",
    "漢字",
    "👍",
    "a b",
    "1,234.5",
    "it's",
    '"q"',
    "<b>",
    "x\ny",
    "\\n",
    "{{ x }}",
    "  ",
    "Zürich",
]


def text(rng: random.Random) -> str:
    """Returns words with spaces at odd places."""
    made = " ".join(rng.choices(_WORDS, k=rng.randrange(1, 9)))
    return rng.choice(["", "", " ", "\n"]) + made + rng.choice(["", "", " ", "\n\n"])


def chat(rng: random.Random, kinds: set[str]) -> list[dict[str, Any]]:
    """Returns a chat of the roles that a template has."""
    messages: list[dict[str, Any]] = []
    if "system" in kinds and rng.random() < 0.5:
        messages.append({"role": "system", "content": text(rng)})
    for _ in range(rng.randrange(1, 5)):
        messages.append({"role": "user", "content": text(rng)})
        if "tool" in kinds and rng.random() < 0.3:
            arguments = {"place": text(rng), "days": [1, -2], "hot": True, "t": rng.choice([1.5, 1e20, 0.1]), "u": None}
            call = {"id": "call12345", "type": "function", "function": {"name": "weather", "arguments": arguments}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "content": text(rng), "tool_call_id": "call12345"})
        answer = {"role": "assistant", "content": text(rng), "name": None}
        if "reasoning" in kinds and rng.random() < 0.5:
            answer["reasoning_content" if rng.random() < 0.5 else "thinking"] = text(rng)
        messages.append(answer)
    return messages
