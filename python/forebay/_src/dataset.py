"""A dataset: all groups of ops in one class, and the names that it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from forebay._src import habits, habits_formats
from forebay._src.images.annotate_ops import AnnotateOps
from forebay._src.images.augment_ops import AugmentOps
from forebay._src.images.crop_ops import CropOps
from forebay._src.images.detection_ops import DetectionOps
from forebay._src.images.image_ops import ImageOps
from forebay._src.images.level_ops import LevelOps
from forebay._src.images.mix_ops import MixOps
from forebay._src.images.warp_ops import WarpOps
from forebay._src.ops.framework_ops import FrameworkOps
from forebay._src.ops.inspect_ops import InspectOps
from forebay._src.ops.iteration_ops import IterationOps
from forebay._src.ops.join_ops import JoinOps
from forebay._src.ops.many_ops import ManyOps
from forebay._src.ops.row_ops import RowOps
from forebay._src.ops.speed_ops import SpeedOps
from forebay._src.sound.audio_ops import AudioOps
from forebay._src.sound.spectrum_ops import SpectrumOps
from forebay._src.text.chat_ops import ChatOps
from forebay._src.text.text_ops import TextOps
from forebay._src.text.training_ops import TrainingOps
from forebay._src.usage import name_methods
from forebay._src.video.video_ops import VideoOps


class _Named(type):
    """Says where the functions are that are methods of the class in other libraries."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            """Called for names that the class has not, such as `Dataset.from_tensor_slices`."""
            import forebay

            if name in forebay.__all__:
                raise AttributeError(f"Dataset has no {name}; it is a function of the package: fb.{name}")
            known = {**habits.FUNCTIONS, **habits.READERS, **habits_formats.FORMATS}
            raise habits.missing("Dataset", name, known, [])


class Dataset(
    IterationOps,
    RowOps,
    ManyOps,
    ImageOps,
    CropOps,
    AnnotateOps,
    DetectionOps,
    AugmentOps,
    LevelOps,
    WarpOps,
    AudioOps,
    SpectrumOps,
    VideoOps,
    TextOps,
    JoinOps,
    ChatOps,
    TrainingOps,
    MixOps,
    SpeedOps,
    FrameworkOps,
    InspectOps,
    metaclass=_Named,
):
    """A source and its ops. Immutable: every op returns a new dataset.

    The functions of `forebay` that are named after sources return it: `from_tar`, `from_parquet`, `range`, …

    >>> import forebay as fb
    >>> ds = fb.range(10).shuffle().with_column("half", fb.col("id") / 2).batch(4)
    >>> ds
    Dataset(id: int64, half: float64; in batches of 4)
    >>> ds.cardinality
    3
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says what to write for ops that have another name here."""
            if not name.startswith("_") and name in self.schema:
                hint = f"the column is fb.col({name!r}) in expressions, and row[{name!r}] in samples"
                raise AttributeError(f"Dataset has no {name}; {hint}")
            known = {**habits.METHODS, **habits.ELSEWHERE}
            raise habits.missing("Dataset", name, known, habits.public_names(self, name))

    def __add__(self, other: object) -> NoReturn:
        """Says what to write: torch's datasets are concatenated by `+`, and NumPy's arrays are added."""
        raise TypeError("datasets are not added by +; one after the other they are fb.concatenate([a, b])")

    def __bool__(self) -> bool:
        """Returns true, also for a dataset without samples."""
        return True

    def __repr__(self) -> str:
        """The columns."""
        columns, _, batches = repr(self.schema)[len("Schema(") :].rpartition(")")
        return f"Dataset({columns}{batches.replace(' in batches', '; in batches')})"


name_methods(Dataset)
