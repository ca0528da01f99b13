"""Small pictures of values: encoded images, pixels, float tensors as they go to a model, and waves of sound."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from forebay._src import pictures
from forebay.errors import ForebayError

Array = np.ndarray[Any, Any]

#: The most pixels of a side.
SIDE = 128
#: The fewest pixels of a side of an array that is taken for an image.
_SIDE_MIN = 8
#: Encoded images up to this size go into the page as they are; larger ones are decoded and made small.
_AS_IS_MAX = 32 << 10
_CHANNELS = (1, 3, 4)
#: The fewest float32 numbers in one dimension that are taken for sound, and the most channels.
_SOUND_MIN, _SOUND_CHANNELS_MAX = 1_000, 8
#: The height of the wave of a channel.
_WAVE_HEIGHT = 32
#: The first bytes of encoded images that browsers show.
_MAGIC = ((b"\xff\xd8\xff", "jpeg"), (b"\x89PNG\r\n\x1a\n", "png"), (b"RIFF", "webp"), (b"GIF8", "gif"))


def kind_of(value: bytes) -> str | None:
    r"""Returns the kind of an encoded image by its first bytes.

    >>> kind_of(b"\xff\xd8\xff\xe0"), kind_of(b"text")
    ('jpeg', None)
    """
    found = next((kind for magic, kind in _MAGIC if value.startswith(magic)), None)
    return None if found == "webp" and value[8:12] != b"WEBP" else found


def data_url(value: Any) -> str | None:
    """Returns the address of a picture of a value, with the picture in it; `None` if it is no image."""
    if isinstance(value, bytes):
        kind = kind_of(value)
        if kind is not None and len(value) <= _AS_IS_MAX:
            return f"data:image/{kind};base64,{base64.b64encode(value).decode()}"
    small = pixels(value)
    return None if small is None else f"data:image/png;base64,{base64.b64encode(pictures.png(small)).decode()}"


def pixels(value: Any) -> Array | None:
    """Returns a value as small pixels, uint8, grey or RGB; `None` if it is no image that can be shown.

    >>> pixels(np.zeros((3, 300, 200), np.float32)).shape, pixels(np.zeros((3, 3)))
    ((128, 85, 3), None)
    """
    if isinstance(value, bytes):
        return _decoded(value) if kind_of(value) is not None else None
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        return None
    if _is_sound(value):
        return _waves(value)
    image = _channels_last(value)
    if image is None:
        return None
    image = _small(image)
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * 255
    return image if image.dtype == np.uint8 else _scaled(image)


def _is_sound(value: Array) -> bool:
    if value.dtype != np.float32 or value.ndim not in (1, 2) or len(value) < _SOUND_MIN:
        return False
    return value.ndim == 1 or 0 < value.shape[1] <= _SOUND_CHANNELS_MAX


def _waves(value: Array) -> Array:
    """Draws the least and the greatest sample of each of `SIDE` spans, one channel below the other.

    >>> _waves(np.sin(np.arange(9000, dtype=np.float32))).shape
    (32, 128)
    """
    sound = np.nan_to_num(value.reshape(len(value), -1), posinf=0.0, neginf=0.0)
    peak = float(np.abs(sound).max()) or 1.0
    spans = np.array_split(sound, SIDE)
    rows = np.arange(_WAVE_HEIGHT)[:, None]
    waves = []
    for channel in range(sound.shape[1]):
        bounds = np.array([(span[:, channel].max(), span[:, channel].min()) for span in spans]) / peak
        top, bottom = ((1 - bounds.T) / 2 * (_WAVE_HEIGHT - 1)).round()
        waves.append(np.where((rows >= top) & (rows <= bottom), 40, 255).astype(np.uint8))
    picture: Array = np.concatenate(waves)
    return picture


def _channels_last(value: Array) -> Array | None:
    """Returns pixels of shape (height, width) or (height, width, 3)."""
    if value.dtype.kind not in "buif" or value.ndim not in (2, 3):
        return None
    if value.ndim == 3 and value.shape[2] not in _CHANNELS:
        if value.shape[0] not in _CHANNELS:
            return None
        value = np.moveaxis(value, 0, 2)
    if min(value.shape[:2]) < _SIDE_MIN:
        return None
    if value.ndim == 3:
        value = value[..., 0] if value.shape[2] == 1 else value[..., :3]
    return value


def _small(image: Array) -> Array:
    """Leaves pixels out, so that no side is longer than `SIDE`."""
    scale = min(1.0, SIDE / max(image.shape[:2]))
    sides = [max(1, int(side * scale)) for side in image.shape[:2]]
    rows, columns = (np.arange(side) * old // side for side, old in zip(sides, image.shape[:2], strict=True))
    small: Array = image[rows][:, columns]
    return small


def _scaled(image: Array) -> Array:
    """Stretches numbers to 0 to 255; numbers that are not finite are black."""
    wide = image.astype(np.float64)
    there = np.isfinite(wide)
    if not there.any():
        return np.zeros(image.shape, np.uint8)
    low, high = wide[there].min(), wide[there].max()
    stretched: Array = (np.where(there, wide, low) - low) / ((high - low) or 1.0) * 255
    return stretched.astype(np.uint8)


def _decoded(value: bytes) -> Array | None:
    import forebay

    try:
        ds = forebay.from_dict({"image": [value]}).decode_image("image", mode="RGB")
        (row,) = ds.iter(epoch=0, threads=1, consumers=(0, 1))
    except (ForebayError, ValueError):
        return None
    return pixels(row["image"])
