"""Data of each kind, and all ops that such data has: for random pipelines of every op.

A family is a source with a column `id`, and ops on its columns. An op may be refused where it is drawn, because an op
before it changed a column; it is then left out.
"""

from __future__ import annotations

import functools
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sounds
from pictures import encoded, picture
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

Op = Callable[[fb.Dataset, random.Random], fb.Dataset]
WORDS = ["tide", "ebb", "Flow", "2024-03-01", "-17", "", " bay ", "naïve", "Σίσυφος", "3.5", "tide"]
RATE = 8000
ROWS = 60


@functools.cache
def tokenizer() -> Tokenizer:
    """Returns a tokenizer that knows the words in lower case, the roles of chats, and no other text."""
    words = sorted({"?", *(word.strip().lower() for word in WORDS), "user", "assistant", "<p>", "<s>", "<m>"} - {""})
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {% if m.role == 'assistant' %}{% generation %}{{ m.content }} "
    "{% endgeneration %}{% else %}{{ m.content }} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)


def sentence(number: int) -> str:
    """Returns a text of up to 20 words."""
    drawn = random.Random(number)
    return " ".join(drawn.choices(WORDS, k=drawn.choice([0, 1, 2, 5, 9, 20])))


def texts() -> fb.Dataset:
    rows = range(ROWS)
    whens = [None if i % 7 == 3 else WORDS[i % len(WORDS)] for i in rows]
    return fb.from_dict({"id": list(rows), "text": [sentence(i) for i in rows], "word": whens})


def chats() -> fb.Dataset:
    def messages(number: int) -> str:
        turns = range(1 + number % 4)
        chat = [{"role": ["user", "assistant"][t % 2], "content": sentence(number + t) or "ebb"} for t in turns]
        return json.dumps(chat)

    return fb.from_dict({"id": list(range(ROWS)), "messages": [messages(i) for i in range(ROWS)]})


@functools.cache
def _sounds() -> list[bytes]:
    return [sounds.encoded(sounds.speech(RATE, 0.05 + i % 5 / 50, 1 + i % 2, i), RATE) for i in range(12)]


def recordings() -> fb.Dataset:
    return fb.from_dict({"id": list(range(24)), "file": _sounds() * 2})


@functools.cache
def _boxed() -> list[dict[str, Any]]:
    def palette(mask: Any) -> bytes:
        image, file = Image.fromarray(mask), io.BytesIO()
        image.putpalette([level for number in range(256) for level in (number, 255 - number, number // 2)])
        image.save(file, "PNG")
        return file.getvalue()

    rows = []
    for number in range(20):
        draw = np.random.default_rng(number)
        height, width = (int(side) for side in draw.integers(12, 30, 2))
        count = number % 4
        corner = draw.uniform(0, 0.6, (count, 2)) * [width, height]
        far = corner + draw.uniform(0.1, 0.4, (count, 2)) * [width, height]
        pixels = draw.integers(0, 256, (height, width, 3), dtype=np.uint8)
        boxes = np.concatenate([corner, far], axis=1).astype(np.float32)
        points = np.concatenate([corner, np.full((count, 1), 2)], axis=1).astype(np.float32)
        row = {"id": np.int64(number), "image": encoded(pixels, "PNG"), "mask": palette(pixels[..., 0])}
        rows.append({**row, "boxes": boxes, "labels": np.arange(count), "points": points})
    return rows


def detections() -> fb.Dataset:
    ds = fb.from_map_dataset(_boxed()).decode_image("image").decode_image("mask", mode="P")
    return ds.annotate("image", boxes="boxes", labels="labels", masks="mask", points="points")


def pictures() -> fb.Dataset:
    images = [encoded(picture(i, 12 + i % 5, 10 + i % 3), ["PNG", "JPEG", "WEBP"][i % 3]) for i in range(30)]
    return fb.from_dict({"id": list(range(30)), "image": images}).decode_image("image")


def sized_pictures() -> fb.Dataset:
    pixels = np.stack([picture(i, 12, 10) for i in range(20)])
    return fb.from_numpy({"id": np.arange(20), "image": pixels})


def sized_clips() -> fb.Dataset:
    pixels = np.stack([[picture(i + 7 * frame, 12, 10) for frame in range(5)] for i in range(12)])
    return fb.from_numpy({"id": np.arange(12), "image": pixels})


def clips() -> fb.Dataset:
    def of(number: int) -> Any:
        return np.stack([picture(number + 7 * frame, 10 + number % 5, 12) for frame in range(2 + number % 4)])

    return fb.from_map_dataset([{"id": np.int64(i), "image": of(i)} for i in range(12)])


def deep_pictures() -> fb.Dataset:
    """Returns images of 16 bits."""

    def levels(number: int) -> Any:
        return np.random.default_rng(number).integers(0, 1 << 16, (12 + number % 5, 10 + number % 3), dtype=np.uint16)

    files = [encoded(levels(i), "PNG") for i in range(20)]
    return fb.from_dict({"id": list(range(20)), "image": files}).decode_image("image", mode="I;16")


def open_pictures() -> fb.Dataset:
    """Returns images with opacity."""
    draw = np.random.default_rng(3)
    files = [encoded(draw.integers(0, 256, (12 + i % 5, 11, 4), dtype=np.uint8), "PNG") for i in range(20)]
    return fb.from_dict({"id": list(range(20)), "image": files}).decode_image("image", mode="RGBA")


def lists() -> fb.Dataset:
    numbers = [[float(k) for k in range(i % 5)] for i in range(ROWS)]
    names = [None if i % 6 == 5 else [WORDS[(i + k) % len(WORDS)] for k in range(i % 4)] for i in range(ROWS)]
    return fb.from_dict({"id": list(range(ROWS)), "numbers": numbers, "names": names})


def times(folder: Path) -> fb.Dataset:
    """Returns times of every unit, some of which are missing."""
    path = folder / "times.parquet"
    if not path.exists():
        seconds = [None if i % 8 == 5 else 86_400 * 997 * (i - 20) + 3_601 * i for i in range(ROWS)]
        scaled = {unit: 10**k for unit, k in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9))}
        columns = {
            unit: pa.array([None if s is None else s * by for s in seconds], pa.timestamp(unit))
            for unit, by in scaled.items()
        }
        days = pa.array([None if s is None else s // 86_400 for s in seconds], pa.date32())
        pq.write_table(pa.table({"id": range(ROWS), **columns, "day": days}), path, row_group_size=17)
    return fb.from_parquet(path)


ID = fb.col("id")


def put(name: str, *values: Callable[[random.Random], Any]) -> Op:
    """Returns an op that computes up to four columns by some of these expressions."""

    def op(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
        for place in range(rng.randint(1, 4)):
            ds = ds.with_column(f"{name}{place or ''}", rng.choice(values)(rng))
        return ds

    return op


TEXT = fb.col("text").str
WORD = fb.col("word")
TEXT_OPS: list[Op] = [
    put(
        "made",
        lambda rng: TEXT.lower(),
        lambda rng: fb.lit(True) & TEXT.contains("ebb"),
        lambda rng: TEXT.upper().str.strip("T "),
        lambda rng: TEXT.strip().len(),
        lambda rng: TEXT.slice(*rng.choice([(-9, None), (-9, -1), (3, None), (0, 7), (3, 7)])),
        lambda rng: TEXT.contains("tide") & ~TEXT.starts_with("ebb") | TEXT.ends_with("bay "),
        lambda rng: TEXT.replace("tide", rng.choice(["", "tides"])),
        lambda rng: TEXT.match("[a-z]+") == TEXT.search(r"\d"),
        lambda rng: TEXT.split(" ", rng.randint(-2, 2)),
        lambda rng: TEXT.split(" "),
        lambda rng: TEXT.split(*rng.choice([(), (None, rng.randint(-2, 2))])),
        lambda rng: TEXT.replace(rng.choice(["t(i)d", "[a-e]+", " $"]), r"<\g<0>>", regex=True),
        lambda rng: TEXT.extract(r"(\w+) (?P<next>\w+)", rng.choice([0, 1, "next"])),
        lambda rng: TEXT.findall(rng.choice(["[aeiou]", r"(\w)\b"])),
        lambda rng: TEXT.split().list.lookup({"tide": 3, "ebb": 4}, default=rng.randint(0, 2)),
        lambda rng: fb.concat_list(["word", TEXT.split(), fb.lit("end")]),
        lambda rng: fb.coalesce(WORD, fb.lit("none")),
        lambda rng: WORD.isin(["tide", "", "naïve"]),
        lambda rng: WORD.lookup({"tide": 1, "ebb": 5}, rng.choice([None, 0])),
        lambda rng: fb.concat_str("word", "id", separator="-"),
        lambda rng: fb.format("{id}: {} / {text}", WORD),
        lambda rng: WORD.fill_null("none").hash_mod(9),
        lambda rng: fb.where(WORD == "tide", fb.lit("3.5"), fb.lit("-17")).str.to_float(),
        lambda rng: fb.where(WORD == "tide", fb.lit("11"), fb.lit("-17")).str.to_int(rng.choice([8, 10])),
        lambda rng: fb.where(ID % 2 == 0, fb.lit("2024-03-01T07:09"), fb.lit("1969-12-31")).str.to_time("us"),
        lambda rng: fb.where(WORD == "tide", fb.lit("29 Feb 2024"), fb.lit("1 jan 1969")).str.to_time("s", "%d %b %Y"),
    ),
    lambda ds, rng: ds.fill_null("word", "none"),
    lambda ds, rng: ds.filter(WORD.is_null() | (WORD != "tide")),
    lambda ds, rng: ds.tokenize("text", tokenizer(), output="ids", max_length=rng.choice([None, 6])),
    lambda ds, rng: ds.tokenize("text", tokenizer(), output="ids"),
]
FORMS: list[Op] = [
    lambda ds, rng: ds.mask_tokens("ids", 3, 9, probability=0.4, labels="targets"),
    lambda ds, rng: ds.corrupt_spans("ids", range(99, 80, -1), density=0.4, mean_length=2, eos_id=7, labels="targets"),
    lambda ds, rng: ds.fill_in_middle("ids", 90, 91, 92, rate=rng.choice([0.5, 1.0]), spm_rate=0.3),
    lambda ds, rng: ds.prefix_lm("ids", labels="targets"),
]
CHAT_OPS: list[Op] = [
    lambda ds, rng: ds.chat(
        "messages",
        tokenizer(),
        template=TEMPLATE,
        output="ids",
        labels="targets",
        mask=rng.choice([None, "learned"]),
        text=rng.choice([None, "text"]),
        learn=rng.choice(["assistant", "last", "all"]),
        add_generation_prompt=rng.random() < 0.3,
        max_length=rng.choice([None, 8]),
    ),
    lambda ds, rng: ds.filter(fb.col("messages").str.contains("assistant")),
]
SPECTRA: list[Op] = [
    lambda ds, rng: ds.spectrogram("sound", out="spectrum", n_fft=64),
    lambda ds, rng: ds.mel("sound", out="spectrum", n_fft=64, n_mels=8),
    lambda ds, rng: ds.mfcc("sound", out="spectrum", n_fft=64, n_mels=8, n_mfcc=4),
]


def reverberated(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    """Returns sound in a room whose impulse response is a part of the file."""
    ds = ds.decode_audio("file", out="room", sample_rate=RATE).crop_audio("room", 0.02, start=0.03)
    shift, keep_level = rng.random() < 0.5, rng.choice(["rms", "peak", None])
    return ds.random_reverb("sound", "room", shift=shift, keep_level=keep_level, p=0.7).drop("room")


SOUND_OPS: list[Op] = [
    lambda ds, rng: ds.decode_audio("file", out="sound", sample_rate=rng.choice([RATE, 6000]), mono=rng.random() < 0.8),
    lambda ds, rng: ds.resample_audio("sound", rng.choice([6000, RATE])),
    lambda ds, rng: ds.crop_audio("sound", 0.06, start=rng.choice([0.0, 0.02])),
    lambda ds, rng: ds.random_offset("sound", 0.07),
    lambda ds, rng: ds.normalize_audio("sound", to=rng.choice(["peak", "rms", "standard"])),
    lambda ds, rng: ds.random_gain("sound", p=0.7),
    lambda ds, rng: ds.random_noise("sound", p=0.7),
    reverberated,
    lambda ds, rng: rng.choice(SPECTRA)(ds, rng).spec_augment("spectrum", freq_width=3, time_width=4),
    lambda ds, rng: ds.drop("sound"),
    *SPECTRA,
]
CROPS: list[Op] = [
    lambda ds, rng: ds.resize("image", (rng.randint(4, 20), rng.randint(4, 20)), antialias=rng.random() < 0.5),
    lambda ds, rng: ds.resize("image", shorter=rng.randint(6, 14), max_size=rng.choice([None, 20])),
    lambda ds, rng: ds.center_crop("image", rng.randint(4, 16)),
    lambda ds, rng: ds.crop("image", rng.randint(3, 6), top=rng.randint(0, 2), corner="bottom_left"),
    lambda ds, rng: ds.pad("image", rng.randint(0, 3), fill=7),
    lambda ds, rng: ds.random_crop("image", (8, 9), padding=5),
    lambda ds, rng: ds.random_resized_crop("image", rng.randint(4, 12)),
    lambda ds, rng: ds.random_flip("image", direction=rng.choice(["horizontal", "vertical"])),
    lambda ds, rng: ds.random_rotation("image", 40, interpolation=rng.choice(["nearest", "bilinear"])),
    lambda ds, rng: ds.random_affine("image", 20, translate=(0.1, 0.2), shear=8),
    lambda ds, rng: ds.random_perspective("image"),
    lambda ds, rng: ds.random_zoom_out("image", side_range=(1.0, 1.6)),
]
LEVELS: list[Op] = [
    lambda ds, rng: ds.color_jitter("image", brightness=0.5, contrast=0.5, saturation=0.5, hue=0.2),
    lambda ds, rng: ds.random_grayscale("image", p=0.5),
    lambda ds, rng: ds.random_solarize("image"),
    lambda ds, rng: ds.gaussian_blur("image", 3),
    lambda ds, rng: ds.rand_augment("image"),
    lambda ds, rng: ds.random_posterize("image", 3),
    lambda ds, rng: ds.random_invert("image"),
    lambda ds, rng: ds.random_autocontrast("image"),
    lambda ds, rng: ds.random_equalize("image"),
    lambda ds, rng: ds.random_adjust_sharpness("image", 2),
    lambda ds, rng: ds.random_channel_permutation("image"),
    lambda ds, rng: ds.gaussian_noise("image", p=0.5),
    lambda ds, rng: ds.auto_augment("image", rng.choice(["imagenet", "cifar10", "svhn"])),
    lambda ds, rng: ds.trivial_augment("image"),
    lambda ds, rng: ds.aug_mix("image"),
    lambda ds, rng: ds.random_erasing("image"),
    lambda ds, rng: ds.normalize("image", mean=[0.4] * 3, std=[0.2] * 3, layout=rng.choice(["CHW", "HWC"])),
    lambda ds, rng: ds.encode_image("image", "png").decode_image("image"),
    lambda ds, rng: ds.cast(image="float32").check_finite("image"),
]
MORE_LEVELS: list[Op] = [
    lambda ds, rng: ds.normalize("image", mean=[0.4] * 3, std=[0.2] * 3, layout="CTHW"),
    lambda ds, rng: ds.random_erasing("image"),
    *LEVELS,
]
LIST_OPS: list[Op] = [
    put(
        "made",
        lambda rng: fb.col("numbers").len(),
        lambda rng: fb.col("numbers").list.get(rng.randint(-3, 3)),
        lambda rng: fb.col("numbers").list.slice(*rng.choice([(-3, None), (3, None), (0, 2), (1, 2), (1, -1)])),
        lambda rng: fb.col("numbers").list.sum() + fb.col("numbers").list.mean(),
        lambda rng: fb.col("numbers").list.min().fill_null(-1.0) * fb.col("numbers").list.max(),
        lambda rng: fb.col("names").list.contains("tide"),
        lambda rng: fb.col("names").list.join("+"),
        lambda rng: fb.col("names").list.get(rng.randint(-2, 2)),
        lambda rng: fb.stack([ID, ID * 2]),
        lambda rng: ID.one_hot(ROWS),
        lambda rng: fb.concat_list([ID, "numbers", 0.5, fb.col("numbers").list.slice(0, 2)]),
        lambda rng: fb.col("numbers").list.lookup({1: 0.5, 2: 1.5}, default=-1.0),
        lambda rng: ID.bucketize([5, 20], right=rng.random() < 0.5),
        lambda rng: ID.lookup({1: "one", 4: "four"}),
    ),
    lambda ds, rng: ds.explode("numbers"),
    lambda ds, rng: ds.with_column("pair", fb.stack([ID, ID * 2])).explode("pair"),
    lambda ds, rng: ds.cast(numbers=rng.choice(["float32", "int16"])),
    lambda ds, rng: ds.filter(fb.col("numbers").len() > 1),
    lambda ds, rng: ds.select("numbers", "id"),
    lambda ds, rng: ds.rename(names="called"),
    lambda ds, rng: ds.check_finite(),
]
UNITS = ["s", "ms", "us", "ns"]
ANGLE = ID % 7 - 3


def time_part(rng: random.Random) -> Any:
    unit = rng.choice([*UNITS, "day"])
    part = rng.choice(["year", "month", "day", "ordinal_day", "weekday", "hour", "minute", "second"])
    when = fb.col(unit).dt
    return getattr(when if rng.random() < 0.5 else when("D" if unit == "day" else unit), part)()


TIME_OPS: list[Op] = [
    put(
        "made",
        time_part,
        time_part,
        lambda rng: fb.col("us").dt.floor(rng.choice(["15m", "1w", "1d"])),
        lambda rng: fb.where(fb.col("s").is_null(), 0.5, (fb.col("s") / 1e9).abs().sqrt().log1p()),
        lambda rng: (fb.col("s") / 1e10).clip(-2, 2).exp().round() - (fb.col("s") / 1e9).floor(),
        lambda rng: (fb.col("ms").fill_null(-3) / 1e12).ceil().sign() + (abs(ID) + 1).log(),
        lambda rng: fb.col("us").dt.strftime(rng.choice(["%Y-%m-%d %H:%M:%S.%f", "%a %d %B %I %p %j"])),
        lambda rng: ANGLE.sin() + ANGLE.cos() * ANGLE.tan() - (ANGLE / 4).tanh() + ANGLE.degrees() - ANGLE.radians(),
        lambda rng: (ANGLE / 4).arcsin() + (ANGLE / 4).arccos() - ANGLE.arctan() + ANGLE.arctan2(ID),
        lambda rng: ANGLE.sinh() + ANGLE.cosh() + ANGLE.arcsinh() + (ID + 1).arccosh() + (ANGLE / 9).arctanh(),
        lambda rng: (ID + 1).log2() - (ID + 1).log10() + ANGLE.exp2() + ANGLE.expm1() - ANGLE.cbrt(),
        lambda rng: (ID / 0 - ID / 0).is_nan() | (-(ID**2) < ID % 7) & (ID // 3 != 2),
    ),
    lambda ds, rng: ds.fill_null(dict.fromkeys(UNITS, 0)),
    lambda ds, rng: ds.filter(fb.col("s") > 0),
    lambda ds, rng: ds.cast(ms="float64"),
    lambda ds, rng: ds.drop("day"),
]

DETECTION_OPS: list[Op] = [*CROPS, *CROPS[:3], *LEVELS[:4], lambda ds, rng: ds.random_iou_crop("image")]
FAMILIES: dict[str, tuple[Callable[[Path], fb.Dataset], list[Op]]] = {
    "text": (lambda folder: texts(), TEXT_OPS),
    "ids": (lambda folder: texts().tokenize("text", tokenizer(), output="ids"), FORMS),
    "chat": (lambda folder: chats(), [*CHAT_OPS, *CHAT_OPS, *FORMS]),
    "file": (lambda folder: recordings(), SOUND_OPS),
    "sound": (lambda folder: recordings().decode_audio("file", out="sound", sample_rate=RATE), SOUND_OPS[1:]),
    "picture": (lambda folder: pictures(), [*CROPS, *LEVELS]),
    "sized picture": (lambda folder: sized_pictures(), [*CROPS, *LEVELS]),
    "clip": (lambda folder: clips(), [*CROPS, *MORE_LEVELS]),
    "sized clip": (lambda folder: sized_clips(), [*CROPS, *MORE_LEVELS]),
    "deep picture": (
        lambda folder: deep_pictures(),
        [*CROPS, lambda ds, rng: ds.normalize("image", mean=[0.4], std=[0.2])],
    ),
    "open picture": (
        lambda folder: open_pictures(),
        [*CROPS, lambda ds, rng: ds.normalize("image", mean=[0.4] * 4, std=[0.2] * 4)],
    ),
    "detection": (lambda folder: detections(), DETECTION_OPS),
    "list": (lambda folder: lists(), LIST_OPS),
    "time": (times, TIME_OPS),
}
