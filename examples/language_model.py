"""Turns documents into the training batches of a language model: JSON Lines, tokens, packed rows, batches.

    python examples/language_model.py

The corpus and the tokenizer are made here. Put your own files in their place, and your model in place of the table of pairs.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import forebay as fb
import numpy as np

SUBJECTS, VERBS, OBJECTS = ("rain", "snow", "wind"), ("fills", "cools", "crosses"), ("rivers", "fields", "towns")
WORDS = ["<unk>", "<eos>", *SUBJECTS, *VERBS, *OBJECTS]
EOS, LENGTH, BATCH = 1, 64, 8


def write_corpus(folder: Path) -> None:
    """Writes two files of documents, one a line, and a tokenizer in the form of Hugging Face's `tokenizers`."""
    rng = random.Random(1)
    for part in range(2):
        with open(folder / f"corpus-{part}.jsonl", "w") as file:
            for _ in range(1500):
                sentences = [
                    (rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)) for _ in range(rng.randint(1, 9))
                ]
                file.write(json.dumps({"text": " ".join(word for words in sentences for word in words)}) + "\n")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = {
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        "pre_tokenizer": {"type": "Whitespace"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def pipeline(folder: Path) -> fb.Dataset:
    """Batches of `LENGTH` + 1 tokens: `LENGTH` inputs, and the same shifted by one as targets."""
    return (
        fb.from_jsonl(str(folder / "corpus-*.jsonl"), schema={"text": "string"})
        .shuffle()
        .tokenize("text", str(folder / "tokenizer.json"))
        .pack("text", LENGTH + 1, eos_id=EOS)
        .batch(BATCH, drop_remainder=True)
    )


def main() -> None:
    """Counts which token follows another, and prints how well the counts predict the next token in a second epoch."""
    with tempfile.TemporaryDirectory(prefix="forebay-text-") as folder:
        write_corpus(Path(folder))
        ds = pipeline(Path(folder))
        print(ds.explain())
        follows = np.ones((len(WORDS), len(WORDS)))
        for batch in ds.iter(seed=3):
            np.add.at(follows, (batch["text"][:, :-1], batch["text"][:, 1:]), 1)
        follows /= follows.sum(axis=1, keepdims=True)
        losses = [-np.log(follows[b["text"][:, :-1], b["text"][:, 1:]]).mean() for b in ds.iter(seed=3, epoch=1)]
        print(f"{len(losses)} batches, perplexity {np.exp(np.mean(losses)):.2f} of {len(WORDS)} words")


if __name__ == "__main__":
    main()
