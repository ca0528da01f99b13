"""Masks, spans, middles and prefixes are drawn by seed, epoch and sample, and nothing else."""

from __future__ import annotations

import json

import forebay as fb
import numpy as np
import pytest

E = fb.errors
LISTS = {"ids": ("int32", (None,))}


def ids_of(row):
    return {"ids": np.arange(10, 10 + 3 * int(row["id"]), dtype=np.int32)}


def lists(n: int = 40) -> fb.Dataset:
    return fb.range(n).shuffle().map(ids_of, schema=LISTS)


FORMS = {
    "mask": lambda ds: ds.mask_tokens("ids", 3, 100, probability=0.3),
    "spans": lambda ds: ds.corrupt_spans("ids", range(999, 900, -1), density=0.3, eos_id=1),
    "middle": lambda ds: ds.fill_in_middle("ids", 1, 2, 3, rate=0.7),
    "prefix": lambda ds: ds.prefix_lm("ids"),
}


def rows(it) -> list[dict]:
    return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in it]


@pytest.mark.parametrize("form", FORMS)
def test_a_row_follows_from_seed_epoch_and_sample(form):
    ds = FORMS[form](lists())
    first = rows(ds.iter(seed=1, epochs=2, threads=1))
    assert first == rows(ds.iter(seed=1, epochs=2, threads=3))
    epochs = [sorted(json.dumps(row) for row in part) for part in (first[:40], first[40:])]
    assert epochs[0] != epochs[1], "each epoch draws anew"
    assert first[:40] != rows(ds.iter(seed=2))
    it = ds.iter(seed=1, epochs=2)
    [next(it) for _ in range(17)]
    state = it.state_dict()
    it = ds.iter(seed=1, epochs=2)
    it.load_state_dict(state)
    assert rows(it) == first[17:]
    with fb.up(workers=2, threads=1) as service:
        assert rows(ds.distribute(service, job="forms", seed=1, epochs=2)) == first


def test_nothing_is_lost():
    given = [row["ids"] for row in rows(lists().iter(seed=1))]
    made = {form: rows(make(lists()).iter(seed=1)) for form, make in FORMS.items()}
    for ids, mask, spans, middle, prefix in zip(given, *made.values(), strict=True):
        assert [m if label == -100 else label for m, label in zip(mask["ids"], mask["labels"], strict=True)] == ids
        parts, labels = {}, spans["labels"][:-1]
        for id in labels:
            parts.setdefault(id, []) if id > 900 else parts[max(parts, key=list(parts).index)].append(id)
        whole = [id for part in spans["ids"][:-1] for id in (parts[part] if part > 900 else [part])]
        assert whole == ids
        assert spans["ids"][-1] == spans["labels"][-1] == 1
        assert sorted(id for id in middle["ids"] if id > 3) == ids
        length = prefix["prefix_length"]
        assert prefix["ids"] == ids
        assert prefix["labels"] == [-100] * length + ids[length:]
        assert length == len(ids) == 0 or 1 <= length < max(len(ids), 2)


def test_texts_are_cut_between_characters():
    texts = ["déjà vu 漢字 👍" * 3, "", "x"]
    ds = fb.from_dict({"text": texts}).fill_in_middle("text", "<P>", "<S>", "<M>", rate=1, spm_rate=0.5)
    seen = set()
    for seed in range(20):
        for row, text in zip(ds.iter(seed=seed), texts, strict=True):
            made = row["text"]
            if made.startswith("<P><S>") and made.index("<M>") > 0 and made.count("<P>") == 1:
                suffix, rest = made[6:].split("<M>")
                if rest + suffix == text:
                    seen.add("suffix first")
                    continue
            prefix, rest = made[3:].split("<S>")
            suffix, middle = rest.split("<M>")
            assert prefix + middle + suffix == text
            seen.add("prefix first")
    assert seen == {"suffix first", "prefix first"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ds: ds.mask_tokens("ids", 3, 9, probability=1.5), "p=1.5"),
        (lambda ds: ds.mask_tokens("ids", 3, 9, mask_replace=0.8, random_replace=0.3), "random_replace|mask_replace"),
        (lambda ds: ds.mask_tokens("ids", 3, 9, labels="ids"), "labels="),
        (lambda ds: ds.corrupt_spans("ids", []), "sentinel_ids"),
        (lambda ds: ds.corrupt_spans("ids", [9], density=1), "density"),
        (lambda ds: ds.corrupt_spans("ids", 9), "list of ids"),
        (lambda ds: ds.fill_in_middle("ids", "<P>", 2, 3), "texts"),
        (lambda ds: ds.fill_in_middle("ids", "<P>", "<S>", "<M>"), "has ids"),
        (lambda ds: ds.prefix_lm("ids", prefix_length="labels"), "one name"),
        (lambda ds: ds.with_column("x", 1).mask_tokens("x", 3, 9), "column 'x'|column \"x\""),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(E.InvalidPipelineError, match=said) as caught:
        call(lists())
    assert caught.value.context.get("hint") or "list of ids" in str(caught.value)
