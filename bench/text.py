"""Text for language models: shuffle, tokenise, pack, of the same text in several formats.

    python bench/text.py --gigabytes 10

Makes text (once): documents of about 2 kB, of words and phrases by Zipf's law, from a seed. They are written as lines
of text, as JSON lines without compression, in gzip and in zstd, and as Parquet (zstd, row groups of 5,000 documents). A
byte-level BPE tokenizer of 32,000 tokens is trained on some of it with the `tokenizers` library. Then each format is
read in a separate process, in turns:

    source.shuffle(window=...).tokenize("text", ...).pack("text", 2048, eos_id=0).batch(8)

The window is the default of `shuffle()` for large data: 256 MiB of decoded Parquet, 32 MiB of stored files in a store.
A process reads half of an epoch, saves its state, and reads one batch more. Two others resume from the state: one with
the first one's cache of the files' indexes (`FOREBAY_CACHE`), one without, as on another machine; their first batch
must be that one. Tokens are counted from the first batch on. The system's page cache is warm, as far as it goes: each
process's files are read once before.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import about

LENGTH, BATCH, VOCABULARY = 2048, 8, 32_000
FILE_BYTES, GROUP_ROWS = 64_000_000, 5_000
WORDS = 50_000
#: Bytes that the tokenizer is trained on.
SAMPLE = 8_000_000
FORMATS = ("text", "jsonl", "jsonl.gz", "jsonl.zst", "parquet")


def pieces() -> np.ndarray:
    """Returns words with three endings each, frequent and short words first, and a phrase after every eighth word."""
    rng = np.random.default_rng(0)
    letters, weights = list("etaoinshrdlucmfwypvbgkqjxz"), 1 / np.arange(4, 30)
    lengths = np.maximum(1, rng.normal(1.5 + 0.65 * np.log1p(np.arange(WORDS)), 1.2)).astype(int)
    spelled = ["".join(rng.choice(letters, n, p=weights / weights.sum())) for n in lengths.tolist()]
    ordered: list[str] = []
    for place, word in enumerate(spelled):
        ordered.append(word)
        if place % 8 == 7:
            ordered.append(" ".join(spelled[int(i)] for i in rng.integers(0, place + 1, int(rng.integers(2, 5)))))
    return np.array([text + end for text in ordered for end in (" ", ", ", ". ")], dtype=object)


def documents(number: int, size: int) -> list[str]:
    """Returns the documents of a file, of about this number of bytes."""
    rng, table = np.random.default_rng((1, number)), pieces()
    # Zipf's law in Mandelbrot's form, over all words.
    share = np.cumsum(1 / (np.arange(len(table) // 3) + 2.7) ** 1.03)
    count = size // 5
    rank = np.searchsorted(share, rng.random(count) * share[-1])
    chosen = table[rank * 3 + rng.choice(3, count, p=(0.87, 0.07, 0.06))].tolist()
    found, at, written = [], 0, 0
    while written < size:
        end = at + int(np.clip(rng.lognormal(5.4, 0.9), 5, 20_000))
        text = "".join(chosen[at % count : at % count + end - at]).strip() or "."
        found.append(text)
        written += len(text) + 1
        at = end
    return found


def write(folder: Path, number: int, size: int) -> None:
    """Writes a file in each format."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zstandard

    name = f"{number:05}"
    if (folder / "parquet" / f"{name}.parquet").exists():
        return
    texts = documents(number, size)
    lines = "".join(json.dumps({"id": f"{name}-{i}", "text": text}) + "\n" for i, text in enumerate(texts)).encode()
    (folder / "text" / f"{name}.txt").write_text("\n".join(texts) + "\n")
    (folder / "jsonl" / f"{name}.jsonl").write_bytes(lines)
    (folder / "jsonl.gz" / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines, 6))
    (folder / "jsonl.zst" / f"{name}.jsonl.zst").write_bytes(zstandard.ZstdCompressor(3).compress(lines))
    part = folder / "parquet" / f"{name}.part"
    pq.write_table(pa.table({"text": texts}), part, row_group_size=GROUP_ROWS, compression="zstd")
    part.rename(part.with_suffix(".parquet"))


def link(folder: Path, number: int, distinct: int) -> None:
    """Links a file of each format to one of the distinct files."""
    for kind in FORMATS:
        suffix = "txt" if kind == "text" else kind
        path = folder / kind / f"{number:05}.{suffix}"
        if not path.exists():
            path.hardlink_to(folder / kind / f"{number % distinct:05}.{suffix}")


def make(folder: Path, gigabytes: float, distinct: int | None) -> float:
    """Writes the missing files, and returns the bytes of text per token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    size = int(min(FILE_BYTES, gigabytes * 1e9 / 4))
    files = max(4, round(gigabytes * 1e9 / size))
    if (folder / "size").exists() and (folder / "size").read_text() != f"{size} {files}":
        shutil.rmtree(folder)
    for kind in FORMATS:
        (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / "size").write_text(f"{size} {files}")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(write, folder, number, size) for number in range(min(files, distinct or files))]:
            done.result()
    for number in range(distinct or files, files):
        link(folder, number, distinct or files)
    sample, path = documents(0, SAMPLE), folder / "tokenizer.json"
    if not path.exists():
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(
            sample,
            trainers.BpeTrainer(
                vocab_size=VOCABULARY, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False
            ),
        )
        made.save(str(path))
    tokens = Tokenizer.from_file(str(path)).encode_batch(sample[:1000])
    return sum(map(len, sample[:1000])) / sum(len(one.ids) + 1 for one in tokens)


def dataset(kind: str, folder: Path) -> Any:
    """Returns the pipeline over a format."""
    import forebay as fb

    sources: dict[str, Callable[[str], Any]] = {"text": fb.from_text, "parquet": fb.from_parquet}
    ds = sources.get(kind, fb.from_jsonl)(str(folder / kind / f"*.{'txt' if kind == 'text' else kind}"))
    ds = ds.shuffle(window="256MiB" if kind == "parquet" else "32MiB")
    return ds.tokenize("text", folder / "tokenizer.json").pack("text", LENGTH, eos_id=0).batch(BATCH)


def read(kind: str, folder: Path, state: Path, tokens: int) -> dict[str, Any]:
    """Reads this number of tokens, saves the state, and returns the figures."""
    import forebay as fb

    began, spent = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    it = dataset(kind, folder).iter(seed=1)
    seen = next(it)["text"].size
    first = time.perf_counter()
    while seen < tokens:
        seen += next(it)["text"].size
    seconds = time.perf_counter() - first
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - spent
    state.write_text(json.dumps(it.state_dict()))
    return {
        "first": first - began,
        "tokens/s": (seen - LENGTH * BATCH) / seconds,
        "cpu": spent / seen,
        "memory": memory(),
        "next": digest(next(it)),
        "version": fb.__version__,
    }


def resume(kind: str, folder: Path, state: Path) -> dict[str, Any]:
    """Resumes from a state, and returns the time of the first batch."""
    import forebay as fb

    began = time.perf_counter()
    it = dataset(kind, folder).iter(seed=1)
    it.load_state_dict(json.loads(state.read_text()))
    batch = next(it)
    return {"first": time.perf_counter() - began, "next": digest(batch), "memory": memory(), "version": fb.__version__}


def digest(batch: dict[str, np.ndarray]) -> str:
    """Returns a hash of a batch."""
    return hashlib.sha256(batch["text"].tobytes()).hexdigest()


def memory() -> float:
    """Returns the peak memory of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def child(kind: str, options: argparse.Namespace, what: str, tokens: int = 0) -> dict[str, Any]:
    """Runs `read` or `resume` in a separate process, with its index in a folder of the benchmark."""
    cache = options.folder / "cache"
    if what != "resume":
        shutil.rmtree(cache, ignore_errors=True)
    environment = {**os.environ, "FOREBAY_CACHE": str(cache)}
    command = [sys.executable, __file__, "--folder", str(options.folder), "--child", what, kind, str(tokens)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def warm(folder: Path) -> int:
    """Reads files into the page cache, and returns their size."""
    size = 0
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while part := len(file.read(8 << 20)):
                size += part
    return size


def main() -> None:
    """Reads each format in turn, and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-text"), help="where the text is made")
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument(
        "--distinct", type=int, help="how many files differ; hard links of these are the others (default: all differ)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.5, help="how much of the epoch is read")
    parser.add_argument("--formats", default=",".join(FORMATS), help="which of them, with commas between")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "FORMAT", "TOKENS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    state = options.folder / "state.json"
    if options.child:
        what, kind, tokens = options.child
        told = read(kind, options.folder, state, int(tokens)) if what == "read" else resume(kind, options.folder, state)
        print(json.dumps(told))
        return
    bytes_a_token = make(options.folder, options.gigabytes, options.distinct)
    kinds = options.formats.split(",")
    text = sum(path.stat().st_size for path in (options.folder / "text").iterdir())
    tokens = int(text * options.share / bytes_a_token)
    seen: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            size = warm(options.folder / kind)
            told = child(kind, options, "read", tokens)
            again, elsewhere = child(kind, options, "resume"), child(kind, options, "elsewhere")
            assert told["next"] == again["next"] == elsewhere["next"], f"{kind}: a resumed run gave another batch"
            figures = {
                "stored, GB": size / 1e9,
                "first batch, s": told["first"],
                "million tokens/s": told["tokens/s"] / 1e6,
                "text, MB/s": told["tokens/s"] * bytes_a_token / 1e6,
                "CPU-s for a GB of text": told["cpu"] / bytes_a_token * 1e9,
                "memory, MB": told["memory"],
                "resumed, s": again["first"],
                "resumed elsewhere, s": elsewhere["first"],
            }
            seen[kind].append(figures)
            print(kind, json.dumps(figures), file=sys.stderr)
    print(about("tokenizers", "pyarrow", "zstandard", "numpy"))
    print(f"{text / 1e9:.2f} GB of text, {bytes_a_token:.2f} bytes a token, {options.share} of an epoch\n")
    names = list(seen[kinds[0]][0])
    print("| format |", " | ".join(names), f"| times {kinds[0]} |")
    print("|---|" + "---|" * (len(names) + 1))
    medians = {
        kind: {name: statistics.median(one[name] for one in all_seen) for name in names}
        for kind, all_seen in seen.items()
    }
    for kind, median in medians.items():
        ratio = median["million tokens/s"] / medians[kinds[0]]["million tokens/s"]
        print(f"| {kind} |", " | ".join(f"{median[name]:.4g}" for name in names), f"| {ratio:.2f} |")


if __name__ == "__main__":
    main()
