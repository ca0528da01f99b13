"""Wraps users' data sets and generators, so that every item is a dictionary of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol


class MapDataset(Protocol):
    """An object with a length and items, as `torch.utils.data.Dataset`."""

    def __len__(self) -> int:
        """Returns the number of items."""

    def __getitem__(self, index: int, /) -> Any:
        """Returns an item."""


def to_columns(item: Any, names: Sequence[str] | None) -> Any:
    """Returns an item as a dictionary: parts of a tuple get the names (or numbers), a single value is `value`.

    >>> to_columns((1, "a"), ["x", "y"])
    {'x': 1, 'y': 'a'}
    >>> to_columns(7, None)
    {'value': 7}
    """
    if isinstance(item, Mapping):
        return item
    if isinstance(item, (tuple, list)):
        names = names or [str(i) for i in range(len(item))]
        if len(names) != len(item):
            raise ValueError(f"an item has {len(item)} parts, and columns= names {len(names)}")
        return dict(zip(names, item, strict=True))
    return {names[0] if names else "value": item}


class Items:
    """A map data set whose items are dictionaries."""

    def __init__(self, dataset: MapDataset, names: Sequence[str] | None) -> None:
        self.dataset, self.names = dataset, names

    def __len__(self) -> int:
        """Returns the number of items."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """Returns an item."""
        return to_columns(self.dataset[index], self.names)


class Generator:
    """A function that returns an iterator of dictionaries."""

    def __init__(self, function: Callable[[], Iterable[Any]], names: Sequence[str] | None) -> None:
        self.function, self.names = function, names

    def __call__(self) -> Iterator[Any]:
        """Starts from the beginning."""
        return (to_columns(item, self.names) for item in self.function())
