"""Chats become ids and labels, by templates that may be wrong, and are the same everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

E = fb.errors
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chats.json").read_text())
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
IGNORED = -100


def bytes_alone() -> Tokenizer:
    """Each byte is an id, and the two marks of ChatML are."""
    vocab = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


TOKENIZER = bytes_alone()


def chats(n: int) -> list[list[dict]]:
    def made(i: int) -> list[dict]:
        turns = [{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"é {i}" * (1 + i % 4)}]
        return turns * (1 + i % 3)

    return [made(i) for i in range(n)]


def of(rows: list, **options) -> fb.Dataset:
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return fb.from_dict({"messages": texts}).chat("messages", TOKENIZER, **{"template": CHATML, **options})


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["shape"])
def test_text_is_that_of_transformers(case):
    """The golden file was written by `python/tests_frameworks/test_chat.py`."""
    ds = of(
        [case["messages"]],
        template=case["template"],
        variables=case["variables"],
        tools=case["tools"],
        date=GOLDEN["date"],
        labels=None,
        text="text",
    )
    assert next(iter(ds))["text"] == case["text"]


def test_the_lines_of_fine_tuning(tmp_path):
    """Files, chats that are too long, packed rows, batches; stopped and resumed."""
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.to_str())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHATML, "bos_token": {"content": "x"}})
    )
    lines = "".join(json.dumps({"messages": chat}) + "\n" for chat in chats(60))
    (tmp_path / "a.jsonl").write_text(lines)
    ds = (
        fb.from_jsonl(tmp_path / "*.jsonl")
        .shuffle()
        .chat("messages", tmp_path)
        .filter(fb.col("input_ids").len() <= 150)
        .pack(["input_ids", "labels"], 160, strategy="best_fit", pad_id=1, pad={"labels": IGNORED}, cu_seqlens=True)
        .batch(4, pad={"cu_seqlens": 160})
    )
    batches = list(ds.iter(seed=1))
    learned = 0
    for batch in batches:
        marks = batch["labels"] != IGNORED
        assert (batch["labels"][marks] == batch["input_ids"][marks]).all()
        learned += int(marks.sum())
        for ids, bounds in zip(batch["segment_ids"], batch["cu_seqlens"], strict=True):
            ends = np.flatnonzero(np.diff(ids, append=0) != 0) + 1
            assert bounds.tolist() == [0, *ends, *[160] * (len(bounds) - 1 - len(ends))]
    kept = [chat for chat in chats(60) if len(of([chat])[0]["input_ids"]) <= 150]
    assert learned == sum(len(m["content"].encode()) + 1 for chat in kept for m in chat if m["role"] == "assistant")

    it = ds.iter(seed=1)
    next(it)
    state = json.loads(json.dumps(it.state_dict()))
    it = ds.iter(seed=1)
    it.load_state_dict(state)
    for batch, want in zip(it, batches[1:], strict=True):
        assert all(np.array_equal(batch[name], want[name]) for name in want)
    with fb.up(workers=1, threads=1) as service:
        for batch, want in zip(ds.distribute(service, job="chats", seed=1), batches, strict=True):
            assert all(np.array_equal(batch[name], want[name]) for name in want)


def test_what_is_learned():
    chat = [*chats(3)[1][:2], {"role": "user", "content": "more"}, {"role": "assistant", "content": "last"}]
    decode = lambda row: bytes_of([i for i in row["labels"].tolist() if i != IGNORED])  # noqa: E731
    end = "<|im_end|>"
    assert decode(of([chat])[0]) == "é 1é 1" + end + "last" + end
    assert decode(of([chat], learn="last")[0]) == "last" + end
    whole = of([chat], learn="all", mask="mask")[0]
    assert (whole["labels"] == whole["input_ids"]).all()
    assert whole["mask"].all()
    assert len(of([chat], max_length=30)[0]["labels"]) == 30
    prompted = of([chat[:1]], add_generation_prompt=True, text="text")[0]
    assert prompted["text"].endswith("<|im_start|>assistant\n")
    assert decode(prompted) == ""


def bytes_of(ids: list[int]) -> str:
    tokenizer = Tokenizer.from_str(TOKENIZER.to_str())
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer.decode(ids, skip_special_tokens=False)


WRONG_CHATS = {
    "no JSON": ("{", "no JSON text"),
    "no list": ('{"role": "user"}', "no list of messages"),
    "no object": ('["hi"]', "message 0"),
    "empty": ("[]", "without messages"),
    "refused": ('[{"role": "tool", "content": "x"}]', "no tools here"),
}


@pytest.mark.parametrize("case", WRONG_CHATS)
def test_a_wrong_chat_is_named_and_may_be_skipped(case):
    wrong, said = WRONG_CHATS[case]
    refusal = "{% if m.role == 'tool' %}\n{{ raise_exception('no tools here') }}{% endif %}"
    template = CHATML + "{% for m in messages %}" + refusal + "{% endfor %}"
    ds = of([chats(1)[0], wrong, chats(2)[1]], template=template, labels=None)
    with pytest.raises(E.DataError, match=said) as caught:
        list(ds)
    assert caught.value.context["sample"]
    assert caught.value.context["op"] == "chat"
    if case == "refused":
        assert caught.value.context["template line"] == "5"
    assert len(list(ds.iter(on_error="skip"))) == 2


def test_a_template_has_no_clock_no_files_and_an_end():
    one = [chats(1)[0]]
    with pytest.raises(E.DataError, match="today's date") as caught:
        list(of(one, template="{{ strftime_now('%Y') }}", labels=None))
    assert "date=" in caught.value.context["hint"]
    assert of(one, template="{{ strftime_now('%d %B %Y') }}", labels=None, date="2024-02-29", text="t")[0]["t"] == (
        "29 February 2024"
    )
    for endless in (
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{{ 'x' * 999999999999 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ):
        with pytest.raises(E.DataError):
            list(of(one, template=endless, labels=None))
    for reads in ("{% include '/etc/passwd' %}", "{% extends 'x' %}"):
        with pytest.raises(E.InvalidPipelineError, match="chat"):
            of(one, template=reads)


def test_what_is_wrong_with_a_pipeline_is_said_while_it_is_written(tmp_path):
    with pytest.raises(fb.errors.MissingFileError, match="there is no such tokenizer"):
        fb.from_dict({"messages": ["[]"]}).chat("messages", tmp_path / "none.json")
    one = [chats(1)[0]]
    with pytest.raises(E.InvalidPipelineError) as caught:
        of(one, template="{% for m in messages %}\n\n{{ m. }}{% endfor %}")
    assert caught.value.context["template line"] == "3"
    assert caught.value.context["line"].startswith(__file__)
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.to_str())
    ds = fb.from_dict({"messages": ["[]"], "n": [1]})
    for call, said in (
        (lambda: ds.chat("messages", tmp_path / "tokenizer.json"), "no chat template"),
        (lambda: ds.chat("messages", TOKENIZER), "no chat template"),
        (lambda: ds.chat("messages", TOKENIZER, template="chatml"), "no template"),
        (lambda: ds.chat("messages", TOKENIZER, template=tmp_path / "none.jinja"), "no such chat template"),
        (lambda: ds.chat("n", TOKENIZER, template=CHATML), "JSON text"),
        (lambda: ds.chat("messages", TOKENIZER, template=CHATML, date="today"), "no day"),
        (lambda: ds.chat("messages", TOKENIZER, template=CHATML, mask="labels"), "labels"),
        (lambda: ds.chat("messages", TOKENIZER, template=CHATML, tools=[len]), "function"),
        (lambda: ds.chat("messages", TOKENIZER, template={"rag": CHATML}), "default"),
    ):
        with pytest.raises(E.ForebayError, match=said):
            call()


def test_an_answer_whose_place_is_not_known_is_refused():
    changing = "{% for m in messages %}{{ m.role }}{{ '!' if loop.last }}{{ m.content }}{% endfor %}"
    chat = [*chats(1)[0], *chats(1)[0]]
    with pytest.raises(E.DataError, match="differently") as caught:
        list(of([chat], template=changing))
    assert "generation" in caught.value.context["hint"]
    assert len(list(of([chat], template=changing, labels=None))) == 1


def test_tools_of_each_chat(tmp_path):
    template = "{% if tools %}{{ tools|map(attribute='name')|join(',') }}{% else %}none{% endif %}"
    rows = {"messages": [json.dumps(chats(1)[0])] * 3, "tools": ['[{"name": "a"}, {"name": "b"}]', None, "[]"]}
    ds = fb.from_dict(rows).chat("messages", TOKENIZER, template=template, tools="tools", labels=None, text="text")
    assert [row["text"] for row in ds] == ["a,b", "none", "none"]
    (tmp_path / "t.jinja").write_text("tool {{ tools[0].name }}")
    both = {"default": "plain {{ 1 }}", "tool_use": (tmp_path / "t.jinja").read_text()}
    for tools, want in ((None, "plain 1"), ([{"name": "x"}], "tool x")):
        made = of([chats(1)[0]], template=both, tools=tools, labels=None, text="text")
        assert made[0]["text"] == want
