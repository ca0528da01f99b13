"""Chats are rendered, tokenized and masked as by `apply_chat_template` of transformers."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from chat_shapes import SHAPES, TOOLS, chat
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

transformers = pytest.importorskip("transformers")

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "chats.json"
DATE = "2024-02-29"
CHATS = 30


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    rng = random.Random(1)
    texts = [json.dumps(chat(rng, {"system", "tool"}), ensure_ascii=False) for _ in range(60)]
    special = ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def metaspace() -> Tokenizer:
    """As those of sentencepiece: without the steps that Forebay does itself."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    rng = random.Random(2)
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<s>", "</s>", "<|im_end|>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([m["content"] for _ in range(200) for m in chat(rng, {"system"})], trainer)
    return tokenizer


TOKENIZERS = {"byte level": byte_level(), "metaspace": metaspace()}


def theirs(which: str, shape: str) -> transformers.PreTrainedTokenizerFast:
    template, special, _ = SHAPES[shape]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[which], **special)
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture
def today(monkeypatch):
    """Their templates read a clock, which stands still here."""
    from transformers.utils import chat_template_utils

    class Still(chat_template_utils.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(DATE)

    monkeypatch.setattr(chat_template_utils, "datetime", Still)


@pytest.mark.parametrize("which", TOKENIZERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_text_ids_and_answers_are_those_of_transformers(which, shape, today):
    tokenizer = theirs(which, shape)
    rng = random.Random(shape)
    chats = [chat(rng, SHAPES[shape][2]) for _ in range(CHATS)]
    tools = TOOLS if "tool" in SHAPES[shape][2] else None
    is_marked = "endgeneration" in SHAPES[shape][0]
    for prompt in (False, True):
        options = {"add_generation_prompt": prompt, "tools": tools}
        ds = fb.from_dict({"messages": [json.dumps(c) for c in chats]}).chat(
            "messages",
            tokenizer,
            text="text",
            labels="labels" if is_marked else None,
            mask="mask" if is_marked else None,
            date=DATE,
            **options,
        )
        for row, messages in zip(ds, chats, strict=True):
            assert row["text"] == tokenizer.apply_chat_template(messages, tokenize=False, **options)
            want = tokenizer.apply_chat_template(
                messages, return_dict=True, return_assistant_tokens_mask=is_marked, **options
            )
            assert row["input_ids"].tolist() == want["input_ids"]
            if is_marked:
                assert row["mask"].tolist() == want["assistant_masks"]
                ids, mask = np.array(want["input_ids"]), np.array(want["assistant_masks"])
                assert row["labels"].tolist() == np.where(mask == 1, ids, -100).tolist()


def test_an_answer_is_found_without_its_block():
    """The same template with and without `{% generation %}` blocks has the same labels."""
    rng = random.Random(5)
    chats = [json.dumps(chat(rng, {"system"})) for _ in range(CHATS)]
    tokenizer = theirs("byte level", "chatml")
    made = [
        [row["labels"].tolist() for row in fb.from_dict({"messages": chats}).chat("messages", tokenizer, template=t)]
        for t in (SHAPES["chatml"][0], SHAPES["chatml, learned"][0])
    ]
    assert made[0] == made[1]
    assert any(label != -100 for label in made[0][0])


def test_messages_of_a_data_set_are_its_lists_of_structs(tmp_path):
    datasets = pytest.importorskip("datasets")
    chats = [chat(random.Random(i), {"system"}) for i in range(6)]
    columns = {"messages": [[{key: m[key] for key in ("role", "content")} for m in c] for c in chats]}
    tokenizer = theirs("byte level", "chatml")
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "a")
    datasets.Dataset.from_dict(columns).to_parquet(tmp_path / "a.parquet")
    datasets.Dataset.from_dict(columns).to_json(tmp_path / "a.jsonl")
    sources = [
        fb.from_hf(datasets.load_from_disk(tmp_path / "a")),
        fb.from_parquet(tmp_path / "a.parquet"),
        fb.from_jsonl(tmp_path / "a.jsonl"),
    ]
    want = [tokenizer.apply_chat_template(c, return_dict=True)["input_ids"] for c in chats]
    for source in sources:
        assert [row["input_ids"].tolist() for row in source.chat("messages", tokenizer)] == want


def test_the_golden_file_is_what_transformers_makes(today):
    """`python/tests/ops/test_chat.py` compares with this file, without transformers."""
    cases = []
    for shape, (template, special, kinds) in SHAPES.items():
        tokenizer = theirs("byte level", shape)
        tools = TOOLS if "tool" in kinds else None
        for seed in (7, 8):
            messages = chat(random.Random(seed), kinds)
            rendered = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
            case = {"shape": shape, "template": template, "variables": special, "tools": tools}
            cases.append({**case, "messages": messages, "text": rendered})
    made = {"date": DATE, "cases": cases}
    if os.environ.get("FOREBAY_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == made


def test_masked_ids_follow_the_collator():
    """The shares of masked, random and kept ids, and the places that no mask may have."""
    tokenizer = theirs("byte level", "chatml")
    tokenizer.add_special_tokens({"mask_token": "<mask>", "pad_token": "<pad>"})
    special = sorted(tokenizer.all_special_ids)
    ids = np.resize(np.arange(len(tokenizer)), 40_000).astype(np.int64)
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.2, seed=3)
    is_special = [int(token in special) for token in ids]
    theirs_made = collator([{"input_ids": ids.tolist(), "special_tokens_mask": is_special}])
    lists = {"ids": ("int32", (None,))}
    ds = fb.range(1).map(lambda row: {"ids": ids.astype(np.int32)}, schema=lists)
    mask, size = tokenizer.mask_token_id, len(tokenizer)
    ds = ds.mask_tokens("ids", mask_id=mask, vocab_size=size, probability=0.2, special_ids=special)
    row = next(iter(ds))

    def shares(made, labels):
        chosen = labels != -100
        assert (labels[chosen] == ids[chosen]).all()
        assert (made[~chosen] == ids[~chosen]).all()
        assert not np.isin(ids[chosen], special).any()
        kept = (made == ids)[chosen].mean()
        return np.array([chosen.mean(), (made == mask)[chosen].mean(), kept])

    ours = shares(row["ids"], row["labels"])
    want = shares(theirs_made["input_ids"][0].numpy(), theirs_made["labels"][0].numpy())
    assert np.abs(ours - want).max() < 0.02, (ours, want)
