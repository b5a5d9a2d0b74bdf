"""The contract of a kernel: the types of its arguments, as its annotations state them.

A parameter is an array of one type, a number, or a group: a NamedTuple of arrays and numbers.
Groups only make the source readable. Each field of a group has its own row in the contract, named
``group.field``, and a kernel is compiled and called with the fields one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias, get_args, get_type_hints

import numpy as np


class ArrayContract(NamedTuple):
    """The requirements of a kernel on an array argument: its element type, and whether the kernel writes to it."""

    dtype: np.dtype[Any]
    writes: bool

    def passed(self, name: str, value: Any) -> Any:
        """Check that an array argument fulfils the kernel's contract, and return it.

        Raises TypeError if it does not.
        """
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype:
            raise TypeError(f"{name}: expected an array of {self.dtype}, got {_kind(value)}")
        flags = value.flags
        if value.ndim != 1 or not flags.c_contiguous or not flags.aligned:
            raise TypeError(f"{name}: expected one dimension without gaps, at an aligned address")
        if self.writes and not flags.writeable:
            raise TypeError(f"{name}: the kernel writes to it, but it is read-only")
        return value

    def guard(self, value: Any) -> Any:
        """Return the array, read-only unless the kernel writes to it, so that plain Python is as strict as compiled code."""
        if self.writes or not value.flags.writeable:
            return value
        view = value.view()
        view.flags.writeable = False
        return view


class NumberContract(NamedTuple):
    """The requirement of a kernel on a number argument: its type, which is bool, int or float."""

    kind: type[Any]

    def passed(self, name: str, value: Any) -> Any:
        """Check that a number argument fulfils the kernel's contract, and convert it to the Python type that the kernel gets.

        Raises TypeError for anything else.
        """
        if type(value) is self.kind:
            return value
        if not isinstance(value, (self.kind, np.integer, np.bool_)):
            raise TypeError(f"{name}: expected {self.kind.__name__}, got {_kind(value)}")
        # A bool passes the test for int. It becomes 0 or 1, as the kernel is compiled for int.
        return self.kind(value)

    def guard(self, value: Any) -> Any:
        """Return the number unchanged: only arrays need a guard."""
        return value


Contract: TypeAlias = dict[str, ArrayContract | NumberContract]


def contract_of(function: Callable[..., Any], writes: tuple[str, ...]) -> Contract:
    """Return the contract of each argument of a kernel, by name. ``writes`` can name a whole group.

    Raises TypeError for an annotation that is neither a number, an array of one type, nor a group of them.
    """
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in _hints(function).items():
        if is_group(hint):
            own = get_type_hints(hint).items()
            fields |= {f"{name}.{field}": (part, name in writes) for field, part in own}
        else:
            fields[name] = (hint, False)
    unknown = set(writes) - set(fields) - set(_hints(function))
    assert not unknown, f"{function.__name__} writes to {unknown}, which it does not take"
    return {
        name: _contract(hint, is_written or name in writes)
        for name, (hint, is_written) in fields.items()
    }


def is_group(hint: Any) -> bool:
    """Return whether a parameter of a kernel is a group: a NamedTuple, whose fields have their own contracts."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def groups_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return for each parameter of a kernel its NamedTuple class if it is a group of arguments, or None."""
    return {name: hint if is_group(hint) else None for name, hint in _hints(function).items()}


def flatten_groups(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """Replace each group in a kernel's arguments by its fields, so that they are in the order of the contract."""
    flat: list[Any] = []
    for argument in arguments:
        # Kernels take arrays and numbers only, so a tuple is always a group.
        if isinstance(argument, tuple):
            flat += argument
        else:
            flat.append(argument)
    return tuple(flat)


def rebuild_groups(flat: Iterable[Any], groups: Iterable[Any]) -> list[Any]:
    """Rebuild the groups from the flat arguments of a contract: the inverse of ``flatten_groups``."""
    values = iter(flat)
    return [
        next(values) if group is None else group(*(next(values) for _ in group._fields))
        for group in groups
    ]


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(function).items() if name != "return"}


def _contract(hint: Any, writes: bool) -> ArrayContract | NumberContract:
    if isinstance(hint, type) and issubclass(hint, (bool, int, float)):
        return NumberContract(hint)
    items = set(_items(hint))
    if len(items) != 1:
        raise TypeError(f"a kernel takes arrays of one type, and numbers; not {hint}")
    return ArrayContract(np.dtype(items.pop()), writes)


def _items(hint: Any) -> Iterator[type[np.generic]]:
    """Yield the scalar types in an annotation.

    How ``NDArray`` nests them depends on the release of numpy.
    """
    if isinstance(hint, type) and issubclass(hint, np.generic):
        yield hint
    for part in get_args(hint):
        yield from _items(part)


def _kind(value: Any) -> str:
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
