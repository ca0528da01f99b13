"""Frames of a video by their times: opens a container, seeks to the keyframe before a frame, and decodes from there.

One thread decodes, so the bits of damaged frames do not depend on threads either. A frame whose decoder says that it is
damaged fails the video. FFmpeg is given open files only, in formats that name no other files.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from forebay._src.video.settings import FRAME_PIXELS_MAX, DamageError, VideoError
from forebay._src.video.timeline import REORDER_MAX, Timeline, scan

#: The containers that are read, as FFmpeg names them. Playlists, which name other files, are not among them.
FORMATS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,asf,ogg,ivf,h264,hevc,m4v,mpegvideo,obu,gif,mxf,nut,av1"
#: Frames that are decoded rather than sought over.
_NEAR_FRAMES = 8
#: The bytes that are read at once.
_READ_BYTES = 1 << 16
#: Codecs in which a frame that says that no other frame refers to it may be left out, and all others keep their bits.
_SKIPPABLE = frozenset(["h264", "mpeg4", "mpeg2video"])
#: Codecs some of whose packets make no frame.
_INVISIBLE = frozenset(["vp8"])

_OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "none", "max_pixels": str(FRAME_PIXELS_MAX)}


class Reader:
    """An open video. Close it with `close`."""

    def __init__(self, av: Any, source: bytes | str) -> None:
        self._av, self._source = av, source
        self._container = self._open()
        self.codec: str = self._stream.codec_context.name
        self.timeline: Timeline

    def close(self) -> None:
        """Closes it."""
        self._container.close()
        self._file.close()

    def scan(self, frames: int | None, seconds: float | None) -> Timeline:
        """Reads the times of frames; see `timeline.scan`."""
        self.timeline = scan(self._demux(), self._stream, frames, seconds)
        return self.timeline

    def frames(self, wanted: Sequence[int], take: Callable[[int, Any], None]) -> None:
        """Decodes the frames of these times, which ascend, and passes each with its place among them to `take`.

        Raises:
            VideoError: A frame cannot be decoded.
        """
        timeline, begin = self.timeline, 0
        while begin < len(wanted):
            end = begin + 1
            while end < len(wanted) and self._is_near(wanted[end - 1], wanted[end]):
                end += 1
            first = timeline.key_of(wanted[begin])
            # A keyframe from which not all frames can be decoded is the beginning of an intra refresh, or a lie.
            for key in dict.fromkeys([first, max(0, first - 1), 0]):
                try:
                    left = self._run(key, wanted, range(begin, end), take)
                except DamageError:
                    if key == 0:
                        raise
                    continue
                if not left:
                    break
            else:
                at = timeline.seconds(wanted[left[0]])
                raise DamageError(f"cannot be decoded at {at:.3f} s")
            begin = end

    def _is_near(self, before: int, after: int) -> bool:
        key = self.timeline.key_of(after)
        return key == self.timeline.key_of(before) or self.timeline.frames_between(before, key) <= _NEAR_FRAMES

    def _run(self, key: int, wanted: Sequence[int], places: range, take: Callable[[int, Any], None]) -> list[int]:
        """Decodes from a keyframe on until all frames are there. Returns the places of missing frames."""
        left = {wanted[place]: place for place in places}
        first = self.timeline.keys[key].pts if self.timeline.is_timed else 0
        shown: Any = None
        late = 0
        for frame in self._decode(key, left):
            if frame.pts is None or frame.pts < first:
                continue  # refers to frames before the keyframe
            if frame.is_corrupt:
                raise DamageError(f"has a damaged frame at {self.timeline.seconds(frame.pts):.3f} s")
            if shown is not None and self.codec in _INVISIBLE:
                for pts in [pts for pts in left if pts < frame.pts]:
                    take(left.pop(pts), shown)
            if frame.pts in left:
                take(left.pop(frame.pts), frame)
            shown = frame
            late += bool(left) and frame.pts > next(iter(left))
            if not left or late > REORDER_MAX:
                break
        else:
            if shown is not None and (self.codec in _INVISIBLE or not self.timeline.is_timed):
                for pts in list(left):
                    take(left.pop(pts), shown)
        return sorted(left.values())

    def _decode(self, key: int, left: dict[int, int]) -> Iterator[Any]:
        """Yields frames from a keyframe on. Leaves out frames that are not in `left` where that changes no other."""
        packets, context = self._packets(key), self._stream.codec_context
        is_skippable = self.codec in _SKIPPABLE and self.timeline.is_timed
        count = 0
        for packet in packets:
            if is_skippable:
                context.skip_frame = "DEFAULT" if packet.pts is None or packet.pts in left else "NONREF"
            try:
                frames = context.decode(packet)
            except self._av.FFmpegError as error:
                at = "" if packet.pts is None else f" at {self.timeline.seconds(packet.pts):.3f} s"
                raise DamageError(f"cannot be decoded{at}: {error.strerror}") from None
            for frame in frames:
                if not self.timeline.is_timed:
                    frame.pts = count
                count += 1
                yield frame

    def _packets(self, key: int) -> Iterator[Any]:
        """Yields packets from a keyframe on, found by the container's index, or else from the beginning of the file."""
        sought = self.timeline.keys[key]
        place = sought.pts if sought.dts is None else sought.dts
        if self.timeline.is_timed and self._seek(place):
            for packet in (packets := self._demux()):
                if packet.is_keyframe and packet.pts == sought.pts:
                    yield packet
                    yield from packets
                    return
                if packet.is_keyframe and packet.pts is not None and packet.pts > sought.pts:
                    break  # the index is wrong
        self.close()
        self._container = self._open()
        is_begun = not self.timeline.is_timed
        for packet in self._demux():
            is_begun = is_begun or (packet.is_keyframe and packet.pts == sought.pts)
            if is_begun:
                yield packet

    def _seek(self, place: int) -> bool:
        try:
            self._container.seek(place, stream=self._stream, backward=True)
        except self._av.FFmpegError:
            return False
        return True

    def _demux(self) -> Iterator[Any]:
        packets: Iterator[Any] = self._container.demux(self._stream)
        return packets

    def _open(self) -> Any:
        """Opens the container, with the decoder of its video."""
        self._file = _file(self._source)
        try:
            return self._opened()
        except BaseException:
            self._file.close()
            raise

    def _opened(self) -> Any:
        how = {"options": _OPTIONS, "metadata_errors": "replace", "buffer_size": _READ_BYTES}
        try:
            container = self._av.open(self._file, "r", **how)
        except self._av.FFmpegError as error:
            why = "it is no video, was cut off, or has a format that is not read"
            raise VideoError(f"cannot be opened ({error.strerror}): {why}") from None
        if not container.streams.video:
            raise VideoError("has no video, or was cut off")
        stream = self._stream = container.streams.best("video") or container.streams.video[0]
        context = stream.codec_context
        if context is None:
            raise VideoError("has a codec that FFmpeg does not know")
        for other in container.streams:
            if other.index != stream.index:
                other.discard = self._av.stream.Discard.all
        context.thread_count = 1
        context.thread_type = "NONE"
        context.flags |= self._av.codec.context.Flags.bitexact
        context.options = {**context.options, "max_pixels": str(FRAME_PIXELS_MAX)}
        _check_whole(container, stream, self._file)
        return container


def _file(source: bytes | str) -> Any:
    if not isinstance(source, str):
        if not len(source):
            raise VideoError("is empty")
        return io.BytesIO(source)
    if not os.path.isfile(source):
        hint = ": files of a store are read as bytes, by from_files" if "://" in source else ""
        raise VideoError(f"is no file{hint}")
    return open(source, "rb")


def _check_whole(container: Any, stream: Any, file: Any) -> None:
    """Refuses an MP4 or MOV file that was cut off: its index names a frame behind its end."""
    if "mov" not in container.format.name or not len(stream.index_entries):
        return
    last = stream.index_entries[-1]
    length = file.seek(0, io.SEEK_END) if (at := file.tell()) >= 0 else 0
    file.seek(at)
    if last.pos + last.size > length:
        raise VideoError(f"is cut off: its last frame ends at byte {last.pos + last.size}, and the file at {length}")
