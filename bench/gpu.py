"""A ResNet-50 on a GPU, fed by Forebay, by DALI and by PyTorch's DataLoader: images/s, idle GPU, CPU-seconds.

    python bench/gpu.py FOLDER [--loaders none forebay …] [--cores 1 4 16] [--seconds 15] [--read]

FOLDER holds a folder of JPEGs for each class. Each loader runs in a process of its own, with the ImageNet recipe:
random resized crop to 224, flip, normalize. `--read` leaves the model out and measures the loaders alone. Needs
torchvision and psutil; DALI's rows need nvidia-dali.

The GPU is idle from the end of a step to the start of the next one, by events on the stream of the model, so the wait
for a copy counts. CPU-seconds are those of the process and of its children.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import torch
from machine import about

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_UP_STEPS = 20
Batches = Iterator[tuple[Any, Any]]


def forebay(folder: str, batch: int, stack: ExitStack, *, finish: bool = False, service: bool = False) -> Batches:
    """Forebay in this process or on a service with one worker; `finish` normalizes on the GPU."""
    import forebay as fb

    ds = (
        fb.from_image_folder(folder)
        .drop("path")
        .shuffle()
        .repeat()
        .decode_image("image", mode="RGB")
        .random_resized_crop("image", 224, antialias=False)
        .random_flip("image")
        .normalize("image", mean=MEAN, std=STD, layout="CHW")
        .batch(batch, drop_remainder=True)
    )
    up = stack.enter_context(fb.up(workers=1)) if service else None
    options = {"job": "bench"} if service else {}
    device = {"finish_on": "cuda"} if finish else {"device": "cuda"}
    return iter(ds.to_torch(up, seed=1, columns=("image", "label"), **device, **options))


def torch_loader(folder: str, batch: int, _stack: ExitStack) -> Batches:
    """PyTorch's DataLoader with a worker for each core, and Pillow."""
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    recipe = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    data = ImageFolder(folder, transforms.Compose([*recipe, transforms.Normalize(MEAN, STD)]))
    loader = DataLoader(
        data,
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=len(os.sched_getaffinity(0)),
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=4,
    )
    return ((x.cuda(non_blocking=True), y.cuda(non_blocking=True)) for _ in itertools.count() for x, y in loader)


def dali(folder: str, batch: int, _stack: ExitStack, *, decoder: str) -> Batches:
    """DALI, which decodes on the CPU or, as "mixed", with nvJPEG; the rest runs where the pixels are."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=batch, num_threads=len(os.sched_getaffinity(0)), device_id=0, seed=1)
    def pipeline() -> Any:
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True, initial_fill=1000, name="reader")
        area = {"random_aspect_ratio": [3 / 4, 4 / 3], "random_area": [0.08, 1.0], "num_attempts": 10}
        image = fn.decoders.image_random_crop(files, device=decoder, output_type=types.RGB, **area)
        image = fn.resize(image, resize_x=224, resize_y=224, interp_type=types.INTERP_LINEAR, antialias=False)
        mean, std = ([255 * number for number in numbers] for numbers in (MEAN, STD))
        mirror = fn.random.coin_flip(probability=0.5)
        image = fn.crop_mirror_normalize(image.gpu(), dtype=types.FLOAT, mean=mean, std=std, mirror=mirror)
        return image, labels.gpu()

    loader = DALIGenericIterator([pipeline()], ["x", "y"], reader_name="reader", auto_reset=True)
    return ((part["x"], part["y"].flatten().long()) for _ in itertools.count() for (part,) in loader)


def none(_folder: str, batch: int, _stack: ExitStack) -> Batches:
    """One batch on the GPU, again and again: the most that the model can take."""
    return itertools.repeat((torch.randn(batch, 3, 224, 224, device="cuda"), torch.zeros(batch, device="cuda").long()))


LOADERS: dict[str, Callable[..., Batches]] = {
    "none": none,
    "forebay": forebay,
    "forebay, finish_on": lambda *given: forebay(*given, finish=True),
    "forebay, service": lambda *given: forebay(*given, finish=True, service=True),
    "torch": torch_loader,
    "dali, CPU": lambda *given: dali(*given, decoder="cpu"),
    "dali, GPU": lambda *given: dali(*given, decoder="mixed"),
}


def trainer(read: bool) -> Callable[[Any, Any], None]:
    """Returns a step: of the model, or a sum alone."""
    if read:
        return lambda x, _y: x.sum().item()
    from torchvision.models import resnet50

    model = resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x.to(memory_format=torch.channels_last)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def cpu_seconds() -> float:
    """Returns the CPU-seconds of this process and of its children, dead or alive."""
    me = psutil.Process()
    own, alive = me.cpu_times(), [child.cpu_times() for child in me.children(recursive=True)]
    dead = own.children_user + own.children_system
    return dead + sum(times.user + times.system for times in [own, *alive])


def measure(loader: str, folder: str, batch: int, seconds: float, read: bool) -> dict[str, float]:
    """Runs one loader for some seconds after a warm-up."""
    with ExitStack() as stack:
        began = time.perf_counter()
        batches = LOADERS[loader](folder, batch, stack)
        first = next(batches)
        torch.cuda.synchronize()
        first_s = time.perf_counter() - began
        step = trainer(read)
        step(*first)
        for x, y in itertools.islice(batches, WARM_UP_STEPS):
            step(x, y)
        torch.cuda.synchronize()
        events: list[tuple[Any, Any]] = []
        cpu, start = cpu_seconds(), time.perf_counter()
        while time.perf_counter() - start < seconds:
            x, y = next(batches)
            pair = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            pair[0].record()
            step(x, y)
            pair[1].record()
            events.append(pair)
            if len(events) > 2:
                # No more steps are ahead of the GPU than a loop that prints its loss would have.
                events[-3][1].synchronize()
        torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        idle = sum(before[1].elapsed_time(after[0]) for before, after in itertools.pairwise(events)) / 1000
        images = len(events) * batch
    figures = {"images_s": images / wall, "idle": idle / wall, "cpu_s_1000": 1000 * cpu / images, "first_s": first_s}
    return {name: round(value, 4) for name, value in figures.items()}


def main() -> None:
    """Runs the loaders one after the other and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--cores", nargs="+", type=int, default=[len(os.sched_getaffinity(0))])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--one", choices=list(LOADERS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.folder, given.batch, given.seconds, given.read)))
        os._exit(0)
    print(about("torch", "torchvision", "nvidia-dali-cuda130", GPU=torch.cuda.get_device_name()), flush=True)
    own = ["--seconds", str(given.seconds), "--batch", str(given.batch), *(["--read"] if given.read else [])]
    for cores, loader in itertools.product(given.cores, given.loaders):
        command = ["taskset", "-c", f"0-{cores - 1}", sys.executable, __file__, given.folder, "--one", loader, *own]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120 + 4 * given.seconds)
        result = done.stdout.strip().splitlines()[-1:] if done.returncode == 0 else done.stderr.splitlines()[-3:]
        print(f"{cores:3} cores  {loader:20} {' '.join(result)}", flush=True)


if __name__ == "__main__":
    main()
