"""Makes the golden sounds: short ones in each format. Needs NumPy and soundfile, and ffmpeg for AAC if it is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import soundfile

FOLDER = Path(__file__).parent


def main() -> None:
    """Writes the files."""
    time = np.arange(2000) / 16000
    tone = 0.3 * np.sin(2 * np.pi * (300 + 2000 * time) * time)
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(time))
    sound = tone + noise
    both = np.stack([sound, tone], 1)
    for name, values, rate, subtype in [
        ("mono16.wav", sound, 16000, "PCM_16"),
        ("stereo_float.wav", both, 22050, "FLOAT"),
        ("mono24.aiff", sound, 44100, "PCM_24"),
        ("stereo16.flac", both, 44100, "PCM_16"),
        ("mono.ogg", sound, 16000, "VORBIS"),
        ("stereo.ogg", both, 44100, "VORBIS"),
        ("mono.mp3", sound, 16000, "MPEG_LAYER_III"),
        ("stereo.mp3", both, 44100, "MPEG_LAYER_III"),
    ]:
        soundfile.write(FOLDER / name, values, rate, subtype=subtype)
    if shutil.which("ffmpeg"):
        for name in ("mono.m4a", "mono.aac"):
            subprocess.run(["ffmpeg", "-y", "-i", FOLDER / "mono16.wav", "-c:a", "aac", FOLDER / name], check=True)


if __name__ == "__main__":
    main()
