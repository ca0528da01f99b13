"""JAX: epochs, states and shardings in one process with four devices, on a service, and in two processes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay._src.selftest.relay import free_port

jax = pytest.importorskip("jax")
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

HERE = Path(__file__).parent


def pipeline(known: bool = True) -> fb.Dataset:
    rows = fb.range(48).shuffle()
    return (rows if known else rows.filter(fb.col("id") < 40)).batch(4, drop_remainder=True)


def ids(batches) -> list:
    return [np.asarray(batch["id"]).tolist() for batch in batches]


def expected(ds, epochs: int, **options) -> list:
    return [ids(ds.iter(seed=5, epoch=epoch, **options)) for epoch in range(epochs)]


def on_four_devices(*spec: str | None) -> NamedSharding:
    kinds = (jax.sharding.AxisType.Auto,) * 2
    return NamedSharding(jax.make_mesh((2, 2), ("data", "sequence"), axis_types=kinds), PartitionSpec(*spec))


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
def test_a_run_goes_on_from_any_batch_with_any_batches_ahead(known, prefetch):
    ds = pipeline(known)
    want = expected(ds, 3)
    for cut in range(len(want[0]) + 1):
        data, again = (ds.to_jax(seed=5, prefetch=prefetch) for _ in range(2))
        seen = ids(itertools.islice(data, cut)) if cut else []
        again.load_state_dict(json.loads(json.dumps(data.state_dict())))
        assert seen + ids(again) == want[0]
        assert [ids(again), ids(again)] == want[1:]


def test_a_job_of_a_service_goes_on_from_any_batch(service):
    ds = pipeline()
    want = expected(ds, 3)

    def made():
        return ds.to_jax(service, job=uuid.uuid4().hex, seed=5, epochs=3)

    data = made()
    assert [ids(data) for _ in range(3)] == want
    for cut in (1, 6, 11):
        data, again = made(), made()
        assert ids(data) == want[0]
        seen = ids(itertools.islice(data, cut))
        again.load_state_dict(data.state_dict())
        assert [seen + ids(again), ids(again)] == want[1:]
    # The same job continues after the last batch of the loop, although its consumer was ahead.
    data = made()
    seen, state = ids(itertools.islice(data, 3)), data.state_dict()
    data.load_state_dict(state)
    assert seen + ids(data) == want[0]


def test_a_state_fits_another_framework():
    data, again = pipeline().to_jax(seed=5), pipeline().to_torch(seed=5)
    seen = ids(itertools.islice(data, 5))
    again.load_state_dict(data.state_dict())
    assert seen + ids(again) == expected(pipeline(), 1)[0]


def test_epochs_can_be_set_and_peeking_costs_none():
    data = pipeline().to_jax(seed=5)
    assert len(data) == 12
    iter(data)
    want = expected(pipeline(), 4)
    data.set_epoch(2)
    assert [ids(data), ids(data)] == want[2:]


@pytest.mark.parametrize("cut", [1, 3])
def test_an_error_comes_behind_the_batches_before_it(cut):
    ds = fb.range(16).map(lambda row: {"id": 1 // (4 * cut - int(row["id"]))}).batch(4)
    reader, data = ds.iter(), iter(ds.to_jax(prefetch=4))
    for _ in range(cut):
        assert ids([next(reader)]) == ids([next(data)])
    for _ in range(2):
        with pytest.raises(fb.errors.FunctionError, match="ZeroDivisionError"):
            next(data)


def test_batches_lie_where_the_sharding_says():
    ds = fb.from_numpy({"x": np.arange(96.0).reshape(12, 8), "y": np.arange(12)}).batch(4, drop_remainder=True)
    shardings = {"x": on_four_devices("data", "sequence"), "y": on_four_devices("data")}
    data = ds.to_jax(sharding=shardings, columns=("x", "y"))
    kept = list(data)
    for (x, y), want in zip(kept, ds, strict=True):
        assert (x.sharding, y.sharding) == (shardings["x"], shardings["y"])
        assert x.addressable_shards[0].data.shape == (2, 4)
        np.testing.assert_array_equal(x, want["x"].astype(np.float32))
        np.testing.assert_array_equal(y, want["y"])
    # Later batches do not change the arrays of earlier ones.
    assert np.concatenate([np.asarray(x) for x, _ in kept]).tolist() == np.arange(96.0).reshape(12, 8).tolist()
    assert [x.shape for x in ds.to_jax(columns="x")] == [(4, 8)] * 3


def test_integers_of_64_bits_keep_their_values():
    small = fb.from_numpy({"n": np.array([-(2**31), 2**31 - 1])})
    large = fb.from_numpy({"n": np.array([0, 2**31], np.int64)}).batch(2)
    assert next(iter(small.batch(2).to_jax()))["n"].tolist() == [-(2**31), 2**31 - 1]
    with pytest.raises(fb.errors.InvalidPipelineError, match="int32 does not hold") as caught:
        next(iter(large.to_jax()))
    assert "jax_enable_x64" in str(caught.value)
    with jax.enable_x64(True):
        assert next(iter(large.to_jax()))["n"].tolist() == [0, 2**31]


REFUSED = {
    "text": (lambda: fb.from_dict({"s": ["a"], "x": [1]}).to_jax(), "column 's' is string"),
    "missing": (lambda: fb.from_dict({"n": [1, None]}).to_jax(), "to_jax: column 'n' is int64, and may be missing"),
    "samples": (lambda: fb.range(8).to_jax(sharding=on_four_devices("data")), "there are none"),
    "a short batch": (lambda: fb.range(9).batch(4).to_jax(sharding=on_four_devices("data")), "may be shorter"),
    "a share": (
        lambda: fb.range(9).batch(3, drop_remainder=True).to_jax(sharding=on_four_devices("data")),
        "3 rows do not divide among 2",
    ),
    "dimensions": (lambda: pipeline().to_jax(sharding=on_four_devices("data", "sequence")), "does not fit column 'id'"),
    "one column": (lambda: pipeline().to_jax(sharding={"x": on_four_devices("data")}), "has none for column 'id'"),
    "no sharding": (lambda: pipeline().to_jax(sharding="data"), "sharding='data' is no sharding"),
    "ragged": (lambda: fb.from_dict({"x": [[1], []]}).batch(2, ragged=True).to_jax(), "'x' is int64.*and ragged"),
    "too far ahead": (lambda: pipeline().to_jax(prefetch=65), "prefetch=65 is out of range"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_said_at_once(what):
    make, says = REFUSED[what]
    with pytest.raises(fb.errors.InvalidPipelineError, match=says):
        make()


def test_orbax_keeps_the_state_beside_the_model(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    data, step = pipeline().to_jax(seed=5), 7
    seen = ids(itertools.islice(data, step))
    with checkpoint.CheckpointManager(tmp_path) as manager:
        model = checkpoint.args.StandardSave({"w": jax.numpy.ones(2)})
        kept = checkpoint.args.JsonSave(data.state_dict())
        manager.save(step, args=checkpoint.args.Composite(model=model, data=kept))
    again = pipeline().to_jax(seed=5)
    with checkpoint.CheckpointManager(tmp_path) as manager:
        kept = manager.restore(
            manager.latest_step(), args=checkpoint.args.Composite(data=checkpoint.args.JsonRestore())
        )
    again.load_state_dict(kept["data"])
    assert seen + ids(again) == expected(pipeline(), 1)[0]


def test_two_processes_have_the_halves_of_a_global_batch(tmp_path):
    script = [sys.executable, str(HERE / "rank_of_jax.py"), str(tmp_path), str(free_port())]
    started = [
        subprocess.Popen([*script, str(process)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for process in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)[-8000:]
    a, b = (json.loads((tmp_path / f"{process}.json").read_text()) for process in range(2))
    mine = [[ids(pipeline().iter(seed=5, epoch=e, consumers=(i, 2))) for e in range(2)] for i in range(2)]
    for process, found in enumerate((a, b)):
        assert found["early"] == mine[process][0]
        assert found["local"] == mine[process][0] + mine[process][1]
        assert found["resumed"] == [mine[process][0]] * 5
        assert found["shapes"] == [[8]] * 12
        assert found["length"] == 6
    assert a["totals"] == b["totals"] == [sum(x + y) for x, y in zip(a["local"], b["local"], strict=True)]
    # If the mesh puts each part of the data into both processes, both have all rows of a batch.
    assert a["of a model in parts"] == b["of a model in parts"] == expected(pipeline(), 1)[0]
