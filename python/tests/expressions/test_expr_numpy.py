"""Functions of NumPy and of Python's `math`, called with an expression: they compute what they say, or refuse."""

from __future__ import annotations

import datetime as dt
import math
import pickle

import forebay as fb
import numpy as np
import pytest
from forebay._src.expr import expr_numpy

X, Y = fb.col("x"), fb.col("y")
#: NumPy's functions of truth values, or of one kind of numbers.
OF_BOOLS, OF_FLOATS = ("invert", "bitwise_and", "bitwise_or"), ("isnan",)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", [*expr_numpy._UNARY, *expr_numpy._BINARY])
def test_a_function_of_numpy_computes_what_it_computes_of_arrays(name: str, dtype: str) -> None:
    dtype = "bool" if name in OF_BOOLS else "float64" if name in OF_FLOATS else dtype
    function = getattr(np, name)
    given = [np.array([1, 0, 2, 5, 1], dtype), np.array([1, 3, 2, 2, 0], dtype)][: function.nin]
    ds = fb.from_numpy(dict(zip("xy", given, strict=False)))
    made = ds.with_column("z", function(*[X, Y][: function.nin])).batch(9)[0]["z"]
    with np.errstate(all="ignore"):
        want = function(*given)
    assert made.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(made, want, rtol=1e-2 if want.dtype == "float16" else 1e-6)
    else:
        np.testing.assert_array_equal(made, want)


def test_a_number_of_numpy_on_the_left_is_as_one_of_python() -> None:
    two = np.float32(2)
    pairs = [(two * X, 2.0 * X), (two - X, 2.0 - X), (two < X, X > 2.0), (two == X, X == 2.0), (np.int64(3) % X, 3 % X)]
    for one, other in pairs:
        assert str(one) == str(other)
        assert str(pickle.loads(pickle.dumps(one))) == str(other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: math.sqrt(X), r"x\.sqrt\(\)"),
        (lambda: float(X), r"x\.cast\(float\)"),
        (lambda: int(X), r"x\.cast\(int\)"),
        (lambda: np.gcd(X, 2), r"numpy\.gcd takes no expression: write map\(fn"),
        (lambda: np.concatenate([X, X]), "fb.concat_list"),
        (lambda: np.maximum(X, 0), r"fb\.where\(x > y, x, y\)"),
        (lambda: np.add.reduce(X), r"numpy\.add takes no expression"),
        (lambda: np.multiply(X, 2, out=np.zeros(1)), r"numpy\.multiply takes no expression"),
        (lambda: np.where(X > 0, 1, 0), r"fb\.where\(cond, yes, no\)"),
        (lambda: np.clip(X, 0, 1), r"x\.clip\(low, high\)"),
        (lambda: np.round(X), r"x\.round\(\)"),
        (lambda: np.mean(X), r"x\.list\.mean\(\)"),
        (lambda: np.isin(X, [1]), r"x\.isin\(values\)"),
        (lambda: np.arange(3) * X, "not ndarray; write"),
        (lambda: len(X), r"x\.len\(\) of texts and lists"),
        (lambda: X.str[0:3], r"\.str\.slice\(start, stop\)"),
        (lambda: X.list[0], r"\.list\.get\(0\) for the first"),
        (lambda: fb.col("x") >= dt.date(2024, 1, 1), r"x\.dt >= datetime\.date\(2024, 1, 1\)"),
        (lambda: X - dt.timedelta(1), r"x - 86_400"),
        (lambda: X == b"a", r"x\.cast\(str\)"),
        (lambda: X == ["a"], r"x\.isin\(values\)"),
        (lambda: X.dt >= "2024-01-01", r"fromisoformat\('2024-01-01'\)"),
        (lambda: X.dt >= np.datetime64(5, "s"), r"\.item\(\)"),
        (lambda: fb.concat_str("x", separator=3), "separator is a string, not int"),
        (lambda: "cat" in X, r"x\.isin\(\[\.\.\.\]\)"),
        (lambda: 3 in fb.range(9), r"any\(row\['x'\] == value for row in ds\)"),
        (lambda: "id" in fb.range(9), r"'id' in ds\.schema"),
        (lambda: {"id": 3} in fb.range(9), "has no meaning for a dataset"),
    ],
)
def test_a_call_without_a_meaning_says_what_to_write(make, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()
