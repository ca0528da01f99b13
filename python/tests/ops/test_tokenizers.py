"""Token ids of every published shape of tokenizer, and of random ones, against the released `tokenizers` package."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import forebay as fb
import pytest
from tokenizer_shapes import FLAGS, GPT2, NMT_NFKC, SHAPES, framed, texts
from tokenizers import AddedToken, Regex, Tokenizer, models
from tokenizers import normalizers as n
from tokenizers import pre_tokenizers as p
from tokenizers import processors as post

E = fb.errors
TEXTS = texts(7, 40_000)


@cache
def shape(name: str) -> str:
    return SHAPES[name]().to_str()


def ids(tokenizer: Any, given: list[str], threads: int = 2, **options: Any) -> list[list[int]]:
    ds = fb.from_dict({"text": given}).tokenize("text", tokenizer, **options)
    return [row["text"].tolist() for row in ds.iter(threads=threads)]


def differing(tokenizer: Tokenizer, given: list[str], got: list[list[int]], special: bool = True) -> list[Any]:
    want = [tokenizer.encode(text, add_special_tokens=special).ids for text in given]
    assert len(got) == len(want)
    return [(text, w, g) for text, w, g in zip(given, want, got, strict=True) if w != g]


@pytest.mark.parametrize("name", SHAPES)
def test_the_ids_are_those_of_the_library(name):
    tokenizer = Tokenizer.from_str(shape(name))
    assert not differing(tokenizer, TEXTS, ids(tokenizer, TEXTS))[:3]
    # Each text also has the same ids after any texts before it.
    fewer = random.Random(3).sample(TEXTS, 60)
    assert not differing(tokenizer, fewer, ids(tokenizer, fewer, 1, add_special_tokens=False), special=False)[:3]


NORMALIZERS = [
    n.NFC, n.NFD, n.NFKC, n.NFKD, n.Nmt, n.Lowercase, n.StripAccents, n.Strip, n.BertNormalizer,
    lambda: n.BertNormalizer(clean_text=False, strip_accents=False), lambda: n.Prepend("▁"), lambda: n.Prepend("x "),
    lambda: n.Replace(" ", "▁"), lambda: n.Replace(Regex(r"\s+|\d(?=\d)"), " "), lambda: n.Replace("", "y"),
    lambda: n.Precompiled(NMT_NFKC), n.ByteLevel, lambda: n.Strip(left=False),
]  # fmt: skip
PRE_TOKENIZERS = [
    p.Whitespace, p.WhitespaceSplit, p.BertPreTokenizer, p.Punctuation, p.UnicodeScripts, p.ByteLevel, p.Metaspace,
    p.Digits, lambda: p.Digits(True), lambda: p.FixedLength(3), lambda: p.CharDelimiterSplit("e"),
    lambda: p.ByteLevel(add_prefix_space=False), lambda: p.ByteLevel(use_regex=False),
    lambda: p.Metaspace(prepend_scheme="first"), lambda: p.Metaspace("_", "never", split=False),
    lambda: p.Split(" ", "merged_with_next"), lambda: p.Split(Regex(GPT2), "isolated"),
    lambda: p.Split(Regex(r"(?<=\p{Lu})\p{Ll}+|\b"), "removed"),
    lambda: p.Split(Regex(r"[[:punct:]]+"), "contiguous", True),
]  # fmt: skip
PROCESSORS = [
    lambda: framed("<s> $A </s>"), lambda: framed("$A"), lambda: framed("<s>"), lambda: framed("$A <s> $A"),
    post.ByteLevel, lambda: post.BertProcessing(("</s>", 2), ("<s>", 1)),
    lambda: post.RobertaProcessing(("</s>", 2), ("<s>", 1)),
    lambda: post.Sequence([post.ByteLevel(), framed("<pad> $A"), framed("<s> $A </s>")]),
]  # fmt: skip


def random_tokenizer(rng: random.Random) -> Tokenizer:
    tokenizer = Tokenizer.from_str(shape(rng.choice(("GPT-2", "CLIP", "XLM", "BERT uncased", "T5", "Gemma", "words"))))
    if rng.random() < 0.7:
        chosen = [make() for make in rng.sample(NORMALIZERS, rng.randrange(4))]
        tokenizer.normalizer = n.Sequence(chosen) if chosen else None
    if rng.random() < 0.7:
        steps = [make() for make in rng.sample(PRE_TOKENIZERS, rng.randrange(4))]
        tokenizer.pre_tokenizer = p.Sequence(steps) if len(steps) != 1 else steps[0]
    if rng.random() < 0.7:
        tokenizer.post_processor = rng.choice(PROCESSORS)()
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for _ in range(rng.randrange(4)):
        content = rng.choice([*rng.choice(TEXTS).split(" "), *(token.content for token in FLAGS)])[:20]
        tokenizer.add_tokens([AddedToken(content, **{flag: rng.random() < 0.5 for flag in flags})])
    if rng.random() < 0.3:
        direction = rng.choice(("left", "right"))
        tokenizer.enable_truncation(rng.randrange(6, 30), direction=direction)
    if rng.random() < 0.3:
        length = rng.choice((None, 7, 40))
        direction = rng.choice(("left", "right"))
        tokenizer.enable_padding(direction=direction, pad_id=3, length=length, pad_to_multiple_of=rng.choice((None, 8)))
    return tokenizer


def test_random_tokenizers_of_random_parts_give_the_librarys_ids():
    rng = random.Random(11)
    refused = 0
    for _ in range(120):
        given = rng.sample(TEXTS, 12)
        try:
            tokenizer = random_tokenizer(rng)
            special = rng.random() < 0.5
            for text in given:
                tokenizer.encode(text, add_special_tokens=special)
        except BaseException as error:  # the library panics, too
            if type(error).__name__ not in ("Exception", "ValueError", "PanicException"):
                raise
            refused += 1
            continue
        got = ids(tokenizer, given, add_special_tokens=special)
        assert not differing(tokenizer, given, got, special)[:1], tokenizer.to_str()[:2000]
    assert refused < 30


@pytest.mark.parametrize("name", ["Llama 3", "BERT uncased"])
@pytest.mark.parametrize("direction", ["left", "right"])
def test_the_truncation_and_the_padding_of_a_tokenizer_are_applied(name, direction, tmp_path):
    tokenizer = Tokenizer.from_str(shape(name))
    tokenizer.enable_truncation(9, direction=direction, stride=2)
    tokenizer.enable_padding(direction=direction, length=12, pad_id=4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for given in (tokenizer, tmp_path / "tokenizer.json"):
        got = ids(given, TEXTS)
        assert not differing(tokenizer, TEXTS, got)[:3]
        assert {len(row) for row in got} == {12}
    # The op's own length takes the place of the tokenizer's.
    for special in (True, False):
        longer = ids(tokenizer, TEXTS, max_length=20, add_special_tokens=special)
        cut = Tokenizer.from_str(tokenizer.to_str())
        cut.enable_truncation(20)
        assert not differing(cut, TEXTS, longer, special)[:3]
    tokenizer.no_padding()
    tokenizer.enable_truncation(1)
    if name == "BERT uncased":
        with pytest.raises(E.InvalidPipelineError, match=r"truncation, max_length=1 leaves no room"):
            ids(tokenizer, ["a"])
    tokenizer.enable_truncation(9, strategy="only_second")
    with pytest.raises(E.InvalidPipelineError, match="second text of a pair"):
        ids(tokenizer, ["a"])


def test_scores_are_read_as_the_library_reads_them(tmp_path):
    # Two ways to cut "abc" whose scores tie but for the last bit of one.
    rng = random.Random(1)
    path = tmp_path / "tokenizer.json"
    for _ in range(300):
        left, right = -rng.random() * 20, -rng.random() * 20
        scores = {"ab": left, "c": right, "a": (left + right) / 2, "bc": left + right - (left + right) / 2}
        vocab = [["<unk>", 0.0], *([piece, score] for piece, score in scores.items())]
        parts: dict[str, Any] = {"version": "1.0", "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}}
        path.write_text(json.dumps(parts))
        assert not differing(Tokenizer.from_file(str(path)), ["abc"], ids(path, ["abc"], 1)), scores


def test_what_has_no_ids_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Tokenizer.from_str(shape("words")).save(str(tmp_path / "words.json"))
    assert ids("~/words.json", ["the"])
    with pytest.raises(E.InvalidPipelineError, match="byte of zero"):
        ids("a\0b", ["a"])
    dropout = Tokenizer.from_str(shape("GPT-2"))
    dropout.model.dropout = 0.1
    with pytest.raises(E.InvalidPipelineError, match=r"at random \(dropout=0.1\)"):
        ids(dropout, ["a"])
    endless = Tokenizer(models.WordLevel({"a": 0, "?": 1}, "?"))
    endless.normalizer = n.Strip()
    endless.add_tokens([AddedToken("  ", normalized=True)])
    with pytest.raises(E.InvalidPipelineError, match="looks for it without end"):
        ids(endless, ["a"])
    without = Tokenizer(models.WordLevel({"a": 0}, "?"))
    with pytest.raises(E.DataError, match="cannot be tokenized") as caught:
        ids(without, ["a", "b"])
    assert caught.value.context["sample"]
    big = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 2**32 - 1}, "unk_token": "a"}}
    (tmp_path / "big.json").write_text(json.dumps(big))
    with pytest.raises(E.DataError, match="4294967295"):
        ids(tmp_path / "big.json", ["a"])
    lone = json.dumps({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"\ud800": 0}, "unk_token": "a"}})
    (tmp_path / "lone.json").write_text(lone)
    with pytest.raises(E.InvalidPipelineError, match="cannot be read"):
        ids(tmp_path / "lone.json", ["a"])


def test_a_tokenizer_of_transformers_neither_cuts_nor_pads():
    class Fast:
        backend_tokenizer = Tokenizer.from_str(shape("Qwen"))

    plain = Tokenizer.from_str(shape("Qwen"))
    Fast.backend_tokenizer.enable_truncation(3)
    Fast.backend_tokenizer.enable_padding(length=50)
    assert not differing(plain, TEXTS[:50], ids(Fast(), TEXTS[:50]))


def test_special_text_in_the_text_and_words_past_every_cache():
    tokenizer = Tokenizer.from_str(shape("Llama 3"))
    rng = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyzäßж漢👍<|>"
    many = [" ".join("".join(rng.choices(letters, k=rng.randrange(1, 30))) for _ in range(400)) for _ in range(60)]
    many += [f"{text}<|im_start|>{text}<s>" for text in many[:10]]
    again = [*many, *reversed(many)]
    assert not differing(tokenizer, again, ids(tokenizer, again))[:1]
