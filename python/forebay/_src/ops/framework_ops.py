"""Datasets of other libraries: PyTorch, JAX, Keras and TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from forebay._src import arguments
from forebay._src.frameworks import for_torch
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError, UnavailableError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.service.service import Service


class FrameworkOps(Base):
    """Iterables of epochs, in the form that each library takes."""

    __slots__ = ()

    def to_torch(
        self,
        service: Service | str | None = None,
        *,
        device: Any = None,
        pin: bool | None = None,
        prefetch: int = 2,
        finish_on: Any = None,
        columns: str | Iterable[str] | None = None,
        **options: Any,
    ) -> Any:
        """Returns a `torch.utils.data.IterableDataset` of tensors.

        It is a loader by itself, and works in `DataLoader(dataset, batch_size=None)`: the threads are Forebay's, so
        leave `num_workers` at 0. Each iteration is one epoch, which begins with its first batch; `set_epoch` sets the
        next one. `state_dict` and `load_state_dict` fit torchdata's `StatefulDataLoader`, Lightning and
        `torch.distributed.checkpoint`. Its `len()` is the number of batches of an epoch for this consumer, and a
        `TypeError` if that is not known before they are computed. It pickles; a copy begins with the epoch that comes
        next.

        Args:
            service: Where the samples are computed, as for `distribute`. Default: in this process.
            device: The device to put tensors on, such as `"cuda"`. Default: they stay in the memory of the host.
            pin: Whether tensors are copied to pinned memory first. Default: for a CUDA device, yes.
            prefetch: The number of batches that are copied to a CUDA device before the loop requests them, on a stream
                of their own; 0 to 64. Where ranks ask each other about `even` before each batch, none is.
            finish_on: The device, such as `"cuda"`, that runs the `normalize` at the end of the pipeline, with the same
                values to the bit. The batches then travel as 8-bit pixels, a quarter of the bytes, and come to this
                device. A state of such a run loads only with `finish_on`. Default: `normalize` runs with the other ops.
            columns: The columns to read. A name gives tensors, several names give tuples, in this order. Default: all,
                as dictionaries.
            options: The options of `iter`, of which `epoch` is the first epoch; with a service those of `distribute`:
                `job`, and `epochs`, after which workers stop; each later epoch is a job of its own.

                `consumers="auto"` takes the rank and the number of ranks from `torch.distributed`, JAX, or the
                variables of a launcher (torchrun, MPI, Slurm), when the dataset is first used.

                In this process, too, `even` may name the action at the first step at which some ranks have a batch and
                others have none: `"drop"`, all end; `"pad"`, the others yield their last batch again until all have
                ended; `"error"`, all raise. Ranks in separate processes agree over `torch.distributed` if the numbers
                of their batches are not known beforehand; on a service they need not.
        """
        _check(service, options, "to_torch", "device", "pin", "prefetch", "finish_on", "columns")
        pin = None if pin is None else arguments.flag(pin, "to_torch", "pin")
        if columns is None:
            # Before PyTorch is imported, which takes seconds.
            for_torch.check_missing(_of(self).schema, "to_torch")
            for_torch.check_shapes(_of(self).schema, "to_torch")
        with _installed("to_torch", "torch"):
            from forebay._src.frameworks.torch import to_torch
            from forebay._src.frameworks.torch_device import Mover

        mover = Mover(device, pin, prefetch, finish_on)
        return to_torch(_of(self), service, columns, mover, options, finishes=finish_on is not None)

    def to_jax(
        self,
        service: Service | str | None = None,
        *,
        sharding: Any = None,
        consumers: tuple[int, int] | Literal["auto"] | None = "auto",
        prefetch: int = 2,
        columns: str | Iterable[str] | None = None,
        **options: Any,
    ) -> Any:
        """Returns an iterable of batches of JAX arrays; each iteration is one epoch.

        It has `len`, `set_epoch`, `state_dict` and `load_state_dict`, as a dataset of `to_torch` has. The state is that
        of the last batch that the loop got, without batches that were copied ahead.

        Integers of 64 bits become 32 bits where JAX has no 64 bits (`jax_enable_x64`); a value that does not fit is an
        error.

        Args:
            service: Where the samples are computed, as for `distribute`. Default: in this process.
            sharding: How batches lie on devices: a `jax.sharding.Sharding`, or one for each column by name. The arrays
                are global: each process reads its own part of them, `batch(n)` rows, with
                `jax.make_array_from_process_local_data`. All batches then need `n` rows: `batch(n,
                drop_remainder=True)` or `pad_last=True`. Default: batches lie on the default device.
            consumers: As for `iter`; `"auto"` finds which part of a batch this process has, by `sharding`, else by
                `jax.process_index()` and `jax.process_count()`.
            prefetch: The number of batches that are copied to the devices before the loop requests them; 0 to 64.
            columns: The columns to read. A name gives arrays, several names give tuples, in this order. Default: all,
                as dictionaries.
            options: The options of `iter`; with a service those of `distribute`.

        Raises:
            InvalidPipelineError: A column has no numbers, or its numbers may be missing; or batches do not divide among
                the devices.
            UnavailableError: JAX is not installed.
        """
        _check(service, options, "to_jax", "sharding", "prefetch", "columns")
        with _installed("to_jax", "jax"):
            from forebay._src.frameworks.jax import to_jax
        return to_jax(_of(self), service, sharding, prefetch, columns, {**options, "consumers": consumers})

    def to_keras(
        self,
        service: Service | str | None = None,
        *,
        x: str | Iterable[str] | Mapping[str, str],
        y: str | Iterable[str] | Mapping[str, str] | None = None,
        weight: str | None = None,
        consumers: tuple[int, int] | Literal["auto"] | None = "auto",
        **options: Any,
    ) -> Any:
        """Returns data for `fit`, `evaluate` and `predict` of Keras 3, with any backend. Each epoch of `fit` is one.

        An epoch that was not finished (`validation_steps`, a batch that Keras looks at to build the model) begins again
        from its start. It has `len`, `set_epoch`, `state_dict` and `load_state_dict`, as a dataset of `to_torch` has.

        Args:
            service: Where the samples are computed, as for `distribute`. Default: in this process.
            x: The column of the input. Several names give a tuple, and `{"input": "column"}` gives a dictionary.
            y: The columns of the targets, in the same way.
            weight: The column of the weights of samples.
            consumers: As for `iter`; `"auto"` takes the rank and the number of ranks from `torch.distributed`, JAX, or
                the variables of a launcher.
            options: The options of `iter`; with a service those of `distribute`.

        Raises:
            InvalidPipelineError: There are no batches; or a column has no numbers, or its numbers may be missing.
            UnavailableError: Keras, or its backend, is not installed.
        """
        _check(service, options, "to_keras", "x", "y", "weight")
        with _installed("to_keras", "keras"):
            from forebay._src.frameworks.keras import to_keras
        return to_keras(_of(self), service, x, y, weight, {**options, "consumers": consumers})

    def to_tf(
        self,
        service: Service | str | None = None,
        *,
        consumers: tuple[int, int] | Literal["auto"] | None = "auto",
        columns: str | Iterable[str] | None = None,
        **options: Any,
    ) -> Any:
        """Returns a `tf.data.Dataset`, whose n-th iteration is the n-th epoch.

        Its cardinality is set where it is known. `tf.data` reads ahead by itself, so it cannot save the place of the
        training loop: iterate over `to_torch`, `to_jax` or `iter` where you need an exact state.

        Args:
            service: Where the samples are computed, as for `distribute`. Default: in this process.
            consumers: As for `to_keras`.
            columns: The columns to read. A name gives tensors, several names give tuples, in this order. Default: all,
                as dictionaries.
            options: The options of `iter`; with a service those of `distribute`.

        Raises:
            InvalidPipelineError: A column may have missing values.
            UnavailableError: TensorFlow is not installed.
        """
        _check(service, options, "to_tf", "columns")
        with _installed("to_tf", "tensorflow"):
            from forebay._src.frameworks.tensorflow import to_tf
        return to_tf(_of(self), service, columns, {**options, "consumers": consumers})


def _of(ops: FrameworkOps) -> Dataset:
    return cast("Dataset", ops)


def _check(service: Service | str | None, options: Mapping[str, Any], op: str, *own: str) -> None:
    from forebay._src.dataset import Dataset

    if isinstance(service, str) and service.partition(":")[0] in ("cpu", "cuda", "mps", "tpu", "gpu"):
        hint = f'write device="{service}"' if op == "to_torch" else "leave it out: batches lie on the default device"
        raise InvalidPipelineError(f"{op}: {service!r} is a device, and not the address of a service", {"hint": hint})
    for_torch.check_options(Dataset.iter if service is None else Dataset.distribute, options, op, own)


@contextmanager
def _installed(op: str, package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        context = {"cause": str(error).splitlines()[0] if str(error) else "", "hint": f"pip install {package}"}
        raise UnavailableError(f"{op}: the package {package} cannot be imported", context) from error
