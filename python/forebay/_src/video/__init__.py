"""Video: clips of files, decoded by FFmpeg through PyAV, an optional extra."""
