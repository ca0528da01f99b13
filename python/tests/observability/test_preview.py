"""`forebay preview` and datasets in notebooks: the samples of a run, and no code of a user's in the page."""

from __future__ import annotations

import html.parser
import subprocess
import sys
import time
from pathlib import Path

import forebay as fb
import numpy as np
from forebay._src.iteration.first_samples import same
from forebay._src.preview import page, preview
from forebay._src.preview.stages import stages
from forebay._src.preview.thumbnails import data_url, pixels
from PIL import Image

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e" + "x" * 10_000


class Tags(html.parser.HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_harmless(text: str) -> Tags:
    """No script, no attribute that runs one, no address but of pictures in the page, no hidden characters."""
    tags = Tags(text)
    for tag, attributes in tags.found:
        assert tag not in ("script", "iframe", "object", "link", "svg")
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:image/").startswith("data:image/")
        assert "href" not in attributes
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 2_000_000
    return tags


def skips(row):
    if row["id"] == 1:
        raise fb.SkipSample
    return {"id": row["id"]}


def pipeline(photos: Path) -> fb.Dataset:
    return (
        fb.from_image_folder(str(photos))
        .shuffle()
        .filter(fb.col("label") != 1)
        .decode_image("image", mode="RGB")
        .random_resized_crop("image", 24)
        .map(lambda row, rng: {"drawn": rng.normal(), "twice": row["label"] * 2}, writes=["drawn", "twice"])
        .drop("path")
        .normalize("image", mean=[0.5] * 3, std=[0.25] * 3, layout="CHW")
        .batch(4)
    )


def test_each_stage_has_the_samples_of_a_run(tmp_path):
    ds = pipeline(fb.examples.photos(tmp_path / "photos", 30))
    found = stages(ds, 5, seed=3, epoch=2)
    texts = [stage.text.partition("(")[0] for stage in found]
    assert texts[:5] == ["image_folder", "shuffle", "filter", "decode_image", "random_resized_crop"]
    assert texts[5:] == ["map", "drop", "normalize", "batch"]
    (batch,) = found[-1].samples
    assert same(batch, next(ds.iter(seed=3, epoch=2)))
    last = found[-2].samples
    assert all(same(last[i]["image"], batch["image"][i]) for i in range(4))
    shuffled, kept = found[1].samples, found[2].kept
    assert kept == [sample["label"] != 1 for sample in shuffled]
    of = {stage.text.partition("(")[0]: stage for stage in found}
    assert (of["map"].changed(), of["drop"].changed(), of["normalize"].changed()) == (["drawn", "twice"], [], ["image"])
    assert all(a["path"] == b["path"] for a, b in zip(of["map"].before, of["map"].samples, strict=True))
    assert of["filter"].before == of["shuffle"].before == []
    assert not same(stages(ds, 5, seed=3, epoch=1)[-1].samples, [batch])


def test_samples_before_and_behind_an_op_are_never_of_two_rows():
    found = stages(fb.range(8).map(skips), 4, 0, 0)
    assert [int(s["id"]) for s in found[1].samples] == [0, 2, 3, 4]
    assert found[1].before == []
    many = stages(fb.range(8).flat_map(lambda row: [row, row]).map(lambda r: {"x": r["id"]}, writes=["x"]), 3, 0, 0)
    assert [int(s["id"]) for s in many[1].samples] == [0, 0, 1]
    assert (many[1].before, len(many[2].before)) == ([], 3)


def test_what_fails_is_shown_and_ends_the_page():
    def fails(row):
        if row["id"] == 2:
            raise ValueError(HOSTILE)
        return {"y": row["id"]}

    found = stages(fb.range(8).map(fails).map(lambda r: {"z": r["y"]}), 4, 0, 0)
    assert [len(stage.samples) for stage in found] == [4, 4, 4]
    assert "ValueError" in found[1].errors[0]
    assert found[1].before == []
    text = page.page("t", "n", {"ds": found})
    check_harmless(text)
    assert "ValueError" in text


def test_names_and_texts_of_users_are_escaped_and_cut(tmp_path):
    ds = fb.from_dict({HOSTILE: [HOSTILE, None], 'x" onload="a': [b"\x89PNG\r\n\x1a\n<script>", b"GIF8"]})
    ds = ds.map(lambda row: {**row, "n": 1}, name=HOSTILE)
    text = page.page(HOSTILE, HOSTILE, {HOSTILE: stages(ds, 2, 0, 0)})
    tags = check_harmless(text)
    assert "&lt;script&gt;alert(1)" in text
    assert [a["http-equiv"] for tag, a in tags.found if tag == "meta" and "http-equiv" in a] == [
        "Content-Security-Policy"
    ]
    check_harmless(ds._repr_html_())


def test_values_are_shown_as_what_they_are():
    red = np.zeros((300, 200, 3), np.uint8)
    red[..., 0] = 255
    for one in (red, np.moveaxis(red, 2, 0).astype(np.float32), red > 0):
        small = pixels(one)
        assert (small.shape, small.dtype, small[5, 5].tolist()) == ((128, 85, 3), np.uint8, [255, 0, 0])
    assert pixels(np.full((9, 9), np.nan)).max() == 0
    assert pixels(np.zeros((9, 9))).max() == 0
    for none in (
        np.zeros((3, 3)),
        np.zeros(9),
        np.zeros((9, 9, 9)),
        np.zeros((9, 0)),
        np.array(["a"], object),
        b"GIF7",
    ):
        assert pixels(none) is None
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (400, 400, 3), np.uint8)
    from forebay._src.pictures import jpeg, png

    assert data_url(jpeg(noise[:50, :50])).startswith("data:image/jpeg;base64,")
    large = data_url(jpeg(noise))
    assert large.startswith("data:image/png;base64,")
    assert len(large) < 100_000
    assert png(noise) != png(noise[::-1])


def test_a_notebook_shows_samples_and_never_waits_long(monkeypatch):
    monkeypatch.setattr(preview, "_SECONDS", 90.0)
    ds = fb.from_numpy({"image": np.zeros((5, 16, 16, 3), np.uint8), "label": np.arange(5)})
    shown = check_harmless(ds._repr_html_())
    assert sum(tag == "img" for tag, _ in shown.found) == 3
    assert sum(tag == "img" for tag, _ in check_harmless(ds.batch(2)._repr_html_()).found) == 2

    broken = fb.range(3).map(lambda row: {"y": 1 / 0}, schema={"y": "float64"})
    assert "y" in broken._repr_html_()

    def slow(row):
        # Longer than a notebook waits.
        time.sleep(1.0)
        return row

    monkeypatch.setattr(preview, "_SECONDS", 0.5)
    start = time.monotonic()
    text = fb.range(300).map(slow, schema={"id": "int64"})._repr_html_()
    assert time.monotonic() - start < 90, "it does not wait for all rows"
    assert "no sample within" in text
    assert "no sample" in fb.range(10**12).filter(fb.col("id") < 0)._repr_html_()


def test_the_command_writes_a_page_and_a_sheet(tmp_path):
    fb.examples.photos(tmp_path / "photos", 9)
    (tmp_path / "train.py").write_text(
        "import forebay as fb\n"
        "train = fb.from_image_folder('photos').decode_image('image').resize('image', (16, 16)).batch(4)\n"
        "other = fb.range(9)\n"
    )

    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        run = [sys.executable, "-m", "forebay", "preview", *map(str, arguments)]
        return subprocess.run(run, capture_output=True, text=True, timeout=180, cwd=tmp_path)

    done = command("train.py:train", "--samples", 3, "--png", "sheet.png")
    assert (done.returncode, done.stdout) == (0, "preview.html\n"), done.stderr
    text = (tmp_path / "preview.html").read_text()
    check_harmless(text)
    assert ("line 2" in text, "other" in text) == (True, False)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width >= 400
        assert len(sheet.getcolors(1 << 24) or []) > 50
    assert command("train.py:none").returncode == 4
    assert command("train.py", "--samples", 65).returncode == 2
    assert command("train.py", "--out", "no/such/folder.html").returncode == 4
