"""Text to tokens as an op: its rows, its identity, its place, its refusals. For the ids see `test_tokenizers.py`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parents[3]
E = fb.errors

ODD = [
    "",
    " ",
    "   two  spaces ",
    "tab\tand\u00a0nbsp and \u3000wide",
    "na\u00efve \u0063\u0327a va? \ufb01ne \uff21\uff22",
    "emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 flags \U0001f1e9\U0001f1ea",
    "\u4f60\u597d\uff0c\u4e16\u754c \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27\u0e31",
    "it's we'll I'd 'Tis DON'T 12345 3.14e-10 x_1 __init__",
    "<eos>marked<eos> [CLS] in [SEP] text </s> <pad>",
    "\u0000null\u0001 and \ufeffbom \u200b zero width",
    "a" * 700 + "\n\n\r\n" + "ab" * 300,
]


def documents() -> list[str]:
    """Returns real text: the lines of this repository, and hard cases."""
    files = [
        p for folder in ("docs", "crates/core/src", "python/forebay") for p in sorted((ROOT / folder).rglob("*.*"))
    ]
    lines = [line for p in files if p.suffix in (".md", ".rs", ".py") for line in p.read_text().split("\n")]
    letters = "".join(ODD) + "".join(map(chr, range(32, 127))) * 3
    rng = random.Random(5)
    noise = ["".join(rng.choices(letters, k=rng.randrange(60))) for _ in range(400)]
    return [*lines, *ODD, *noise]


TEXTS = documents()
#: Each tenth of them shows the trainers enough pieces for a vocabulary.
TRAINING = [*TEXTS[::10], *ODD]


def byte_level() -> Tokenizer:
    """Returns a tokenizer like GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 0)])
    return tokenizer


def word_piece() -> Tokenizer:
    """Returns a tokenizer like BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        TRAINING, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def unigram() -> Tokenizer:
    """Returns a tokenizer like T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


KINDS = {"byte level bpe": byte_level, "word piece": word_piece, "unigram": unigram}


@pytest.fixture(scope="module")
def made() -> dict[str, Tokenizer]:
    return {kind: make() for kind, make in KINDS.items()}


def ids(ds: fb.Dataset, column: str = "text") -> list[list[int]]:
    return [row[column].tolist() for row in ds.iter(threads=2)]


def test_ids_are_int32_rows_beside_the_other_columns(made):
    ds = fb.from_dict({"n": [1, 2], "text": ["one two", ""]}).tokenize("text", made["word piece"], output="ids")
    assert repr(ds) == "Dataset(n: int64, text: string, ids: int32[?])"
    rows = list(ds)
    assert [row["ids"].dtype for row in rows] == [np.int32, np.int32]
    assert rows[1]["ids"].tolist() == [2, 3]
    assert rows[0]["text"] == "one two"


def test_a_tokenizer_is_what_it_holds_not_where_it_was(made, tmp_path):
    class Fast:  # as a fast tokenizer of transformers
        backend_tokenizer = Tokenizer.from_str(made["byte level bpe"].to_str())

    ds = fb.from_dict({"text": ["a"]})
    made["byte level bpe"].save(str(tmp_path / "a.json"), pretty=True)
    same = [made["byte level bpe"], tmp_path / "a.json", str(tmp_path / "a.json"), Fast()]
    assert len({ds.tokenize("text", t).dataset_id for t in same}) == 1
    Fast.backend_tokenizer.enable_truncation(3)
    Fast.backend_tokenizer.enable_padding(length=50)
    padded = ds.tokenize("text", Fast())
    assert padded.dataset_id == ds.tokenize("text", made["byte level bpe"]).dataset_id
    assert len(ids(padded)[0]) < 50
    assert padded.dataset_id != ds.tokenize("text", made["word piece"]).dataset_id
    assert padded.dataset_id != ds.tokenize("text", Fast(), max_length=5).dataset_id


def test_a_large_file_is_shared_by_threads(made, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(line.replace("\n", " ").replace("\r", " ") for line in TEXTS * 3))
    ds = fb.from_text(path).tokenize("text", made["byte level bpe"])
    assert "read in any order" in ds.explain()
    lines = path.read_text().split("\n")
    want = [e.ids for e in made["byte level bpe"].encode_batch(lines)]
    for threads in (1, 3):
        assert [row["text"].tolist() for row in ds.iter(threads=threads)] == want


def test_a_service_needs_no_file(made, tmp_path):
    text, saved = tmp_path / "text.txt", tmp_path / "tokenizer.json"
    text.write_text("\n".join(line.replace("\n", " ").replace("\r", " ") for line in TEXTS))
    made["unigram"].save(str(saved))
    plain = fb.from_text(text)
    pipelines = [
        plain.shuffle().tokenize("text", saved).pack("text", 64, strategy="best_fit", window=100).batch(4),
        plain.filter(fb.col("text").len() > 3).take(400).tokenize("text", saved, max_length=8),  # at the consumer
    ]
    saved.unlink()
    with fb.up(workers=2, threads=1) as service:
        for job, ds in enumerate(pipelines):
            want = [fingerprint(b) for b in ds.iter(seed=1)]
            assert want
            assert [fingerprint(b) for b in ds.distribute(service, job=str(job), seed=1)] == want


def test_wrong_arguments_are_refused_where_they_are_written(made, tmp_path):
    ds = fb.from_dict({"text": ["a"], "n": [1]})
    with pytest.raises(E.InvalidPipelineError, match='column "n" is int64') as caught:
        ds.tokenize("n", made["unigram"])
    assert "test_text.py" in caught.value.context["line"]
    with pytest.raises(E.NotFoundError, match='no column "txt"'):
        ds.tokenize("txt", made["unigram"])
    with pytest.raises(E.NotFoundError, match=r"none\.json"):
        ds.tokenize("text", tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(E.InvalidPipelineError, match=r"no tokenizer\.json"):
        ds.tokenize("text", tmp_path / "bad.json")
    (tmp_path / "other.json").write_text(json.dumps({"model": {"type": "Oracle"}}))
    with pytest.raises(E.InvalidPipelineError, match="cannot be read") as caught:
        ds.tokenize("text", tmp_path / "other.json", name="ids")
    assert caught.value.context["op"] == "tokenize (ids)"
    with pytest.raises(E.InvalidPipelineError, match="int is no tokenizer"):
        ds.tokenize("text", 3)
    with pytest.raises(E.InvalidPipelineError, match="leaves no room"):
        ds.tokenize("text", made["word piece"], max_length=2)
    with pytest.raises(E.InvalidPipelineError, match="max_length=0"):
        ds.tokenize("text", made["word piece"], max_length=0)
    assert ids(ds.tokenize("text", made["word piece"], max_length=2, add_special_tokens=False))


def test_a_missing_text_is_named(made, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["one", None, "two"]}), tmp_path / "t.parquet")
    ds = fb.from_parquet(tmp_path / "t.parquet")
    with pytest.raises(E.DataError, match='"text" is missing') as caught:
        list(ds.tokenize("text", made["unigram"]))
    assert "t.parquet#1" in caught.value.context["sample"]
    there = ds.filter(~fb.col("text").is_null()).tokenize("text", made["unigram"])
    assert ids(there) == [e.ids for e in made["unigram"].encode_batch(["one", "two"])]
