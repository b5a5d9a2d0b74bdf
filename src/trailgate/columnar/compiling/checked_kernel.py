"""Check the arguments of every call of a loop against its contract, and choose how the loop runs.

A kernel is a plain function over one-dimensional arrays and numbers, marked with ``@kernel``. Its
annotations are its contract. A kernel of many arrays takes them in groups: a NamedTuple is flattened at
the call, so that the contract still has a row for each array. Compiled code checks neither types nor bounds, so the arguments of
every call are compared with the contract first. A kernel can only write to the arrays that it names
in ``writes``: the others are passed read-only, and code that assigns to them does not compile.

A native loop runs at once. Without one, compiling takes longer than processing a few bytes. So a
process first runs the Python function itself, until a kernel has received ``INTERPRETED`` bytes.
Then numba compiles it. Without numba it stays the Python function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.columnar.compiling.available_loops import (
    INSTALL_NUMBA,
    VARIABLE,
    Loops,
    forced_loops,
    has_numba,
    native_loop,
)
from trailgate.columnar.compiling.contracts import (
    Contract,
    NumberContract,
    contract_of,
    flatten_groups,
    groups_of,
    rebuild_groups,
)
from trailgate.errors import MissingDependencyError

# Bytes of arrays that a kernel processes before it is compiled: some milliseconds.
INTERPRETED: Final = 1 << 16

_LOG: Final = logging.getLogger(__name__)


class CheckedKernel:
    """A compiled loop whose arguments are checked against its contract at each call.

    A native loop is used from the first call. Otherwise the function is compiled after its
    arguments have had more than ``INTERPRETED`` bytes in total.
    """

    def __init__(self, function: Callable[..., Any], writes: tuple[str, ...]) -> None:
        assert isinstance(function, FunctionType)
        self.function, self.writes = function, writes
        self.interpreted = 0  # bytes
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Call the function. Raises TypeError for arguments that violate the contract."""
        native = self.native
        if native is not None:
            try:
                return native(*arguments)
            except TypeError:  # numbers of numpy, which _check converts, or a broken contract
                return native(*self._check(arguments))
        if self._has_groups:
            arguments = flatten_groups(arguments)
        # Few bytes so far: run the Python function.
        if self.interpreted <= INTERPRETED:
            checked = self._check(arguments)
            self.interpreted += sum(getattr(value, "nbytes", 0) for value in checked)
            if self.interpreted <= INTERPRETED:
                return self._as_written(checked)
            return self.compiled(*checked)
        # numba would convert a float to an int without an error, so check the types of numbers here.
        for place, kind in self._numbers:
            if place >= len(arguments) or type(arguments[place]) is not kind:
                return self.compiled(*self._check(arguments))
        try:
            # A compiled function only accepts arrays of its declared types, which are the contract. If it
            # refuses them, _check raises with a clearer message.
            return self.compiled(*arguments)
        except Exception:
            self._check(arguments)
            raise

    def _check(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the arguments in the flat form that the kernel expects.

        Raises TypeError if they violate the contract.
        """
        contract = self._checks
        if self._has_groups:
            arguments = flatten_groups(arguments)
        if len(arguments) != len(contract):
            raise TypeError(f"{self.__name__} takes {len(contract)} arguments")
        return [
            passed(name, value) for (name, passed), value in zip(contract, arguments, strict=True)
        ]

    def _as_written(self, arguments: list[Any]) -> Any:
        rows = self.contract.values()
        guarded = [row.guard(value) for row, value in zip(rows, arguments, strict=True)]
        if self._has_groups:
            guarded = rebuild_groups(guarded, groups_of(self.function).values())
        with np.errstate(over="ignore"):  # integers wrap, as they do in a compiled loop
            result = self.function(*guarded)
        if isinstance(result, tuple):
            return tuple(map(_as_number, result))
        return _as_number(result)

    @cached_property
    def contract(self) -> Contract:
        """Return the contracts of the kernel's arguments, by argument name."""
        return contract_of(self.function, self.writes)

    @cached_property
    def _has_groups(self) -> bool:
        return any(groups_of(self.function).values())

    @cached_property
    def _checks(self) -> tuple[tuple[str, Callable[[str, Any], Any]], ...]:
        return tuple((name, row.passed) for name, row in self.contract.items())

    @cached_property
    def _numbers(self) -> tuple[tuple[int, type[Any]], ...]:
        """Return the positions and types of number arguments, which compiled functions would silently convert."""
        rows = enumerate(self.contract.values())
        return tuple((place, row.kind) for place, row in rows if isinstance(row, NumberContract))

    @cached_property
    def native(self) -> Callable[..., Any] | None:
        """Return the kernel's native loop, or None if it was not built.

        Raises MissingDependencyError if the environment forces native loops.
        """
        forced = forced_loops()
        if forced in {Loops.NUMBA, Loops.PLAIN}:
            return None
        found = native_loop(self.function)
        if found is None and forced is Loops.NATIVE:
            raise MissingDependencyError(
                f"{VARIABLE}=native, but {self.__name__} was not built from the code that is here",
                hint="In a checkout, run: make native",
            )
        return found

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """Return the kernel compiled by numba, or the Python function if numba is not installed."""
        if forced_loops() is Loops.PLAIN or not has_numba():
            _NOTICE.say()
            return lambda *arguments: self._as_written(self._check(arguments))
        from trailgate.columnar.compiling.numba_compiler import (  # noqa: PLC0415  heavy, and not needed for a few bytes
            compile_kernel,
        )

        compiled: Callable[..., Any] = compile_kernel(self.function, self.contract.values())
        return compiled

    def cached(self) -> KernelCacheEntry:
        """Return numba's cache entry of the kernel, after compiling it if necessary."""
        stats = getattr(self.compiled, "stats", None)  # None: plain Python
        hit = stats is None or bool(stats.cache_hits)
        return KernelCacheEntry(hit, None if stats is None else stats.cache_path)


def _as_number(value: Any) -> Any:
    """Convert a numpy scalar to Python's number, which a compiled loop would return."""
    return value.item() if isinstance(value, np.generic) else value


class KernelCacheEntry(NamedTuple):
    """Whether a compiled kernel was in numba's cache, and the folder of the cache if there is one."""

    hit: bool
    folder: str | None


class _Notice:
    """Warns once per process that loops are not compiled, because they then take a hundred times as long."""

    def __init__(self) -> None:
        self.noted = False

    def say(self) -> None:
        """Log the warning, unless it was logged before, or the environment asks for plain Python."""
        if not self.noted and forced_loops() is not Loops.PLAIN:
            _LOG.warning(
                "loops run as plain Python, which is slow: numba is not installed. %s",
                INSTALL_NUMBA,
            )
        self.noted = True


_NOTICE: Final = _Notice()


def kernel(*, writes: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], CheckedKernel]:
    """Decorate a function as a kernel, whose arguments are checked at each call. ``writes`` names the arrays that it fills."""

    def decorate(function: Callable[..., Any]) -> CheckedKernel:
        return CheckedKernel(function, writes)

    return decorate
