"""Writes `cases.u8` and `cases.txt` beside this file: the results of torchvision for three small images.

Written with Python 3.11, PyTorch 2.15.0 and torchvision 0.29.2, on one thread of an AVX-512 processor:

    pip install torch torchvision && python make_golden.py

`cases.txt` has a line for each image in `cases.u8`, in order, height by width by channels without gaps:

    source HEIGHT WIDTH CHANNELS
    SOURCE LEVELS SHARE EDIT PARAMETERS...

SOURCE counts the sources from 0. LEVELS is how far a pixel may be off, SHARE how many numbers in a thousand may be: 0
where both sides compute with integers or tables, or in f32 in an order that PyTorch fixes. PyTorch may add a product
without rounding it first, which tips a number over to the next level now and then.
"""

from pathlib import Path

import numpy as np
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).parent
torch.set_num_threads(1)
rng = np.random.default_rng(3)


def picture(height, width):
    """Smooth colours, noise, edges, greys and the extremes."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 135 * np.sin(x / 4 + k) * np.cos(y / (5 + k)) for k in range(3)]
    rgb = np.stack(planes, -1) + rng.normal(0, 12, (height, width, 3))
    rgb[: height // 6] = np.linspace(0, 255, width)[:, None]
    rgb[height // 2 : height // 2 + 3, width // 4 : width // 2] = (255, 0, 40)
    return np.clip(rgb, 0, 255).astype(np.uint8)


wide, square = picture(22, 33), picture(24, 24)
sources = [wide, square, wide[:, :, 1:2]]
lines, images = [], []
for source in sources:
    lines.append("source " + " ".join(map(str, source.shape)))
    images.append(source)


def case(source, levels, share, edit, function):
    """One more case: the words of the edit, and the function of a CHW tensor."""
    result = function(torch.from_numpy(sources[source].transpose(2, 0, 1).copy()))
    assert result.dtype == torch.uint8
    result = result.numpy().transpose(1, 2, 0)
    assert result.shape == sources[source].shape
    lines.append(f"{source} {levels} {share} {edit}")
    images.append(np.ascontiguousarray(result))


for factor in (0.0, 0.35, 1.0, 1.7):
    for source in (0, 2):
        case(source, 0, 0, f"brightness {factor}", lambda t, f=factor: F.adjust_brightness(t, f))
        case(source, 1, 10, f"contrast {factor}", lambda t, f=factor: F.adjust_contrast(t, f))
        case(source, 1, 10, f"saturation {factor}", lambda t, f=factor: F.adjust_saturation(t, f))
for factor in (-0.5, -0.13, 0.0, 0.07, 0.5):
    case(0, 0, 0, f"hue {factor}", lambda t, f=factor: F.adjust_hue(t, f))
case(2, 0, 0, "hue 0.2", lambda t: F.adjust_hue(t, 0.2))
case(0, 1, 10, "grey", lambda t: F.rgb_to_grayscale(t, 3))
case(2, 0, 0, "grey", lambda t: F.rgb_to_grayscale(t, 1))
for size, sigma in [(1, 1.0), (3, 0.1), (5, 0.8), (9, 2.0), (23, 1.7), (23, 40.0)]:
    for source in (0, 2):
        case(source, 1, 2, f"blur {size} {sigma}", lambda t, k=size, s=sigma: F.gaussian_blur(t, [k, k], [s, s]))

for source in (0, 2):
    for bits in (0, 3, 8):
        case(source, 0, 0, f"posterize {bits}", lambda t, b=bits: F.posterize(t, b))
    for threshold in (0, 100.5, 255):
        case(source, 0, 0, f"solarize {threshold}", lambda t, v=threshold: F.solarize(t, v))
    case(source, 0, 0, "autocontrast", F.autocontrast)
    case(source, 0, 0, "equalize", F.equalize)
    for factor in (0.0, 0.7, 1.9):
        case(source, 1, 10, f"sharpness {factor}", lambda t, f=factor: F.adjust_sharpness(t, f))

MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}
FILLS = {"none": None, "0": [0], "3,200,90": [3, 200, 90]}


def moved(source, edit, interpolation, fill, function):
    exact = (0, 0) if interpolation == "nearest" else (1, 20)
    options = {"interpolation": MODES[interpolation], "fill": FILLS[fill]}
    case(source, *exact, f"{edit} {interpolation} {fill}", lambda t: function(t, **options))


def affine(t, shear=(0.0, 0.0), translate=(0, 0), center=None, **options):
    degrees = [float(np.degrees(np.arctan(s))) for s in shear]
    return F.affine(t, angle=0.0, translate=list(translate), scale=1.0, shear=degrees, center=center, **options)


for mode in MODES:
    for fill in FILLS:
        moved(0, "rotate 17.3", mode, fill, lambda t, **o: F.rotate(t, 17.3, **o))
    moved(1, "rotate -45", mode, "none", lambda t, **o: F.rotate(t, -45, **o))
    for angle in (0, 90, 180, 270):
        moved(1, f"rotate {angle}", mode, "0", lambda t, a=angle, **o: F.rotate(t, a, **o))
    moved(0, "rotate 180", mode, "0", lambda t, **o: F.rotate(t, 180, **o))
    moved(2, "rotate 123.456", mode, "0", lambda t, **o: F.rotate(t, 123.456, **o))
    for slope in (0.09, -0.27):
        moved(0, f"shear_x {slope}", mode, "3,200,90", lambda t, s=slope, **o: affine(t, (s, 0.0), center=[0, 0], **o))
        moved(0, f"shear_y {slope}", mode, "none", lambda t, s=slope, **o: affine(t, (0.0, s), center=[0, 0], **o))
    moved(0, "shift_x -7", mode, "3,200,90", lambda t, **o: affine(t, translate=(-7, 0), **o))
    moved(0, "shift_y 4", mode, "none", lambda t, **o: affine(t, translate=(0, 4), **o))

AFFINES = [(17.0, 3, -2, 0.8, 9.0, -5.0), (-140.5, 0, 4, 1.3, 0.0, 0.0), (30.0, 0, 0, 1.0, 25.0, 12.5)]
VIEWS = [(3, 1, 30, 4, 29, 20, 2, 17), (0, 0, 20, 5, 32, 21, 9, 15), (12, 8, 32, 0, 25, 18, 0, 21)]
for source, fill in [(0, "none"), (0, "3,200,90"), (2, "0")]:
    for mode in MODES:
        for degrees, right, down, scale, x, y in AFFINES:
            words = f"affine {degrees} {mode} {fill} {right} {down} {scale} {x} {y}"
            options = {"interpolation": MODES[mode], "fill": FILLS[fill]}
            options |= {"angle": degrees, "translate": [right, down], "scale": scale, "shear": [x, y]}
            levels, share = (255, 5) if mode == "nearest" else (1, 20)
            case(source, levels, share, words, lambda t, o=options: F.affine(t, **o))
        for corners in VIEWS:
            height, width = sources[source].shape[:2]
            start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
            end = [list(corners[i : i + 2]) for i in range(0, 8, 2)]
            words = f"perspective 0 {mode} {fill} " + " ".join(map(str, corners))
            options = {"interpolation": MODES[mode], "fill": FILLS[fill], "startpoints": start, "endpoints": end}
            levels, share = (255, 10) if mode == "nearest" else (1, 30)
            case(source, levels, share, words, lambda t, o=options: F.perspective(t, **o))

case(0, 0, 0, "permute 2 0 1", lambda t: F.permute_channels(t, [2, 0, 1]))
case(2, 0, 0, "invert", F.invert)
case(0, 0, 0, "invert", F.invert)

value = torch.tensor([3.0, 200.0, 90.0])[:, None, None]
case(0, 0, 0, "erase 5 3 20 11 3 200 90", lambda t: F.erase(t, i=3, j=5, h=11, w=20, v=value))
case(2, 0, 0, "erase 0 21 33 1 3 0 0", lambda t: F.erase(t, i=21, j=0, h=1, w=33, v=value[:1]))

(HERE / "cases.txt").write_text("\n".join(lines) + "\n")
(HERE / "cases.u8").write_bytes(b"".join(image.tobytes() for image in images))
print(len(lines), "images")
