"""Users' Python functions: their calls, and every way in which they can fail."""

from __future__ import annotations

import pickle
import threading

import forebay as fb
import numpy as np
import pytest
from forebay._src.functions import pickling

EXECUTORS = ["thread", "process"]


def run(ds: fb.Dataset, executor: str, **options) -> list:
    return list(ds.iter(executor=executor, **options))


class Inverse:
    def __call__(self, row):
        return {"y": 1 // int(row["i"])}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_tracebacks_name_the_file_and_the_line(executor):
    ds = fb.from_dict({"i": [5, 6, 7, 8, 9, 0]}).map(Inverse())
    with pytest.raises(fb.errors.FunctionError) as caught:
        run(ds, executor)
    code = Inverse.__call__.__code__
    place = f'File "{__file__}", line {code.co_firstlineno + 1}, in __call__'
    assert place in caught.value.context["traceback"]
    assert '1 // int(row["i"])' in caught.value.context["traceback"]


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: {"y": np.sqrt(x)}, lambda x: x.item()])
def test_a_function_that_takes_the_sample_for_a_value_is_told_that_it_is_a_dictionary(function):
    with pytest.raises(fb.errors.FunctionError) as caught:
        fb.range(3).map(function)
    assert "row['id']" in caught.value.hint


def test_the_name_of_a_function_does_not_depend_on_its_file():
    names = set()
    for folder in ("here", "there"):
        space = {"__name__": "__main__"}
        exec(compile("def double(row):\n    return {'y': row['id'] * 2}\n", f"/{folder}/train.py", "exec"), space)
        pickled, name = pickling.dumps(space["double"], "map")
        assert pickle.loads(pickled).__code__.co_filename == f"/{folder}/train.py"
        # The second is the name of code that cannot be walked.
        names.add((name, pickling._without_files(space["double"])))
    assert len(names) == 1


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_function_of_a_row_sees_numpy_scalars_arrays_bytes_and_strings(executor):
    def look(row):
        assert list(row) == ["i", "x", "b", "s"]
        return {"kinds": " ".join(type(v).__name__ for v in row.values()), "sum": row["x"].sum() + row["i"]}

    ds = fb.from_dict({"i": [1, 2], "x": [np.ones(3)] * 2, "b": [b"a", b"b"], "s": ["c", "d"]}).map(look)
    assert ds.schema["sum"] == ("float64", ())
    rows = run(ds, executor)
    assert [r["kinds"] for r in rows] == ["int64 ndarray bytes str"] * 2
    assert [float(r["sum"]) for r in rows] == [4.0, 5.0]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_reads_and_writes(executor):
    def look(row):
        assert list(row) == ["a"]
        return {"c": row["a"] * 2, "b": "new"}

    ds = fb.from_dict({"a": [1, 2], "b": ["x", "y"], "d": [0.5, 1.5]}).map(look, reads="a", writes=["b", "c"])
    assert list(ds.schema) == ["a", "b", "d", "c"]
    assert [(int(r["a"]), r["b"], float(r["d"]), int(r["c"])) for r in run(ds, executor)] == [
        (1, "new", 0.5, 2),
        (2, "new", 1.5, 4),
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_batched_functions_get_columns_and_return_them(executor):
    def twice(batch):
        assert isinstance(batch["id"], np.ndarray)
        return {"y": batch["id"] * 2, "s": [f"{i}" for i in batch["id"]]}

    rows = run(fb.range(150).map(twice, batched=True, writes=["y", "s"]), executor)
    assert [int(r["y"]) for r in rows] == [2 * i for i in range(150)]
    assert [r["s"] for r in rows] == [str(i) for i in range(150)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_after_batch_a_function_sees_whole_batches(executor):
    sizes = fb.range(10).batch(4).map(lambda b: {"id": b["id"], "n": np.full(len(b["id"]), len(b["id"]))})
    assert [b["n"].tolist() for b in run(sizes, executor)] == [[4] * 4, [4] * 4, [2] * 2]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_generator_of_a_sample_depends_on_seed_epoch_and_sample_alone(executor):
    def draw(row, rng):
        return {"id": row["id"], "draw": rng.random(2)}

    def draws(**options) -> dict:
        return {int(r["id"]): tuple(r["draw"]) for r in fb.range(300).shuffle().map(draw).iter(**options)}

    base = draws(seed=5, executor=executor)
    assert draws(seed=5, threads=1) == base
    assert draws(seed=5, threads=5) == base
    assert draws(seed=6) != base
    assert draws(seed=5, epoch=1) != base
    assert len(set(base.values())) == 300


def test_the_rule_of_the_generator_is_as_written():
    def draw(row, rng):
        return {"draw": rng.integers(0, 2**63, 3)}

    def mix(x):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> shift)) * factor % 2**64
        return x ^ (x >> 31)

    def op_key(seed, epoch, op):
        a = mix((seed + 0x9E3779B97F4A7C15) % 2**64)
        b = mix(a ^ ((epoch * 0xD6E8FEB86659FD93 + 0x2545F4914F6CDD1D) % 2**64))
        return mix(b ^ ((op * 0xA0761D6478BD642F + 0xE7037ED1A0B428DB) % 2**64))

    (row,) = list(fb.range(1).map(draw).iter(seed=11, epoch=2))
    words = lambda *v: np.array(v, np.uint64)  # noqa: E731
    bits = np.random.Philox(key=words(op_key(11, 2, 0), 0), counter=words(0, 0, 0, 0))
    np.testing.assert_array_equal(row["draw"], np.random.Generator(bits).integers(0, 2**63, 3))


def test_functions_leave_the_global_random_state_alone():
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    list(fb.range(10).map(lambda row, rng: {"x": rng.random()}))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_shapes_that_differ_are_found_or_given(executor):
    def count(row):
        return {"t": np.arange(row["id"])}

    ds = fb.range(6).map(count)
    assert ds.schema["t"] == ("int64", (None,))
    given = fb.range(1, 6).map(count, schema={"t": ("int64", [None])})
    assert [r["t"].tolist() for r in run(given, executor)] == [list(range(n)) for n in range(1, 6)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_zero_rows_after_a_filter(executor):
    ds = fb.range(100).filter(fb.col("id") < 0).map(lambda r: {"x": r["id"]}, schema={"x": "int64"})
    assert run(ds, executor) == []


# Failures.


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_exception_shows_the_users_own_frames_the_sample_and_the_line(executor):
    def deeper(x):
        if x == 77:
            raise ValueError("seventy-seven is not nice")
        return x

    def fragile(row):
        return {"id": deeper(row["id"])}

    ds = fb.range(100).map(fragile, name="my step")
    with pytest.raises(fb.errors.FunctionError) as caught:
        run(ds, executor)
    error = caught.value
    assert "fragile raised ValueError: seventy-seven is not nice" in error.message
    assert "in deeper" in error.traceback
    assert "forebay/_src" not in error.traceback
    assert error.context["op"] == "map (my step)"
    assert error.context["sample"] == "0:77" or "77" in error.context["sample"]
    assert "test_functions.py" in error.context["line"]
    assert "traceback:\n" in str(error)


def test_what_comes_before_an_error_is_delivered():
    def fragile(row):
        if row["id"] == 500:
            raise ValueError
        return {"id": row["id"]}

    it = fb.range(1000).map(fragile).iter(threads=3)
    seen = []
    with pytest.raises(fb.errors.FunctionError):
        seen.extend(int(r["id"]) for r in it)
    assert seen == list(range(len(seen)))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda r: {"x": r["id"] if r["id"] < 50 else 0.5}, "should be int64, and is float"),
        (lambda r: {"x": r["id"] if r["id"] < 50 else "text"}, "should be int64, and is str"),
        (lambda r: {"x": np.zeros(3 if r["id"] < 50 else 4)}, r"should be float64\[3\], and is float64\[4\]"),
        (lambda r: {"x": np.zeros(3, "f8" if r["id"] < 50 else "f4")}, "and is float32"),
        (lambda r: {"x": 1} if r["id"] < 50 else {"y": 1}, "'?\"?x\"?'? is missing"),
        (lambda r: {"x": 1} if r["id"] < 50 else {"x": 1, "z": 1}, "was not expected"),
        (lambda r: {"x": 1} if r["id"] < 50 else None, "instead of a dictionary"),
        (lambda r: {"x": "a"} if r["id"] < 50 else {"x": b"a"}, "should be string, and is bytes"),
    ],
)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_wrong_structure_names_column_expectation_and_sample(function, says, executor):
    with pytest.raises(fb.errors.FunctionError, match=says) as caught:
        run(fb.range(100).map(function), executor)
    assert caught.value.context["sample"]
    assert caught.value.hint


def test_a_function_that_fails_at_once_fails_when_written():
    def broken(row):
        return {"x": row["no such column"]}

    with pytest.raises(fb.errors.FunctionError, match="raised KeyError") as caught:
        fb.range(3).map(broken)
    assert "in broken" in caught.value.traceback
    assert "test_functions.py" in caught.value.context["line"]
    with pytest.raises(fb.errors.FunctionError, match="no column can hold"):
        fb.range(3).map(lambda r: {"x": object()})
    with pytest.raises(fb.errors.FunctionError, match="instead of a dictionary"):
        fb.range(3).map(lambda r: r["id"])
    with pytest.raises(fb.errors.InvalidPipelineError, match="writes="):
        fb.range(3).map(lambda r: {"x": 1}, writes=["y"])


def test_what_cannot_be_pickled_is_named():
    lock = threading.Lock()

    def locked(row):
        with lock:
            return row

    with pytest.raises(fb.errors.InvalidPipelineError, match="the variable 'lock'") as caught:
        fb.range(3).map(locked)
    assert "test_functions.py" in caught.value.context["line"]
    assert "locked" in caught.value.message


@pytest.mark.parametrize("executor", EXECUTORS)
def test_items_and_generators_that_raise(executor):
    class Holey:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            if i == 66:
                raise OSError("a hole")
            return {"i": i}

    def ends_badly():
        yield from ({"i": i} for i in range(90))
        raise RuntimeError("the end")

    with pytest.raises(fb.errors.FunctionError, match="raised OSError: a hole"):
        run(fb.from_map_dataset(Holey()), executor)
    with pytest.raises(fb.errors.FunctionError, match="raised RuntimeError: the end"):
        run(fb.from_generator(ends_badly), executor)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_map_datasets_and_generators_run_in_both_executors(executor):
    assert [int(r["value"]) for r in run(fb.from_map_dataset(list(range(200))).skip(3), executor)] == list(
        range(3, 200)
    )
    generator = fb.from_generator(lambda: ({"i": i} for i in range(200)))
    assert [int(r["i"]) for r in run(generator.take(130), executor)] == list(range(130))


def test_an_exception_in_a_loop_is_not_lost_with_the_iterator():
    def loop():
        for _ in fb.range(1000).iter(threads=2):
            raise ValueError("mine")

    for _ in range(20):
        with pytest.raises(ValueError, match="mine"):
            loop()
