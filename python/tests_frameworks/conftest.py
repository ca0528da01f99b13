"""Variables that libraries read when they are imported."""

import os

# JAX shows four devices on the processor.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("KERAS_BACKEND", "jax")
