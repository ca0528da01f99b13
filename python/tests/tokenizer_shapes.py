"""Small trained tokenizers of the published shapes, and text to test them."""

# ruff: noqa: RUF001

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import normalizers as n
from tokenizers import pre_tokenizers as p
from tokenizers import processors as post

SAMPLE = """
the of and to in a is that it's we'll I'D DON'T don\u2019t naïve café Straße ÅNGSTRÖM co\u0302te\u0301 ﬁne ＡＢＣ１２
½ Ⅷ ǅ ʰ съешь ещё этих ЁЛКА ελληνικά Ὀδυσσεύς հայերեն שָׁלוֹם עולם مرحبا بالعالم ١٢٣ हिन्दी क़ানি বাংলা தமிழ் ไทยไม่มีเว้นวรรค
你好，世界！ 漢字かな交じり文 カタカナ ｶﾅ 한국어 조선말 각 👍🏽 👩‍👩‍👧 🇩🇪 ☃️ ∑ ≠ → € £ — … “quoted” «fr» x_1 __init__
foo(bar)[0]; if(a!=b){return;} 3.14e-10 1234567 0xFF 2024-05-06 user@mail.example https://a.example/b?c=d#e \u200b
\ufeff \u00ad \x00 \x07 it'\u017f it'\u017flike \u212a \u0295 \u088f \ua7ce \U000323b0 <s> </s> <unk> <pad> [CLS] [SEP]
[MASK] <|endoftext|> <mask> </w> ▁ ▁a Ġ Ġthe ##ing <0x41> ``x'' supercalifragilisticexpialidocious
"""
WORDS = [*SAMPLE.split(), "Donaudampfschifffahrtsgesellschaft"]
WORDS += ["\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\x1f"]
SPACES = ["", " ", " ", " ", " ", " ", " ", "  ", "\n", "\r\n", "\n\n", "\t", "   ", "\u00a0", "\u3000"]


def texts(seed: int, size: int) -> list[str]:
    """Mixed text of about `size` characters: words, joined words, runs, random characters of all of Unicode."""
    rng = random.Random(seed)

    def anything() -> str:
        codes = (
            rng.randrange(0x110000) if rng.random() < 0.3 else rng.randrange(0x3000) for _ in range(rng.randrange(12))
        )
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def piece() -> str:
        kind = rng.random()
        if kind < 0.8:
            return rng.choice(WORDS)
        if kind < 0.86:
            return rng.choice(WORDS).swapcase() + rng.choice(WORDS)
        if kind < 0.9:
            return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(1, 14)))
        if kind < 0.92:
            return rng.choice("aZ1 ,漢\u0301\n'👍") * rng.randrange(1, 150)
        return anything()

    made, total = ["", " ", "a", " a", "a ", "\n"], 0
    while total < size:
        made.append("".join(piece() + rng.choice(SPACES) for _ in range(rng.choice((1, 3, 10, 40)))))
        total += len(made[-1])
    return made


_SHUFFLED = random.Random(1)
TRAINED_ON = [" ".join(_SHUFFLED.choices(WORDS, k=12)) for _ in range(120)]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def charsmap(rules: dict[str, str]) -> bytes:
    """Returns the table of SentencePiece's normalizer, as small as the rules: a double array, and its targets."""
    results, at = b"", {}
    for source, to in rules.items():
        at[source.encode()] = len(results)
        results += to.encode() + b"\0"
    units, taken = [0] * 4096, {0}

    def place(node: int, keys: dict[bytes, int], label: int) -> None:
        children: dict[int, dict[bytes, int]] = {}
        for key, value in keys.items():
            children.setdefault(key[0] if key else 0, {})[key[1:]] = value
        offset = next(o for o in range(1, 1024) if not any((node ^ o ^ c) in taken for c in children))
        units[node] = (offset << 10) | label | (256 if 0 in children else 0)
        taken.update(node ^ offset ^ c for c in children)
        for c, rest in children.items():
            if c:
                place(node ^ offset ^ c, rest, c)
            else:
                units[node ^ offset] = (1 << 31) | next(iter(rest.values()))

    place(0, at, 0)
    return struct.pack("<I4096I", 4 * 4096, *units) + results


NMT_NFKC = charsmap(
    {"ﬁ": "fi", "Ａ": "A", "１": "1", "½": "1⁄2", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": " ", "…": "..."}
)


def made(
    model: Any, trainer: Any, pre: Any, normalizer: Any = None, processor: Any = None, added: Any = ()
) -> Tokenizer:
    """Returns a trained tokenizer of parts. Parts that are lists are sequences."""
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = n.Sequence(normalizer) if isinstance(normalizer, list) else normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = p.Sequence(pre) if isinstance(pre, list) else pre
    if trainer is not None:
        tokenizer.train_from_iterator(TRAINED_ON, trainer)
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.add_tokens(list(added))
    return tokenizer


SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<|endoftext|>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_bpe(pre: Any, normalizer: Any = None, processor: Any = None, added: Any = (), **model: Any) -> Tokenizer:
    """Returns BPE over bytes, as of GPT-2 and after."""
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, initial_alphabet=p.ByteLevel.alphabet(), show_progress=False
    )
    trained = made(models.BPE(), trainer, pre, normalizer, processor, added)
    for option, value in model.items():
        setattr(trained.model, option, value)
    return trained


def splits(*patterns: str, behavior: str = "isolated", invert: bool = False) -> list[Any]:
    return [p.Split(Regex(pattern), behavior, invert) for pattern in patterns]


def bytes_after(*before: Any) -> list[Any]:
    return [*before, p.ByteLevel(add_prefix_space=False, use_regex=False)]


def suffix_bpe(pre: Any, normalizer: Any, added: Any = (), **options: Any) -> Tokenizer:
    """Returns BPE whose words end in `</w>`, as of GPT-1, XLM and CLIP."""
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False, **options
    )
    return made(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer, pre, normalizer, None, added)


def byte_fallback(pre: Any, normalizer: Any, processor: Any = None, **model: Any) -> Tokenizer:
    """Returns BPE over characters with bytes for unknown ones, as of Llama 2, Mistral and Gemma."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", *"etaoinshrdlucmEA1你ш", "▁t", "▁a"]
    merges = [
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("i", "n"),
        ("▁", "a"),
        ("▁a", "n"),
        ("▁", "▁"),
        ("▁▁", "▁▁"),
        ("1", "▁"),
    ]
    tokens += [token for token in (a + b for a, b in merges) if token not in tokens]
    vocab = {token: i for i, token in enumerate(tokens)}
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True} | model
    return made(
        models.BPE(vocab, merges, **options), None, pre, normalizer, processor, [AddedToken("<s>", special=True)]
    )


def word_piece(normalizer: Any, pre: Any = None, processor: Any = None, added: Any = (), **model: Any) -> Tokenizer:
    """Returns WordPiece as of BERT."""
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=BERT, show_progress=False)
    trained = made(
        models.WordPiece(unk_token="[UNK]"), trainer, pre or p.BertPreTokenizer(), normalizer, processor, added
    )
    for option, value in model.items():
        setattr(trained.model, option, value)
    return trained


def unigram(pre: Any, normalizer: Any, processor: Any = None, added: Any = ()) -> Tokenizer:
    """Returns Unigram as of T5, ALBERT, XLNet, mBART."""
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    return made(models.Unigram(), trainer, pre, normalizer, processor, added)


def word_level(pre: Any, normalizer: Any = None, added: Any = ()) -> Tokenizer:
    trainer = trainers.WordLevelTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False)
    return made(models.WordLevel(unk_token="<unk>"), trainer, pre, normalizer, None, added)


def framed(template: str) -> Any:
    ids = {token: i for i, token in enumerate(SPECIAL)}
    named = [(token, ids[token]) for token in ids if token in template]
    return post.TemplateProcessing(single=template, special_tokens=named)


BERT_FRAME = post.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
QUOTES = [n.Replace("``", '"'), n.Replace("''", '"')]
WORD_SPACES = [p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")]
LLAMA = [n.Prepend("▁"), n.Replace(" ", "▁")]
LATELY_ADDED = [AddedToken("<|im_start|>", special=True), AddedToken("\n\n", normalized=False), AddedToken("ﬁne")]
FLAGS = [
    AddedToken("<mask>", lstrip=True, special=True),
    AddedToken("and", single_word=True),
    AddedToken("of", single_word=True, lstrip=True, rstrip=True),
    AddedToken("naïve", rstrip=True, normalized=True),
    AddedToken("STRASSE", normalized=True),
    AddedToken("世界", normalized=False, rstrip=True),
    AddedToken("  ", normalized=False),
]

SHAPES: dict[str, Callable[[], Tokenizer]] = {
    "ByteLevel as it comes": lambda: byte_bpe(p.ByteLevel()),
    "GPT-2": lambda: byte_bpe(p.ByteLevel(add_prefix_space=False), processor=post.ByteLevel(trim_offsets=False)),
    "RoBERTa": lambda: byte_bpe(
        p.ByteLevel(add_prefix_space=True), processor=post.RobertaProcessing(("</s>", 2), ("<s>", 1)), added=FLAGS
    ),
    "CodeGen, Phi": lambda: byte_bpe(
        p.ByteLevel(add_prefix_space=False), added=[AddedToken(" " * i) for i in range(2, 32)]
    ),
    "GPT-NeoX": lambda: byte_bpe(p.ByteLevel(add_prefix_space=False), n.NFC(), added=LATELY_ADDED),
    "GPT-4": lambda: byte_bpe(bytes_after(*splits(CL100K, behavior="removed", invert=True))),
    "Llama 3": lambda: byte_bpe(
        bytes_after(*splits(CL100K)),
        processor=post.Sequence([post.ByteLevel(), framed("<s> $A")]),
        added=LATELY_ADDED,
        ignore_merges=True,
    ),
    "Qwen": lambda: byte_bpe(bytes_after(*splits(CL100K.replace("{1,3}", ""))), n.NFC(), added=LATELY_ADDED[:1]),
    "GPT-4o": lambda: byte_bpe(bytes_after(*splits(O200K, behavior="removed", invert=True))),
    "Mistral tekken": lambda: byte_bpe(bytes_after(*splits(TEKKEN))),
    "DeepSeek": lambda: byte_bpe(bytes_after(*splits(*DEEPSEEK))),
    "DeepSeek coder": lambda: byte_bpe([*splits(*DEEPSEEK_CODER), p.Digits(True), p.ByteLevel(False, use_regex=False)]),
    "two digits a word": lambda: byte_bpe(bytes_after(*splits(CL100K.replace("{1,3}", "{1,2}")))),
    "all digits a word": lambda: byte_bpe(bytes_after(*splits(CL100K.replace("{1,3}", "+")))),
    "Falcon": lambda: byte_bpe(
        [p.Punctuation("contiguous"), p.ByteLevel(False), p.Digits(False), *splits("[0-9][0-9][0-9]")]
    ),
    "BLOOM": lambda: byte_bpe(bytes_after(*splits(BLOOM))),
    "StarCoder": lambda: byte_bpe([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)]),
    "a normalizer that maps bytes": lambda: byte_bpe(p.WhitespaceSplit(), n.ByteLevel()),
    "CLIP": lambda: suffix_bpe(
        bytes_after(*splits(CLIP, behavior="removed", invert=True)),
        [n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()],
        initial_alphabet=p.ByteLevel.alphabet(),
    ),
    "GPT-1": lambda: suffix_bpe(p.BertPreTokenizer(), n.BertNormalizer(lowercase=True)),
    "XLM": lambda: suffix_bpe(p.Whitespace(), [n.NFKD(), n.StripAccents(), n.Lowercase()], added=FLAGS),
    "a prefix of subwords": lambda: made(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True),
        trainers.BpeTrainer(
            vocab_size=900, special_tokens=SPECIAL, continuing_subword_prefix="##", show_progress=False
        ),
        p.Whitespace(),
    ),
    "BERT uncased": lambda: word_piece(n.BertNormalizer(lowercase=True), processor=BERT_FRAME, added=FLAGS),
    "BERT cased": lambda: word_piece(n.BertNormalizer(lowercase=False), processor=BERT_FRAME),
    "BERT Chinese": lambda: word_piece(n.BertNormalizer(strip_accents=False, handle_chinese_chars=True)),
    "BERT without cleaning": lambda: word_piece(n.BertNormalizer(False, False, True, True)),
    "short words alone": lambda: word_piece(n.NFD(), p.WhitespaceSplit(), max_input_chars_per_word=6),
    "ALBERT": lambda: unigram(
        WORD_SPACES,
        [*QUOTES, n.NFKD(), n.StripAccents(), n.Lowercase(), n.Precompiled(NMT_NFKC)],
        framed("<s> $A </s>"),
    ),
    "T5": lambda: unigram(p.Metaspace(), n.Precompiled(NMT_NFKC), framed("$A </s>"), FLAGS),
    "XLNet": lambda: unigram(WORD_SPACES, [*QUOTES, n.Precompiled(NMT_NFKC)], framed("$A:0 </s>:0 <s>:2")),
    "mBART": lambda: unigram(
        [p.WhitespaceSplit(), p.Metaspace()],
        [n.Precompiled(NMT_NFKC), n.Replace(Regex(" {2,}"), " ")],
        framed("$A </s> <s>"),
    ),
    "mT5": lambda: unigram(p.Metaspace(prepend_scheme="first"), [n.NFKC(), n.Strip(), n.Replace(Regex(" {2,}"), "▁")]),
    "Llama 1, 2": lambda: byte_fallback(None, LLAMA, framed("<s> $A")),
    "Mistral": lambda: byte_fallback(p.Metaspace(prepend_scheme="first", split=False), None, framed("<s> $A")),
    "Gemma": lambda: byte_fallback(p.Split(" ", "merged_with_previous"), n.Replace(" ", "▁")),
    "unknown ones apart": lambda: byte_fallback(
        p.Metaspace(prepend_scheme="never"), None, byte_fallback=False, fuse_unk=False
    ),
    "unknown ones left out": lambda: byte_fallback(None, LLAMA, byte_fallback=False, unk_token=None),
    "words": lambda: word_level(p.Whitespace(), n.Lowercase(), FLAGS),
    "words between commas": lambda: word_level(p.CharDelimiterSplit(","), [n.Nmt(), n.Strip(left=True, right=False)]),
    "words of scripts": lambda: word_level([p.UnicodeScripts(), p.Digits(True)], n.NFKC()),
    "words of four": lambda: word_level(p.FixedLength(4)),
    "text twice": lambda: made(
        models.WordLevel({"<unk>": 0, "the": 1}, "<unk>"), None, p.Whitespace(), None, framed("<s> $A <mask> $A </s>")
    ),
}
BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")


def resplit(tokenizer: Tokenizer, pre: Any) -> Tokenizer:
    tokenizer.pre_tokenizer = p.Sequence(pre)
    return tokenizer


for _behavior in BEHAVIORS:
    SHAPES[f"punctuation {_behavior}"] = lambda b=_behavior: resplit(
        SHAPES["words"](), [p.Punctuation(b), p.WhitespaceSplit()]
    )
    for _invert in (False, True):
        SHAPES[f"split {_behavior}{' inverted' * _invert}"] = lambda b=_behavior, i=_invert: resplit(
            byte_fallback(None, None), bytes_after(p.Split(Regex(r"\w+|[\u4e00-\u9fa5]"), b, i))
        )
