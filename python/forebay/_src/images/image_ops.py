"""Ops on images and clips: decode, crop, resize, flip, normalise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

IMAGENET_MEAN: tuple[float, float, float] = (0.485, 0.456, 0.406)
"""The mean of each channel of ImageNet's images, between 0 and 1."""
IMAGENET_STD: tuple[float, float, float] = (0.229, 0.224, 0.225)
"""The standard deviation of each channel of ImageNet's images, between 0 and 1."""

CORNERS = ("top_left", "top_right", "bottom_left", "bottom_right")
Interpolation: TypeAlias = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]
#: Pixels that are added to an image: of all sides; of left and right, top and bottom; or left, top, right, bottom.
Padding: TypeAlias = int | tuple[int, int] | tuple[int, int, int, int]


class ImageOps(Base):
    """Ops on a column of images, or of clips `[frames, height, width, channels]`, which get one draw for all frames.

    Consecutive ones run as one pass over the pixels.
    """

    __slots__ = ()

    def decode_image(
        self,
        column: str,
        *,
        mode: Literal["RGB", "L", "RGBA", "LA", "P", "I;16"] = "RGB",
        orientation: Literal["stored", "exif"] = "stored",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Decodes images in place, to uint8 (of `"I;16"` uint16) of height, width, channels.

        The bytes are JPEG, PNG, WebP, GIF (the first frame), BMP or TIFF (the first page).

        >>> import forebay as fb
        >>> import io, numpy as np
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.fromarray(np.array([[0, 40_000]], np.uint16)).save(file, "PNG")
        >>> next(iter(fb.from_dict({"depth": [file.getvalue()]}).decode_image("depth", mode="I;16")))["depth"].ravel()
        array([    0, 40000], dtype=uint16)

        Args:
            column: The column.
            mode: `"RGB"`; `"L"` for grey (one channel); `"RGBA"` or `"LA"` with the opacity as last channel, 255 of an
                image without one; `"P"` for the numbers of the palette of a PNG, GIF or BMP (one channel): the classes
                of a segmentation mask; or `"I;16"` for the levels of a grey PNG or TIFF of 16 bits (one channel of
                uint16): depths, or medical images. `"P"` of an image without a palette, and `"I;16"` of any other
                image, are a `DataError`.
            orientation: `"exif"` turns and mirrors each image as its EXIF data say, as Pillow's `exif_transpose` does.
                `"stored"` leaves it as its pixels are stored.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "decode_image",
            "column": column,
            "mode": arguments.choice(mode, "decode_image", "mode", "RGB", "L", "RGBA", "LA", "P", "I;16"),
        }
        if arguments.choice(orientation, "decode_image", "orientation", "stored", "exif") == "exif":
            op["exif"] = True
        return self._then(op, keep_position, name)

    def encode_image(
        self,
        column: str,
        format: Literal["jpeg", "png"] = "jpeg",
        *,
        quality: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Encodes uint8 images of one or three channels to the bytes of a file, in place; for `save`, say.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 8, 8, 3), np.uint8)}).encode_image("image", "png")
        >>> str(ds.schema["image"]), next(iter(ds))["image"][1:4]
        ('bytes', b'PNG')

        Args:
            column: The column.
            format: `"jpeg"`, with 4:2:0 chroma as Pillow's default, or `"png"`, which keeps every pixel.
            quality: The quality of a JPEG, 1 to 100; 75 without it, as Pillow's default.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "encode_image",
            "column": column,
            "format": arguments.choice(format, "encode_image", "format", "jpeg", "png"),
        }
        if quality is not None:
            op["quality"] = arguments.whole(quality, "encode_image", "quality", 1, 100)
        elif format == "jpeg":
            op["quality"] = 75
        return self._then(op, keep_position, name)

    def resize(
        self,
        column: str,
        size: arguments.Size | None = None,
        *,
        shorter: int | None = None,
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Resizes: to exactly `size`, or so that the shorter side has `shorter` pixels and the shape stays.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 8, 12, 3), np.uint8)})
        >>> print(ds.resize("image", (4, 6), interpolation="bicubic").schema["image"])
        uint8[4, 6, 3]

        Levels are those of Pillow. Images with opacity (two or four channels) are resized with it, so that transparent
        pixels add nothing to the colours around them; one channel of uint16 is resized as mode `"I;16"`.

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            shorter: Pixels of the shorter side, instead of `size`. The longer side is rounded down, as torchvision's
                `Resize(shorter)`; images differ in shape then, so crop them before `batch`.
            max_size: With `shorter`: the most pixels of the longer side. An image that would exceed it gets exactly
                this length, and a shorter side to match.
            interpolation: Pillow's filter of that name: `"nearest"`, `"box"`, `"bilinear"`, `"bicubic"`, `"lanczos"`.
            antialias: Whether shrinking averages, as Pillow does, or samples, as TensorFlow's and DALI's default, which
                `"bilinear"` of uint8 without opacity can.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        if (size is None) == (shorter is None):
            raise InvalidPipelineError(
                "resize: give either size or shorter", {"hint": "size=(height, width), or shorter=256"}
            )
        op: dict[str, object]
        if size is not None:
            if max_size is not None:
                raise InvalidPipelineError("resize: max_size goes with shorter", {"hint": "leave it out with size"})
            op = {"op": "resize", "column": column, **arguments.size(size, "resize")}
        else:
            op = {"op": "resize_shorter", "column": column, "size": arguments.whole(shorter, "resize", "shorter", 1)}
            if max_size is not None:
                op["max_size"] = arguments.whole(max_size, "resize", "max_size", 1)
        return self._then({**op, **_resampled(interpolation, antialias, "resize")}, keep_position, name)

    def center_crop(
        self, column: str, size: arguments.Size, *, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Cuts the middle out, padded with zeros where the image is smaller."""
        op = {"op": "center_crop", "column": column, **arguments.size(size, "center_crop")}
        return self._then(op, keep_position, name)

    def crop(
        self,
        column: str,
        size: arguments.Size,
        *,
        top: int = 0,
        left: int = 0,
        corner: Literal["top_left", "top_right", "bottom_left", "bottom_right"] = "top_left",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Cuts the same part out of each image; an image in which it does not lie is a `DataError`.

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            top: Rows between the part and the corner.
            left: Columns between the part and the corner.
            corner: The corner of the image from which they are counted.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "crop",
            "column": column,
            "top": arguments.whole(top, "crop", "top", 0),
            "left": arguments.whole(left, "crop", "left", 0),
            **arguments.size(size, "crop"),
            "corner": arguments.choice(corner, "crop", "corner", *CORNERS),
        }
        return self._then(op, keep_position, name)

    def pad(
        self,
        column: str,
        padding: Padding,
        *,
        fill: int | Iterable[int] = 0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts a border of one colour around an image.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 8, 8, 3), np.uint8)})
        >>> next(iter(ds.pad("image", (1, 2), fill=255)))["image"].shape
        (12, 10, 3)

        Args:
            column: The column.
            padding: Pixels of all sides; `(left and right, top and bottom)`; or `(left, top, right, bottom)`.
            fill: The level of the border: one, or one for each channel, 0 to 255.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {"op": "pad", "column": column, "border": _border(padding, "pad"), "fill": levels(fill, "pad")}
        return self._then(op, keep_position, name)

    def random_crop(
        self,
        column: str,
        size: arguments.Size,
        *,
        padding: Padding = 0,
        fill: int | Iterable[int] = 0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Cuts a part out at a random place, by torchvision's rule; an image that is too small is a `DataError`.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"image": np.zeros((2, 32, 32, 3), np.uint8)})
        >>> next(iter(ds.random_crop("image", 32, padding=4)))["image"].shape
        (32, 32, 3)

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            padding: Pixels that are added before: of all sides; `(left and right, top and bottom)`; or
                `(left, top, right, bottom)`.
            fill: Their level: one, or one for each channel, 0 to 255.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_crop",
            "column": column,
            **arguments.size(size, "random_crop"),
            "border": _border(padding, "random_crop"),
            "fill": levels(fill, "random_crop"),
        }
        return self._then(op, keep_position, name)

    def random_resized_crop(
        self,
        column: str,
        size: arguments.Size,
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Cuts a random part out and resizes it, by torchvision's rule.

        Args:
            column: The column.
            size: Pixels: one number for a square, or `(height, width)`.
            scale: The least and the greatest share of the image's area.
            ratio: The least and the greatest width / height.
            interpolation: As in `resize`.
            antialias: As in `resize`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_resized_crop",
            "column": column,
            **arguments.size(size, "random_resized_crop"),
            "scale": arguments.interval(scale, "random_resized_crop", "scale"),
            "ratio": arguments.interval(ratio, "random_resized_crop", "ratio"),
            **_resampled(interpolation, antialias, "random_resized_crop"),
        }
        return self._then(op, keep_position, name)

    def random_flip(
        self,
        column: str,
        *,
        p: float = 0.5,
        direction: Literal["horizontal", "vertical"] = "horizontal",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Flips with probability `p`.

        Args:
            column: The column.
            p: The probability.
            direction: `"horizontal"`, left to right, or `"vertical"`, upside down.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_flip",
            "column": column,
            "probability": arguments.number(p, "random_flip", "p"),
            "direction": arguments.choice(direction, "random_flip", "direction", "horizontal", "vertical"),
        }
        return self._then(op, keep_position, name)

    def normalize(
        self,
        column: str,
        *,
        mean: float | Iterable[float],
        std: float | Iterable[float],
        layout: Literal["CHW", "HWC", "CTHW"] = "HWC",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes float32 of pixels: `(x / 255 - mean) / std`, a mean and a std for each channel; of uint16, `x / 65535`.

        >>> import forebay as fb
        >>> import numpy as np
        >>> ds = fb.from_numpy({"video": np.zeros((2, 16, 8, 8, 3), np.uint8)})
        >>> print(ds.normalize("video", mean=[0.5] * 3, std=[0.2] * 3, layout="CTHW").schema["video"])
        float32[3, 16, 8, 8]

        Args:
            column: The column.
            mean: One for each channel, between 0 and 1.
            std: One for each channel, between 0 and 1.
            layout: `"CHW"` puts the channels first, as PyTorch has them; `"HWC"` last. In a clip, these are the orders
                of a frame, behind the frames; `"CTHW"` puts the channels before the frames, as PyTorch's video models
                have them.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Raises:
            InvalidPipelineError: A mean is above 1: it is one of levels up to 255, and would make all pixels alike.
        """
        means = arguments.numbers(mean, "normalize", "mean")
        if max(means, default=0) > 1:
            hint = "divide both by the greatest level: mean=[123.675 / 255, ...], std=[58.395 / 255, ...]"
            message = f"normalize: mean={max(means):g}, and pixels are divided by their greatest level before it"
            raise InvalidPipelineError(message, {"hint": hint})
        op = {
            "op": "normalize",
            "column": column,
            "mean": means,
            "std": arguments.numbers(std, "normalize", "std"),
            "layout": arguments.choice(layout, "normalize", "layout", "CHW", "HWC", "CTHW"),
        }
        return self._then(op, keep_position, name)


def _resampled(interpolation: str, antialias: bool, op: str) -> dict[str, Any]:
    """Returns the arguments that say how a resized pixel is computed."""
    known = ("nearest", "box", "bilinear", "bicubic", "lanczos")
    return {
        "antialias": arguments.flag(antialias, op, "antialias"),
        "interpolation": arguments.choice(interpolation, op, "interpolation", *known),
    }


def _border(padding: Padding, op: str) -> dict[str, int]:
    """Returns the pixels of each side."""
    sides = [padding] if hasattr(padding, "__index__") else padding
    try:
        given = [arguments.whole(side, op, "padding", 0) for side in sides]
    except TypeError:
        given = []
    if len(given) not in (1, 2, 4):
        hint = "use one number, (left and right, top and bottom), or (left, top, right, bottom)"
        raise InvalidPipelineError(f"{op}: padding={arguments.shown(padding)} is no border", {"hint": hint})
    left, top, right, bottom = given * (4 // len(given))
    return {"left": left, "top": top, "right": right, "bottom": bottom}


def levels(fill: int | Iterable[int], op: str) -> list[int]:
    """Returns the levels of a colour."""
    levels = fill if isinstance(fill, Iterable) else [fill]
    return [arguments.whole(level, op, "fill", 0, 255) for level in levels]
