"""Chats to ids and the assistant's mask, beside `apply_chat_template` of transformers, which TRL calls.

    python bench/chat.py --chats 4000

Needs the packages of requirements-frameworks.txt. Makes chats and a byte-level tokenizer from a seed. Both ways render
the same template with `{% generation %}` blocks and tokenize the same chats, in turns: transformers as
`datasets.Dataset.map` calls it, chat by chat, with one process for each core; Forebay with as many threads. Ids and
masks are compared before anything is measured. Prints the median of the rounds as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import forebay as fb
from machine import about

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}"
    "{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)


def chats(count: int) -> list[list[dict[str, str]]]:
    """Returns chats of two to eight messages of 10 to 300 words."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randrange(1, 10))) for _ in range(5000)]
    text = lambda: " ".join(rng.choices(words, k=rng.randrange(10, 300)))  # noqa: E731
    turn = lambda: [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]  # noqa: E731
    return [[message for _ in range(rng.randrange(1, 5)) for message in turn()] for _ in range(count)]


def tokenizer_of(texts: list[str]) -> Any:
    """Trains a byte-level tokenizer with the marks of the template."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    made.chat_template = TEMPLATE
    return made


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import datasets

    datasets.disable_progress_bars()
    datasets.disable_caching()
    made = chats(options.chats)
    tokenizer = tokenizer_of([message["content"] for chat in made[:200] for message in chat])
    rows = datasets.Dataset.from_dict({"messages": made})
    cores = os.cpu_count() or 1

    def one(row: dict[str, Any]) -> dict[str, Any]:
        done = tokenizer.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        return {"input_ids": done["input_ids"], "mask": done["assistant_masks"]}

    def theirs() -> int:
        return sum(map(len, rows.map(one, num_proc=cores, remove_columns=["messages"])["input_ids"]))

    ds = fb.from_dict({"messages": [json.dumps(chat) for chat in made]}).chat("messages", tokenizer, mask="mask")
    ds = ds.drop("messages").batch(64, pad={"labels": -100}, lengths={"input_ids": "n"})

    def ours() -> int:
        return sum(int(batch["n"].sum()) for batch in ds.iter(threads=cores))

    for row, chat in zip(
        fb.from_dict({"messages": [json.dumps(c) for c in made[:50]]}).chat("messages", tokenizer, mask="mask"),
        made,
        strict=False,
    ):
        want = one({"messages": chat})
        assert row["input_ids"].tolist() == want["input_ids"], "the same ids"
        assert row["mask"].tolist() == want["mask"], "the same mask"

    def timed(run: Callable[[], int]) -> float:
        begun = time.perf_counter()
        tokens = run()
        return tokens / (time.perf_counter() - begun)

    speeds: dict[str, list[float]] = {"transformers": [], "forebay": []}
    for _ in range(options.rounds):
        speeds["transformers"].append(timed(theirs))
        speeds["forebay"].append(timed(ours))
    medians = {name: statistics.median(of) for name, of in speeds.items()}
    print(
        json.dumps(
            {
                "tokens_per_s": {name: round(speed) for name, speed in medians.items()},
                "ratio": round(medians["forebay"] / medians["transformers"], 2),
                "rounds": {name: [round(speed) for speed in of] for name, of in speeds.items()},
                "machine": about(),
            }
        )
    )


if __name__ == "__main__":
    main()
