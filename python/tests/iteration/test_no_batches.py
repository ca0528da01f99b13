"""The warning of an iteration in which no batch was full."""

import warnings

import forebay as fb
import pytest

LISTS = fb.from_dict({"x": [[1], [1, 2], [1, 2, 3]]})
KEYS = fb.from_dict({"k": [1, 2, 3] * 3})


@pytest.mark.parametrize(
    "ds",
    [
        fb.range(5).batch(10, drop_remainder=True),
        fb.range(50).filter(fb.col("id") > 45).batch(10, drop_remainder=True).map(lambda batch: batch),
        KEYS.batch_by_key("k", 4, drop_remainder=True),
        fb.range(5).window(10, drop_remainder=True).batch(2),
        LISTS.cast(x="int32").pack("x", 64, drop_remainder=True),
        LISTS.bucket_by_length("x", [2], batch_sizes=[4, 7], drop_remainder=True),
    ],
)
def test_an_iteration_without_a_full_batch_warns_at_the_loop(ds):
    with pytest.warns(fb.NoBatchesWarning, match=r"drop_remainder=True\) \(.*test_no_batches.py:\d+\)") as caught:
        assert list(ds.iter(seed=1, epochs=2)) == []
    assert [warning.filename for warning in caught] == [__file__]


def test_iterations_with_batches_and_rests_of_iterations_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(fb.range(5).filter(fb.col("id") > 9).batch(2)) == []
        it = fb.range(15).batch(10, drop_remainder=True).iter()
        assert len(list(it)) == 1
        again = fb.range(15).batch(10, drop_remainder=True).iter()
        again.load_state_dict(it.state_dict())
        assert list(again) == []
