"""Writes the golden images beside this file, and the pixels that Pillow decodes from them.

Written with Python 3.11, Pillow 12.0.0 (libjpeg-turbo 3.1.2, libwebp 1.6.0) and NumPy 2.4.6:

    pip install pillow==12.0.0 numpy==2.4.6 && python make_golden.py

Pillow 13.0.0 decodes all of them to the same pixels. It resizes rows before columns for some sizes (when it saves
work), which rounds differently: 6 of the 40 resizes then differ.

Each NAME is an encoded image. `expected.txt` has a line per check, where CRC is zlib.crc32 of the pixels:

    decode NAME MODE WIDTH HEIGHT CRC
    resize NAME X Y W H WIDTH HEIGHT CRC       (RGB, cropped to X Y W H, Image.BILINEAR)
    linear NAME WIDTH HEIGHT FILE              (two nearest pixels, in float64; FILE holds float32 values)
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
rng = np.random.default_rng(1)


def picture(width, height):
    """Smooth colours with some noise and hard edges."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 120 * np.sin(x / 5 + k) * np.cos(y / (6 + k)) for k in range(3)]
    rgb = np.stack(planes, -1) + rng.normal(0, 8, (height, width, 3))
    rgb[height // 3 : height // 2, width // 4 : width // 2] = (255, 0, 40)
    return np.clip(rgb, 0, 255).astype(np.uint8)


RGB = Image.fromarray(picture(53, 39))
GREY = RGB.convert("L")
ALPHA = Image.fromarray((np.indices((39, 53)).sum(0) * 2).astype(np.uint8))
written = {}


def write(name, image, **options):
    buffer = io.BytesIO()
    image.save(buffer, name.rsplit(".", 1)[1].replace("jpg", "jpeg"), **options)
    raw(name, buffer.getvalue())


def raw(name, data):
    (HERE / name).write_bytes(data)
    written[name] = data


def png16(name, array, colour):
    """A 16-bit PNG, which Pillow reads but does not write in colour."""
    height, width = array.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    raw(name, b"\x89PNG\r\n\x1a\n" + parts)


for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
    write(f"rgb{subsampling.replace(':', '')}.jpg", RGB, quality=88, subsampling=subsampling)
write("progressive.jpg", RGB, quality=80, progressive=True)
write("grey.jpg", GREY, quality=88)
write("cmyk.jpg", RGB.convert("CMYK"), quality=88)
write("rgb.png", RGB)
write("grey.png", GREY)
write("bilevel.png", GREY.point(lambda v: 255 * (v > 128)).convert("1"))
write("palette.png", RGB.quantize(11), transparency=3)
write("alpha.png", Image.merge("RGBA", (*RGB.split(), ALPHA)))
write("grey_alpha.png", Image.merge("LA", (GREY, ALPHA)))
write("lossless.webp", RGB, lossless=True)
write("lossy.webp", RGB, quality=70)
write("alpha.webp", Image.merge("RGBA", (*RGB.split(), ALPHA)), quality=70)
wide = rng.integers(0, 65536, (9, 7, 3))
png16("rgb16.png", wide, 2)
png16("grey16.png", wide[:, :, 0], 0)

lines = []
for name, data in written.items():
    for mode in ("RGB", "L"):
        if name == "grey16.png":  # Pillow clips 16-bit greys at 255; their high bytes are what is wanted
            image = Image.fromarray((wide[:, :, 0] >> 8).astype(np.uint8)).convert(mode)
        else:
            image = Image.open(io.BytesIO(data)).convert(mode)
        lines.append(f"decode {name} {mode} {image.width} {image.height} {zlib.crc32(image.tobytes())}")

source = Image.open(io.BytesIO(written["rgb.png"])).convert("RGB")
boxes = [(0, 0, 53, 39), (5, 3, 31, 30), (20, 7, 1, 1), (0, 1, 52, 2), (11, 0, 2, 39)]
sizes = [(24, 24), (53, 20), (17, 39), (7, 3), (1, 1), (100, 90), (54, 38), (3, 111)]
for x, y, w, h in boxes:
    for size in sizes:
        out = source.crop((x, y, x + w, y + h)).resize(size, Image.BILINEAR)
        lines.append(f"resize rgb.png {x} {y} {w} {h} {size[0]} {size[1]} {zlib.crc32(out.tobytes())}")


def linear(array, width, height):
    def axis(have, want):
        at = np.clip((np.arange(want) + 0.5) * have / want - 0.5, 0, have - 1)
        first = np.floor(at).astype(int)
        return first, np.minimum(first + 1, have - 1), at - first

    y0, y1, fy = axis(array.shape[0], height)
    x0, x1, fx = axis(array.shape[1], width)
    a = array.astype(np.float64)
    fx, fy = fx[None, :, None], fy[:, None, None]
    top = a[y0][:, x0] * (1 - fx) + a[y0][:, x1] * fx
    bottom = a[y1][:, x0] * (1 - fx) + a[y1][:, x1] * fx
    return top * (1 - fy) + bottom * fy


for width, height in [(13, 11), (9, 20)]:
    name = f"linear{width}x{height}.f32"
    (HERE / name).write_bytes(linear(np.asarray(source), width, height).astype("<f4").tobytes())
    lines.append(f"linear rgb.png {width} {height} {name}")

(HERE / "expected.txt").write_text("\n".join(lines) + "\n")
