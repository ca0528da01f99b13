"""Forebay: input data processing as a service for machine learning.

    >>> import forebay as fb
    >>> ds = fb.range(8).shuffle().with_column("x", fb.col("id") * 2 + 1).batch(4)
    >>> sorted(int(x) for batch in ds.iter(seed=7) for x in batch["x"])
    [1, 3, 5, 7, 9, 11, 13, 15]

You write a pipeline once. It runs in this process (`ds.iter()`), on a service on this machine (`fb.up()`), or on a
fleet (`fb.connect()`), and yields the same batches, bit for bit, in the same order.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay import cluster as cluster
    from forebay import ray as ray
    from forebay._src.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Loads the public names when one of them is first used; says what to write for names of other libraries."""
        # `from forebay import _native` asks for an attribute before it imports the module.
        if name.startswith("_") and name not in ("__all__", "__version__"):
            raise AttributeError(f"forebay has no {name}")
        # A module of the package may import one of these while `public` is loading.
        if name in ("callbacks", "cluster", "errors", "examples", "ray"):
            import importlib

            return importlib.import_module(f"forebay.{name}")
        from forebay._src import habits, habits_formats, public

        # While `public` is loading it has no `__all__`, and imports modules of this package.
        names = getattr(public, "__all__", [])
        for each in names:
            globals().setdefault(each, getattr(public, each))
        if hasattr(public, name):
            return getattr(public, name)
        raise habits.missing("forebay", name, {**habits.FUNCTIONS, **habits.READERS, **habits_formats.FORMATS}, names)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__"), "cluster", "ray"})
