"""A mapping that is a value and grows in constant time: a longer one shares the items of the one it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class GrowingMap(Mapping[Key, Value]):
    """A mapping that does not change; ``with_item`` returns a longer one.

    Mappings share one dictionary, each the items up to its own size. Only the longest of them, which has all of its items,
    adds to it; the others copy what they have.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        self._items = {key: (i, value) for i, (key, value) in enumerate((items or {}).items())}
        self._size = len(self._items)

    def with_item(self, key: Key, value: Value) -> GrowingMap[Key, Value]:
        """Return these items and another one, which replaces one of the same key."""
        items = self._items
        # The empty one is shared by all readers of a process, so it is copied as well.
        if not items or len(items) != self._size or key in items:
            items = dict(islice(items.items(), self._size))
        place, _ = items.get(key, (len(items), value))
        items[key] = (place, value)
        found = GrowingMap[Key, Value]()
        found._items, found._size = items, len(items)
        return found

    def __getitem__(self, key: Key) -> Value:
        place, value = self._items[key]
        if place >= self._size:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[Key]:
        return iter([*islice(self._items, self._size)])

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[object, ...]:
        return GrowingMap, (dict(self),)
