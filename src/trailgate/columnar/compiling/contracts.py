"""The contract of a kernel: the types of its arguments, as its annotations state them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, get_args, get_type_hints

import numpy as np


class ArrayContract(NamedTuple):
    """The contract of an array argument."""

    dtype: np.dtype[Any]
    writes: bool

    def passed(self, name: str, value: Any) -> Any:
        """Return the array as the kernel gets it. Raises TypeError if it breaks the contract."""
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype:
            raise TypeError(f"{name}: expected an array of {self.dtype}, got {_kind(value)}")
        flags = value.flags
        if value.ndim != 1 or not flags.c_contiguous or not flags.aligned:
            raise TypeError(f"{name}: expected one dimension without gaps, at an aligned address")
        if self.writes and not flags.writeable:
            raise TypeError(f"{name}: the kernel writes to it, and it is read-only")
        return value

    def guard(self, value: Any) -> Any:
        """Return the array, read-only unless the kernel writes to it, as compiled code would treat it."""
        if self.writes or not value.flags.writeable:
            return value
        view = value.view()
        view.flags.writeable = False
        return view


class NumberContract(NamedTuple):
    """The contract of a number argument."""

    kind: type[Any]

    def passed(self, name: str, value: Any) -> Any:
        """Return the number. Raises TypeError for anything else."""
        if type(value) is self.kind:
            return value
        if not isinstance(value, (self.kind, np.integer, np.bool_)):
            raise TypeError(f"{name}: expected {self.kind.__name__}, got {_kind(value)}")
        return self.kind(value)

    def guard(self, value: Any) -> Any:
        """Return the number; numbers need no guard."""
        return value


Contract: TypeAlias = dict[str, ArrayContract | NumberContract]


def contract_of(function: Callable[..., Any], writes: tuple[str, ...]) -> Contract:
    """Return the contract of each argument of a function, by its name.

    Raises TypeError for an annotation that is neither a number nor an array of one type.
    """
    hints = get_type_hints(function)
    hints.pop("return", None)
    unknown = set(writes) - set(hints)
    assert not unknown, f"{function.__name__} writes to {unknown}, which it does not take"
    return {name: _contract(hint, name in writes) for name, hint in hints.items()}


def _contract(hint: Any, writes: bool) -> ArrayContract | NumberContract:
    if isinstance(hint, type) and issubclass(hint, (bool, int, float)):
        return NumberContract(hint)
    items = set(_items(hint))
    if len(items) != 1:
        raise TypeError(f"a kernel takes arrays of one type, and numbers; not {hint}")
    return ArrayContract(np.dtype(items.pop()), writes)


def _items(hint: Any) -> Iterator[type[np.generic]]:
    """Yield the scalar types in an annotation. Releases of numpy nest them in ``NDArray`` differently."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        yield hint
    for part in get_args(hint):
        yield from _items(part)


def _kind(value: Any) -> str:
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
