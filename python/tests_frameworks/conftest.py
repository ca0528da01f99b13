"""Variables that libraries read when they are imported, and a service."""

import os

import pytest

# JAX shows four devices on the processor, also where there is another device.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("KERAS_BACKEND", "jax")


@pytest.fixture(scope="module")
def service():
    import forebay as fb

    with fb.up(workers=1) as service:
        yield service
