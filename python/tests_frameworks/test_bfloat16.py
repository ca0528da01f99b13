"""Values of PyTorch and JAX in bfloat16: the errors say what to write, and that works."""

from __future__ import annotations

import forebay as fb
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from forebay import errors as E

SMALL = torch.ones(3, dtype=torch.bfloat16)


class Rows(torch.utils.data.Dataset):
    """A map dataset of one value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"x": self.value}


@pytest.mark.parametrize(
    "make",
    [
        lambda: fb.from_map_dataset(Rows(SMALL)),
        lambda: fb.from_map_dataset(Rows(jnp.ones(3, jnp.bfloat16))),
        lambda: fb.from_map_dataset(torch.utils.data.TensorDataset(torch.ones(4, 3, dtype=torch.bfloat16))),
        lambda: fb.from_dict({"x": [SMALL]}),
        lambda: fb.from_numpy(SMALL),
        lambda: fb.from_numpy({"x": SMALL}),
        lambda: fb.from_numpy({"x": np.asarray(jnp.ones(3, jnp.bfloat16))}),
        lambda: fb.range(4).map(lambda row: {"x": SMALL}),
        lambda: fb.range(4).map(lambda rows: {"x": torch.ones(len(rows["id"]), dtype=torch.bfloat16)}, batched=True),
        lambda: fb.range(4).cast(id=torch.bfloat16),
    ],
)
def test_bfloat16_is_refused_with_the_code_to_write(make):
    with pytest.raises((E.InvalidPipelineError, E.FunctionError)) as error:
        make()
    assert "bfloat16" in error.value.hint
    assert "float32" in error.value.hint or ".float()" in error.value.hint


@pytest.mark.parametrize(
    "value",
    [SMALL, torch.ones(3, requires_grad=True), torch.ones(3).to_sparse().to_dense(), jnp.ones(3, jnp.bfloat16)],
)
def test_the_code_of_the_hints_works(value):
    value = value.detach().cpu().float() if isinstance(value, torch.Tensor) else value.astype("float32")
    batch = next(iter(fb.from_map_dataset(Rows(value)).batch(2).to_torch()))
    assert batch["x"].to(torch.bfloat16).shape == (2, 3)
