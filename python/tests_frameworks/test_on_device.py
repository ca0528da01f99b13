"""Batches on a device: copies, and ops that the device runs. A CUDA device is used too where there is one."""

import itertools
import pickle

import forebay as fb
import numpy as np
import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
ROWS = 64


def images(layout: str = "CHW", channels: int = 3) -> fb.Dataset:
    """Images that have all levels, in random order and flipped at random, normalized to floats."""
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (ROWS, 16, 17, channels), np.uint8)
    pixels[0].reshape(-1)[:256] = np.arange(256)
    rows = fb.from_numpy({"image": pixels, "id": np.arange(ROWS)}).shuffle().random_flip("image")
    return rows.normalize("image", mean=[0.485, 0.1, 0.3][:channels], std=[0.229, 3e-7, 1e5][:channels], layout=layout)


def same(left: dict, right: dict) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        other = right[name]
        assert value.is_contiguous()
        assert (value.dtype, value.shape) == (other.dtype, other.shape)
        assert np.array_equal(value.cpu().numpy(), np.asarray(other.cpu()))


@pytest.mark.parametrize("device", [None, *DEVICES])
def test_ragged_columns_are_tensors_that_move_together(device):
    rows = [[1, 2], [], [3, 4, 5], [6]]
    boxes = [np.full((len(row), 4), i, np.float32) for i, row in enumerate(rows)]
    ds = fb.from_dict({"ids": rows, "boxes": boxes}).batch(3, ragged=True)
    loader = torch.utils.data.DataLoader(ds.to_torch(device=device), batch_size=None)
    batches = list(loader)
    assert [len(batch["ids"]) for batch in batches] == [3, 1]
    ids, found = batches[0]["ids"], batches[0]["boxes"]
    assert ids.device == ids.offsets.device == torch.device(device or "cpu", 0 if device == "cuda" else None)
    assert (ids.values.dtype, ids.offsets.dtype) == (torch.int64, torch.int32)
    assert (ids.tolist(), found.tolist()) == (rows[:3], [box.tolist() for box in boxes[:3]])
    of = [torch.tensor(row, dtype=torch.int64, device=ids.device) for row in rows[:3]]
    nested = torch.nested.nested_tensor(of, layout=torch.jagged)
    assert [row.tolist() for row in (ids.to_nested() * 2).unbind()] == [[2 * i for i in row] for row in rows[:3]]
    assert torch.equal(ids.to_padded(7), nested.to_padded_tensor(7))
    weights = torch.rand(9, 3, device=ids.device)
    bags = torch.nn.functional.embedding_bag(ids.values.int(), weights, ids.offsets[:-1])
    means = [weights[row].mean(0) if row else torch.zeros(3, device=ids.device) for row in rows[:3]]
    torch.testing.assert_close(bags, torch.stack(means))
    half = found.to(torch.float16)
    assert (half.dtype, half.offsets.dtype, half.copy()[2].shape) == (torch.float16, torch.int32, (3, 4))
    assert [row.tolist() for row in np.asarray(ids)] == rows[:3]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_device_finishes_with_the_bits_of_the_engine(device, layout, channels):
    for ds in (images(layout, channels), images(layout, channels).batch(7), images(layout, channels).take(20).batch(3)):
        want = list(ds.to_torch(seed=2))
        got = list(ds.to_torch(seed=2, finish_on=device))
        assert [batch["image"].device.type for batch in got] == [device] * len(want)
        for left, right in zip(got, want, strict=True):
            same(left, right)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["CHW", "HWC", "CTHW"])
def test_a_device_finishes_clips_and_images_of_16_bits(device, layout):
    draw, numbers = np.random.default_rng(4), {"mean": [0.4, 0.1, 0.3], "std": [0.2, 3e-7, 1e5]}
    clips = fb.from_numpy({"image": draw.integers(0, 256, (9, 5, 8, 7, 3), np.uint8)})
    made = [clips.normalize("image", layout=layout, **numbers)]
    if layout != "CTHW":
        deep = fb.from_numpy({"image": draw.integers(0, 1 << 16, (9, 8, 7, 1), np.uint16)})
        made.append(deep.normalize("image", mean=0.3, std=0.7, layout=layout))
    for ds in made:
        want, got = (list(ds.batch(4).to_torch(finish_on=on)) for on in (None, device))
        for left, right in zip(got, want, strict=True):
            same(left, right)


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_that_finishes_on_a_device_resumes_everywhere(device):
    def made() -> object:
        return images().batch(5).to_torch(seed=2, finish_on=device, columns="image")

    want = [batch.cpu().numpy() for batch in made()]
    for cut in range(1, len(want)):
        first, again = made(), pickle.loads(pickle.dumps(made()))
        seen = [batch.cpu().numpy() for batch in itertools.islice(first, cut)]
        again.load_state_dict(first.state_dict())
        np.testing.assert_array_equal(
            np.concatenate(seen + [batch.cpu().numpy() for batch in again]), np.concatenate(want)
        )


@pytest.mark.parametrize("device", DEVICES)
def test_a_service_sends_pixels_and_the_device_finishes(device):
    ds = images().batch(8)
    want = list(ds.to_torch(seed=2))
    with fb.up(workers=1) as service:
        got = list(ds.to_torch(service, job="finish", seed=2, finish_on=device, epochs=1))
    for left, right in zip(got, want, strict=True):
        same(left, right)


REFUSED = {
    "no normalize": (lambda: fb.range(4).to_torch(finish_on="cpu"), "does not end with normalize"),
    "an op behind it": (
        lambda: images().with_column("image", fb.col("image") * 2).to_torch(finish_on="cpu"),
        "does not end with normalize",
    ),
    "another column": (lambda: images().to_torch(finish_on="cpu", columns="id"), "does not end with normalize"),
    "two devices": (lambda: images().to_torch(device="meta", finish_on="cpu"), "another device than"),
    "a device that is absent": (lambda: images().to_torch(device="cuda:99"), 'device="cuda:99" is absent'),
    "finishing on one": (lambda: images().to_torch(finish_on="cuda:99"), 'finish_on="cuda:99" is absent'),
    "no device": (lambda: images().to_torch(finish_on="gpu"), "finish_on='gpu' is no device"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_device_can_finish_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(fb.errors.InvalidPipelineError, match=message):
        make()


def slow(floats: torch.Tensor) -> torch.Tensor:
    """Keeps the device busy for some milliseconds, and returns the sums of the rows."""
    square = torch.ones(4096, 4096, device=floats.device)
    for _ in range(8):
        square = square @ square / 4096
    return floats.double().flatten(1).sum(1) * square[0, 0]


@on_cuda
@pytest.mark.parametrize("finish_on", [None, "cuda"])
@pytest.mark.parametrize("prefetch", [0, 1, 2, 8])
def test_copies_and_kernels_that_overlap_change_no_value(finish_on, prefetch):
    ds = images().repeat(20).batch(16, drop_remainder=True)
    want = [batch["image"].double().flatten(1).sum(1) for batch in ds.to_torch(seed=2)]
    got = []
    for batch in ds.to_torch(seed=2, device="cuda", prefetch=prefetch, finish_on=finish_on):
        got.append(slow(batch["image"]))
        # Memory that is freed too early would be used by this.
        del batch
        torch.full((16, 3, 16, 17), torch.nan, device="cuda")
    torch.testing.assert_close(torch.cat([sums.cpu() for sums in got]), torch.cat(want), rtol=1e-9, atol=0)


@on_cuda
def test_a_service_starts_after_cuda_was_initialised():
    torch.ones(3, device="cuda").sum().item()
    with fb.up(workers=2) as service:
        got = list(images().batch(8).to_torch(service, job="after", seed=2, device="cuda", epochs=1))
    assert [batch["image"].device.type for batch in got] == ["cuda"] * (ROWS // 8)


@on_cuda
def test_functions_in_processes_run_after_cuda_was_initialised():
    torch.ones(3, device="cuda").sum().item()
    ds = fb.range(32).map(lambda row: {"x": row["id"] * 2}).batch(8)
    got = list(ds.to_torch(seed=1, executor="process", device="cuda"))
    assert sorted(torch.cat([batch["x"] for batch in got]).tolist()) == [2 * n for n in range(32)]


@on_cuda
def test_a_full_device_is_an_error_of_the_loop_and_the_next_batches_come():
    ds = fb.range(8).batch(2).to_torch(seed=1, device="cuda")
    batches = iter(ds)
    first = next(batches)["id"].tolist()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    assert first + [n for batch in batches for n in batch["id"].tolist()] == list(range(8))
