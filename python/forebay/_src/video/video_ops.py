"""The op on a column of videos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.expr.expr import col
from forebay._src.functions import python_functions
from forebay._src.ops.base import Base
from forebay._src.schema import to_fields
from forebay._src.usage import THREADS, explained
from forebay._src.video import decoder, settings
from forebay._src.video.settings import HeightWidth, Interpolation, Short, Start
from forebay.errors import InvalidPipelineError, UnavailableError

if TYPE_CHECKING:
    from typing import Literal

    from forebay._src.dataset import Dataset

_OP = "decode_video"
#: Changes when the same arguments give other pixels.
_VERSION = 1


class VideoOps(Base):
    """The op on a column of videos."""

    __slots__ = ()

    @explained(
        'decode_video("video", frames=16, stride=2, start="random", size=(224, 224))',
        num_frames="write frames=16",
        sequence_length="write frames=16",
        num_threads=THREADS,
        device="leave it out: frames are decoded by the processor; to_torch(device=) moves batches",
        resize="write size=(height, width)",
        dimension_order="leave it out: frames are [height, width, 3]",
    )
    def decode_video(
        self,
        column: str,
        *,
        frames: int = 16,
        stride: int | None = None,
        fps: float | None = None,
        clips: int = 1,
        start: Start = 0,
        short: Short = "repeat",
        size: HeightWidth | None = None,
        shorter: int | None = None,
        crop: HeightWidth | None = None,
        crop_at: Literal["center", "random"] = "center",
        interpolation: Interpolation = "bilinear",
        out: str | None = None,
        times: str | None = None,
        timeout: float = 60.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Decodes clips of videos: `uint8[frames, height, width, 3]`, or `uint8[clips, frames, height, width, 3]`.

        FFmpeg decodes MP4, MOV, Matroska, WebM, AVI, MPEG-TS and others, through PyAV: `pip install 'forebay[video]'`,
        here and on the workers, in one version. It seeks to the keyframe before a clip and decodes from there; the
        frames have the bits that decoding from the beginning gives. Each frame is turned as the file says.

        Functions of such a pipeline, this op among them, run in processes of their own, unless
        `iter(executor="thread")` says otherwise: a file that makes FFmpeg crash, or that takes longer than `timeout`,
        fails its sample alone.

        >>> import av, io, numpy as np
        >>> import forebay as fb
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        ...     for level in range(0, 250, 5):
        ...         frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), level, np.uint8))
        ...         container.mux(stream.encode(frame))
        ...     container.mux(stream.encode(None))
        >>> ds = fb.from_dict({"video": [file.getvalue()]})
        >>> ds = ds.decode_video("video", frames=8, stride=2, start=10, size=32, times="times")
        >>> ds.schema["video"], next(iter(ds))["times"][:3].round(2).tolist()
        (Column(dtype='uint8', shape=(8, 32, 32, 3)), [0.4, 0.48, 0.56])

        Args:
            column: The column of encoded bytes, or of paths: of texts, each the path of a file where the op runs.
            frames: The frames of a clip.
            stride: Each how many frames one is taken, at any rate. Default: each.
            fps: In place of `stride`: how many frames are taken of a second, by their times. The frame that is
                displayed at a time is taken, so a video of a lower or a variable rate repeats frames.
            clips: The clips of each video. More than one need `start="uniform"` or `"random"`.
            start: Where a clip begins: the number of a frame, or with `fps` seconds from the first frame on;
                `"random"`: each clip anywhere that it fits; `"middle"`; `"uniform"`: clips at equal distances, from the
                beginning to the end.
            short: The frames of a clip that the video ends before: the last frame (`"repeat"`), those from the
                beginning on (`"loop"`); or leave the row out, as a filter does (`"skip"`), or fail it (`"error"`).
            size: Height and width to which frames are scaled, or one number for a square. Default: as they are.
            shorter: In place of `size`: the shorter side to which frames are scaled, with their shape kept.
            crop: Height and width of the part that is kept of the scaled frames, or one number for a square.
            crop_at: Where this part is: in the `"center"`, or at a `"random"` place, one for all frames of a row.
            interpolation: How frames are scaled: `"nearest"`, `"area"`, `"bilinear"`, `"bicubic"` or `"lanczos"`.
            out: The column of pixels; default: the same column.
            times: A column for the time of each frame in seconds from the first frame of the video: float64[frames].
            timeout: Seconds that a video may take, in a process of its own.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the pixels.

        Raises:
            UnavailableError: PyAV is not installed here, or is too old.
            DataError: While it runs: a file is damaged, has no video, or frames of more than 2^25 pixels, or a row
                would take more than 1 GiB. `on_error="skip"` leaves such samples out.
            FunctionError: While it runs: a file made FFmpeg crash, or took longer than `timeout`.
        """
        arguments.flag(keep_position, _OP, "keep_position")
        try:
            ffmpeg = decoder.ffmpeg_version()
        except ImportError as error:
            hint = {"hint": "pip install 'forebay[video]'", "cause": str(error)}
            raise UnavailableError("decode_video needs PyAV 18 or later, which is not installed", hint) from None
        how = settings.checked(
            _OP,
            column=column,
            out=column if out is None else out,
            times=times,
            frames=frames,
            stride=stride,
            fps=fps,
            clips=clips,
            start=start,
            short=short,
            size=size,
            shorter=shorter,
            crop=crop,
            crop_at=crop_at,
            interpolation=interpolation,
            ffmpeg=ffmpeg,
        )
        self._check_video_column(column)
        function, pickle = python_functions.described(
            _OP,
            decoder.RandomClipDecoder(how) if how.is_random else decoder.ClipDecoder(how),
            [column],
            False,
            arguments.number(timeout, _OP, "timeout"),
            _VERSION,
        )
        columns: dict[str, Any] = {how.out: ("uint8", how.shape)}
        if how.times is not None:
            columns[how.times] = ("float64", how.lengths)
        if how.short == "skip":
            columns[decoder.WHOLE] = "bool"
        op = {
            "op": "map",
            "function": {**function, "name": _OP, "is_op": True},
            "output": to_fields(_OP, columns),
            "keep_others": True,
        }
        made = self._then(op, keep_position, name, pickle)
        if how.short == "skip":
            made = made.filter(col(decoder.WHOLE), name=name or _OP).drop(decoder.WHOLE)
        return made

    def _check_video_column(self, column: str) -> None:
        found = {name: (dtype, shape) for name, dtype, shape, *_ in self._pipeline.schema}
        if self._pipeline.batch_size is not None:
            raise InvalidPipelineError(f"{_OP} comes after batch", {"hint": "put it in front of batch"})
        # The engine says which columns there are.
        dtype, shape = found.get(column, ("bytes", None))
        if dtype not in ("bytes", "string") or shape:
            hint = {"hint": "it takes encoded bytes, as of from_files, or texts that are paths"}
            raise InvalidPipelineError(f"{_OP}: column {column!r} is {dtype}, and no video", hint)
