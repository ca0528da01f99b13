"""The ways to iterate over a dataset: in this process, on a service, and into files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.frameworks import for_torch
from forebay._src.functions import own_process
from forebay._src.functions.tolerance import OnError, Tolerance
from forebay._src.iteration import saving
from forebay._src.iteration.iterator import DatasetIterator
from forebay._src.iteration.local_iteration import LocalIteration
from forebay._src.iteration.saving import Compression, Format, Saved
from forebay._src.ops.fact_ops import FactOps
from forebay._src.reorder import Order, reordered
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.iteration.distributed import Distributed
    from forebay._src.service.service import Service


class IterationOps(FactOps):
    """Iterates over a dataset."""

    __slots__ = ()

    def show(self, n: int = 5) -> None:
        """Prints the first `n` batches (or samples).

        >>> import forebay as fb
        >>> fb.range(9).batch(4).show(2)
        {id: int64[4]  0 1 2 3}
        {id: int64[4]  4 5 6 7}
        """
        from forebay._src.show import line

        with self.iter(epoch=0, threads=1, consumers=(0, 1)) as batches:
            for _, batch in zip(range(n), batches, strict=False):
                print(line(batch))

    @explained("iter(seed=1, epoch=0), or iter(seed=1, epochs=3)", **for_torch.LOADERS)
    def iter(
        self,
        *,
        seed: int = 0,
        epoch: int | None = None,
        epochs: int | None = 1,
        threads: int = 0,
        consumers: tuple[int, int] | None = None,
        even: bool | None = None,
        coordinated: bool = False,
        ordered: bool = True,
        executor: Literal["thread", "process"] | None = None,
        on_error: OnError = "raise",
        error_budget: int | float = 0.01,
        quarantine: arguments.PathLike | None = None,
        order: Order = "exact",
        memory: int | str | None = None,
    ) -> DatasetIterator:
        """Iterates in this process.

        Args:
            seed: The seed of all random choices.
            epoch: The first epoch. Default: 0, with a `RepeatedEpochWarning` where a line of a program begins it again
                and the epochs of this dataset differ, as in a loop over epochs that forgot `epoch=`.
            epochs: The number of epochs; `None` for ever.
            threads: Threads that compute; 0 is one for each core, and at least 8 if the files are in a store or on a
                server, for each waits for its own answers; with executor="process" it is one for each core, for each
                has a process. The stream does not depend on it.
            consumers: This consumer's index and the number of consumers, `(index, count)`. No batch goes to two of
                them. Default: all batches go to this one, with a `RanksWarning` if it is one of several processes of
                `torch.distributed`, JAX or a launcher; `(0, 1)` confirms that this is intended.
            even: Whether each consumer gets as many batches as the others in every epoch, as synchronous training
                needs; the few left over (fewer than `count`) are left out, other ones in every shuffled epoch. Default:
                yes, if the numbers are known beforehand; if they are not (after a filter or a pack), no, with a
                `RanksWarning`. With `False`, for evaluation, nothing is left out.
            coordinated: Whether the consumers take turns at the batches of one stream, so that all get as many, also
                after a filter or a pack; with `bucket_by_length`, batches of the same bucket, padded to the same
                length, at each step; with `batch_by_key`, batches of the same key. Each consumer then reads all
                samples and keeps its part of them, so each pays the full cost of the samples; a state that one
                consumer saved fits all, in any number.
            ordered: Whether batches come in the order of the dataset. With `False`, the sample that is computed first
                comes first, so that a slow sample delays only its own batch. Timing decides the order; each sample is
                the same as in order, and comes once, also after a resume. If the number of rows is known beforehand,
                each batch is one of the ordered stream; else (after a filter, say) a batch holds rows that came
                together. `pack`, `bucket_by_length`, `batch_by_key`, `coordinated=True`, and `take`, `skip` or `shard`
                after a filter need the order: with these, `False` is an error; also on a service where several
                consumers end epochs together.
            executor: Where Python functions run: `"thread"`, in this interpreter, or `"process"`, in separate
                processes, so that a crash does not end this one and calls have a time limit. Default: `"thread"`; with
                `decode_video` in the pipeline, `"process"`.
            on_error: The action on a sample that fails by itself (a corrupt record, an exception in a function):
                `"raise"` its error, or `"skip"` the sample, or `"quarantine"` it, which also keeps its record.
            error_budget: The most samples that may be left out in an epoch: a count (int) or a share (float).
            quarantine: The file for their records. Default: `quarantine-<dataset id>.jsonl` in this folder.
            order: How much the order of row ops may differ from the order as written: `"exact"`, as long as no byte of
                any sample changes; `"relaxed"`, also if samples change but keep their distribution (images are resized
                before their colours change), which is another dataset; or `"off"`, not at all.
            memory: The most memory for data in this process, in bytes or as `"2GiB"`. It includes decoded blocks,
                batches that wait for the consumer, and pages kept for reuse, but not the rows that `cache()` keeps.
                Default: `FOREBAY_MEMORY`, or half of the machine's or container's memory. No sample depends on it. It
                is an error if the windows of a shuffle need more.

        Returns:
            The iterator.

        >>> import forebay as fb
        >>> ds = fb.range(4).shuffle().batch(2)
        >>> a, b = (list(ds.iter(seed=7, threads=n)) for n in (1, 3))
        >>> all((x["id"] == y["id"]).all() for x, y in zip(a, b, strict=True))
        True
        """
        executor = own_process.executor_of(self._pipeline) if executor is None else executor
        if executor not in ("thread", "process"):
            raise InvalidPipelineError(f"iter: unknown executor {executor!r}", {"hint": "use 'thread' or 'process'"})
        first = None if epoch is None else arguments.whole(epoch, "iter", "epoch", 0)
        iteration = LocalIteration(
            reordered(self._pipeline, order, "iter"),
            seed=arguments.seed(seed, "iter"),
            epoch=first,
            epochs=None if epochs is None else arguments.whole(epochs, "iter", "epochs", 0),
            threads=arguments.whole(threads, "iter", "threads", 0, 4096),
            consumers=arguments.consumers_or_none(consumers, "iter"),
            even=arguments.even_alone(even, "iter"),
            coordinated=arguments.flag(coordinated, "iter", "coordinated"),
            ordered=arguments.flag(ordered, "iter", "ordered"),
            executor=executor,
            tolerance=Tolerance.of("iter", on_error, error_budget, quarantine),
            memory=arguments.amount(memory, "iter", "memory"),
        )
        return DatasetIterator(iteration, first or 0)

    def __iter__(self) -> DatasetIterator:
        """Iterates over the first epoch with seed 0, as `iter()`."""
        return self.iter()

    @explained(
        None,
        **for_torch.LOADERS,
        epoch="jobs begin at epoch 0: epochs=n, and load_state_dict for a later beginning",
        job_name='write job="train"',
        processing_mode="leave it out: each sample comes once an epoch, to one consumer",
        target_workers="leave it out: each worker of the service computes for the job",
    )
    def distribute(
        self,
        service: Service | str,
        *,
        job: str,
        epochs: int | None = 1,
        seed: int = 0,
        consumers: tuple[int, int] | None = None,
        even: bool | arguments.Even | None = None,
        rank_timeout: float = 300.0,
        coordinated: bool = False,
        ordered: bool = True,
        weight: int = 1,
        priority: int = 0,
        local: int | Literal["auto"] = 0,
        on_error: OnError = "raise",
        error_budget: int | float = 0.01,
        quarantine: arguments.PathLike | None = None,
        order: Order = "exact",
        memory: int | str | None = None,
    ) -> Distributed:
        """Runs the pipeline on a service.

        Args:
            service: A service from `up` or `connect`, or an address, `forebay://host:port` (see `connect`).
            job: The job's name. A call with the same pipeline and the same name joins the job.
            epochs: The number of epochs; `None` for ever.
            seed: The seed of all random choices.
            consumers: This consumer's index and the number of the job's consumers, `(index, count)`. Default: as for
                `iter`.
            even: As for `iter`; and if the numbers are not known beforehand, the service ends an epoch for all
                consumers at the same step, which follows from the numbers of their batches alone. It may also name the
                action at the first step at which some have a batch and others have none: `"drop"`, all end; `"pad"`,
                the others yield their last batch again until all have ended; `"error"`, all raise. Default: `"drop"`. A
                short last batch is a batch: with `drop_remainder=True` all have the same length. With `False`, each
                consumer ends by itself. It is part of the job, so all its consumers must give the same value.
            rank_timeout: If consumers end epochs together: seconds that they wait for one without a process (it never
                started, or it died) before they raise. They wait for a live one without a limit.
            coordinated: As for `iter`. It is part of the job, too.
            ordered: As for `iter`. It is not part of the job: each consumer has its own.
            weight: The job's share of the workers' time beside other jobs while there is not enough for all: a job of
                weight 3 gets three times the time of a job of weight 1. 1 to 1000. Joining a job does not change it.
            priority: Jobs of a higher priority go before jobs of a lower one, which get the rest: workers turn to a
                higher one as their current splits end, and no work that has begun is lost. 0 to 9. Joining a job does
                not change it.
            local: Threads that compute for this consumer on its own machine, in a separate process of the lowest
                priority; `"auto"` uses as many of the idle cores as help. Default: 0, the service's workers compute
                everything.
            on_error: The action on a sample that fails by itself, as for `iter`.
            error_budget: The most samples that this consumer may leave out in an epoch: a count (int) or a share
                (float).
            quarantine: The file for their records, written by this consumer. Default: `quarantine-<job>.jsonl`.
            order: As for `iter`. A consumer that joins a job gets the order that the job was created with.
            memory: The most memory for data in this process, as for `iter`; for a worker, see `forebay worker
                --memory`.

        Returns:
            An iterable that yields the same arrays as `iter` does, byte for byte, in the same order.
        """
        from forebay._src.iteration.distributed import Distributed

        return Distributed(
            reordered(self._pipeline, order, "distribute"),
            service,
            job=job,
            epochs=None if epochs is None else arguments.whole(epochs, "distribute", "epochs", 1),
            seed=arguments.seed(seed, "distribute"),
            consumers=arguments.consumers_or_none(consumers, "distribute"),
            even=arguments.even(even, "distribute"),
            rank_timeout=arguments.seconds(rank_timeout, "distribute", "rank_timeout"),
            coordinated=arguments.flag(coordinated, "distribute", "coordinated"),
            ordered=arguments.flag(ordered, "distribute", "ordered"),
            weight=arguments.whole(weight, "distribute", "weight", 1, 1000),
            priority=arguments.whole(priority, "distribute", "priority", 0, 9),
            local=arguments.local(local),
            tolerance=Tolerance.of("distribute", on_error, error_budget, quarantine),
            memory=arguments.amount(memory, "distribute", "memory"),
        )

    def save(
        self,
        path: arguments.PathLike,
        *,
        service: Service | str | None = None,
        job: str | None = None,
        seed: int = 0,
        epochs: int = 1,
        threads: int = 0,
        format: Format = "arrow",
        compression: Compression | None = None,
        file_bytes: int | None = None,
        consumers: tuple[int, int] | None = None,
        overwrite: bool = False,
        on_error: OnError = "raise",
        error_budget: int | float = 0.01,
        quarantine: arguments.PathLike | None = None,
    ) -> Saved:
        """Writes the samples to files, in their order, each exactly once; `load` reads them.

        It may be interrupted, even killed: a new call with the same pipeline, seed and epochs continues after the last
        whole file, and the folder holds the same content as without the interruption. When everything is there it does
        nothing.

        Args:
            path: The folder, here or in a store (`s3://bucket/folder`, `gs://`, `az://`): a new or empty one, or one
                that an earlier call was saving to. Files go to a store directly, without a copy here.
            service: Where the samples are computed, as for `distribute`. Default: in this process.
            job: The job's name on the service. Default: named after the dataset and the seed.
            seed: The seed of all random choices.
            epochs: The number of epochs, one after the other.
            threads: As for `iter`, without a service.
            format: The format of the files: `"arrow"` (record batches of about a megabyte), `"parquet"`, `"tar"` (as
                WebDataset reads it: a member for each column, whose name is the extension), `"mds"` (as
                `streaming.StreamingDataset` reads it), `"jsonl"`, `"csv"` or `"tfrecord"` (of `tf.train.Example`).
                docs/saving.md says how each type is stored, and which formats refuse it.
            compression: Of Parquet files: `"zstd"` (the default) or `"snappy"`.
            file_bytes: The least bytes in memory of the samples of a file, except the last file. Default: 256 MiB, for
                MDS files 64 MiB.
            consumers: This writer's index and the number of writers, `(index, count)`: each process of a job writes its
                own part of the samples to the same folder, in files of its own. Default: this one writes all.
            overwrite: Whether to remove earlier saved files from the folder first; with `consumers`, those of this
                writer.
            on_error: As for `iter`.
            error_budget: As for `iter`.
            quarantine: As for `iter`.

        Returns:
            The folder, and the numbers of samples and files in it.

        Raises:
            ConflictError: Other files are in the folder, or another process saves to it. In a store, of two processes
                the one that began first gets this error.
            InvalidPipelineError: A column has no form in this format, or the folder's name says another format.
            NotFoundError: There is no such bucket.
            PermissionDeniedError: The folder or the store may not be written to.
            ExhaustedError: The disk or the store is full.

        >>> import tempfile
        >>> import forebay as fb
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = fb.range(1000).with_column("half", fb.col("id") / 2).save(folder)
        ...     saved.rows, saved.files, fb.load(folder).schema
        (1000, 1, Schema(id: int64, half: float64))
        """
        folder = saving.folder(path, "save")
        if self._pipeline.batch_size is not None:
            hint = "leave batch() out here, and put it behind load()"
            raise InvalidPipelineError("save: batches are not kept, samples are", {"hint": hint})
        files = saving.options(format, compression, file_bytes, consumers, seed, epochs, overwrite)
        saving.check_name(folder, files.format)
        first: dict[str, Any] = {"seed": files.seed, "epochs": files.epochs, "consumers": files.consumer or (0, 1)}
        if files.consumer is not None:
            # Each sample goes to one of them, even if their parts are then unequal.
            first["even"] = False
        failing = {"on_error": on_error, "error_budget": error_budget, "quarantine": quarantine}
        # Checked here, so that the error names `save`.
        Tolerance.of("save", on_error, error_budget, quarantine)
        arguments.whole(threads, "save", "threads", 0, 4096)
        if service is None:
            iterator = self.iter(epoch=0, threads=threads, **first, **failing)  # type: ignore[arg-type]
        else:
            name = job or f"save-{self.dataset_id[:12]}-{seed}"
            distributed = self.distribute(service, job=name, **first, **failing)  # type: ignore[arg-type]
            distributed._repeats = True
            iterator = distributed.iter()
        return saving.write(self._pipeline.tolerate(on_error), iterator, folder, files)
