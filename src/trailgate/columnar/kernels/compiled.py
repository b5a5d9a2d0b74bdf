"""How loops are compiled and called: numba, and one contract that every call is checked against.

A kernel is a plain function over one-dimensional arrays and numbers. Its annotations are its contract: a compiled
loop checks no types and no bounds, so the arrays of every call are compared with them first. A kernel cannot write into an array
that it does not name in ``writes``: those are passed read-only, and code that assigns to them does not compile.

The first few bytes that a kernel gets in a process are worked on by the function as it is written: compiling it takes longer than that. With more
of them it is compiled, and kept on disk for the next process: beside its module, in ``NUMBA_CACHE_DIR``, or in the
user's cache folder; where none of these can be written it is compiled in each process. It is compiled again where the kernel, a function that it
calls (``inner``) or a constant has changed, in whatever file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import numpy as np

INTERPRETED: Final = (
    1 << 16
)  # bytes of arrays that a kernel works on before it is compiled: some milliseconds

# Kernels allocate nothing, so numba need not count references to arrays: atomic operations in
# the middle of a loop, wherever it calls another function, which made some loops 7 times as slow.
_OPTIONS: Final = MappingProxyType({"nogil": True, "error_model": "numpy", "_nrt": False})
_LOG: Final = logging.getLogger(__name__)
KEPT: Final = "kept for the next time"
NOT_KEPT: Final = f"not kept, since neither {__file__.rpartition('/columnar/')[0]} nor the user's cache folder can be written. Set NUMBA_CACHE_DIR to a folder that can"


class _Array(NamedTuple):
    """What an array argument has to be."""

    dtype: np.dtype[Any]
    writes: bool

    def passed(self, name: str, value: Any) -> Any:
        """Return the array as the kernel gets it; raises TypeError where it breaks the contract."""
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype:
            raise TypeError(f"{name}: expected an array of {self.dtype}, got {_kind(value)}")
        flags = value.flags
        if value.ndim != 1 or not flags.c_contiguous or not flags.aligned:
            raise TypeError(f"{name}: expected one dimension without gaps, at an aligned address")
        if self.writes and not flags.writeable:
            raise TypeError(f"{name}: the kernel writes to it, and it is read-only")
        return value

    def guard(self, value: Any) -> Any:
        """Return the array so that only a kernel that names it can write to it, as a compiled one could."""
        if self.writes or not value.flags.writeable:
            return value
        view = value.view()
        view.flags.writeable = False
        return view

    @property
    def type(self) -> Any:
        """Return numba's type."""
        import numba  # noqa: PLC0415  heavy, and not needed for a few bytes

        base = numba.from_dtype(self.dtype)
        return numba.types.Array(base, 1, "C", readonly=not self.writes)


class _Scalar(NamedTuple):
    """What a number argument has to be."""

    kind: type[Any]

    def passed(self, name: str, value: Any) -> Any:
        """Return the number; raises TypeError for anything else."""
        if type(value) is self.kind:
            return value
        if not isinstance(value, (self.kind, np.integer, np.bool_)):
            raise TypeError(f"{name}: expected {self.kind.__name__}, got {_kind(value)}")
        return self.kind(value)

    def guard(self, value: Any) -> Any:
        """Return the number."""
        return value

    @property
    def type(self) -> Any:
        """Return numba's type."""
        import numba  # noqa: PLC0415  as above

        return {bool: numba.boolean, int: numba.int64, float: numba.float64}[self.kind]


def _kind(value: Any) -> str:
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that kernels call; compiled, its code becomes part of theirs."""
    setattr(function, _MARK, False)
    return function


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an inner function that is compiled to the one of its name in ``instructions``, not to its own loop."""
    setattr(function, _MARK, True)
    return function


_MARK: Final = "_is_instruction"


@cache
def _compiled_inner(function: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415  as above

    if getattr(function, _MARK) and not numba.config.BOUNDSCHECK:
        from trailgate.columnar.kernels import compiler as instructions  # noqa: PLC0415  as above

        return getattr(instructions, function.__name__)
    inlined = not numba.config.BOUNDSCHECK  # code with its bounds checked is too large for that
    options = {**_OPTIONS, **_compiler()}
    return numba.njit(forceinline=inlined, **options)(_calling_compiled(function))


def _compiler() -> dict[str, Any]:
    from trailgate.columnar.kernels.compiler import KernelCompiler  # noqa: PLC0415  as above

    return {"pipeline_class": KernelCompiler}


def _calling_compiled(function: Callable[..., Any]) -> FunctionType:
    """Return the function with compiled forms of the inner functions that it calls."""
    assert isinstance(function, FunctionType)
    named = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    called = {name: _compiled_inner(value) for name, value in named if hasattr(value, _MARK)}
    if not called:
        return function
    known = {**function.__globals__, **called}
    bound = FunctionType(function.__code__, known, function.__name__, function.__defaults__)
    bound.__module__, bound.__qualname__ = function.__module__, function.__qualname__
    return bound


class Kernel:
    """A function whose arguments are checked at each call; it is compiled once they had more than ``INTERPRETED`` bytes in all."""

    def __init__(self, function: Callable[..., Any], writes: tuple[str, ...]) -> None:
        self.function, self.writes = function, writes
        self.interpreted = 0  # bytes
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns; raises TypeError for arguments against the contract."""
        if self.interpreted <= INTERPRETED:
            checked = self._check(arguments)
            self.interpreted += sum(getattr(value, "nbytes", 0) for value in checked)
            if self.interpreted <= INTERPRETED:
                return self._as_written(checked)
            return self.compiled(*checked)
        for place, kind in self._numbers:
            if place >= len(arguments) or type(arguments[place]) is not kind:
                return self.compiled(*self._check(arguments))
        try:
            # The compiled function takes arrays of its own types alone: the contract is in these.
            return self.compiled(*arguments)
        except Exception:
            self._check(arguments)
            raise

    def _check(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the arguments as the kernel gets them; raises TypeError where they break the contract."""
        contract = self._checks
        if len(arguments) != len(contract):
            raise TypeError(f"{self.__name__} takes {len(contract)} arguments")
        return [
            passed(name, value) for (name, passed), value in zip(contract, arguments, strict=True)
        ]

    def _as_written(self, arguments: list[Any]) -> Any:
        rows = self.contract.values()
        guarded = [row.guard(value) for row, value in zip(rows, arguments, strict=True)]
        with np.errstate(over="ignore"):  # numbers wrap, as they do in a compiled loop
            found = self.function(*guarded)
        if isinstance(found, tuple):
            return tuple(map(_as_number, found))
        return _as_number(found)

    @cached_property
    def contract(self) -> dict[str, _Array | _Scalar]:
        """Return what each argument has to be, by its name."""
        hints = get_type_hints(self.function)
        hints.pop("return", None)
        unknown = set(self.writes) - set(hints)
        assert not unknown, f"{self.__name__} writes to {unknown}, which it does not take"
        return {name: _contract(hint, name in self.writes) for name, hint in hints.items()}

    @cached_property
    def _checks(self) -> tuple[tuple[str, Callable[[str, Any], Any]], ...]:
        return tuple((name, row.passed) for name, row in self.contract.items())

    @cached_property
    def _numbers(self) -> tuple[tuple[int, type[Any]], ...]:
        """Return the places of number arguments, which the compiled function would convert, and their kinds."""
        rows = enumerate(self.contract.values())
        return tuple((place, row.kind) for place, row in rows if isinstance(row, _Scalar))

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """Return the compiled function: from the cache, or compiled now."""
        import numba  # noqa: PLC0415  as above

        if numba.config.DISABLE_JIT:
            return lambda *arguments: self._as_written(self._check(arguments))
        dispatcher = _jit(_calling_compiled(self.function), self.function)
        dispatcher.compile(tuple(row.type for row in self.contract.values()))
        dispatcher.disable_compile()
        if not dispatcher.stats.cache_hits:
            _NOTICE.say(kept=dispatcher.stats.cache_path is not None)
        compiled: Callable[..., Any] = dispatcher
        return compiled

    def cached(self) -> Cached:
        """Return where the compiled function is kept, compiling it where it is not there."""
        stats = getattr(self.compiled, "stats", None)  # None: NUMBA_DISABLE_JIT
        hit = stats is None or bool(stats.cache_hits)
        return Cached(hit, None if stats is None else stats.cache_path)


def _as_number(value: Any) -> Any:
    """Return Python's number for numpy's, as a compiled loop returns it."""
    return value.item() if isinstance(value, np.generic) else value


class Cached(NamedTuple):
    """Whether a compiled function was in the cache, and the cache's folder if there is one."""

    hit: bool
    folder: str | None


def _contract(hint: Any, writes: bool) -> _Array | _Scalar:
    if isinstance(hint, type) and issubclass(hint, (bool, int, float)):
        return _Scalar(hint)
    items = set(_items(hint))
    if len(items) != 1:
        raise TypeError(f"a kernel takes arrays of one type, and numbers; not {hint}")
    return _Array(np.dtype(items.pop()), writes)


def _items(hint: Any) -> Iterator[type[np.generic]]:
    """Return the scalar types that an annotation names: releases of numpy nest them in ``NDArray`` differently."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        yield hint
    for part in get_args(hint):
        yield from _items(part)


def _jit(function: FunctionType, written: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415  as above

    from trailgate.columnar.kernels.compiler import fingerprint  # noqa: PLC0415  as above

    # numba keeps compiled code in files named by the function: a name that changes with what the code is made of is never that of older code.
    kept = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    kept.__module__ = function.__module__
    kept.__qualname__ = f"{function.__qualname__}-{fingerprint(written, _MARK)[:16]}"
    options = {**_OPTIONS, **_compiler()}
    try:
        return numba.njit(cache=True, **options)(kept)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(**options)(kept)


class _Notice:
    """Logs once a process that loops are compiled, since that takes seconds."""

    def __init__(self) -> None:
        self.noted = False

    def say(self, *, kept: bool) -> None:
        """Log the line, if that was not done yet."""
        if not self.noted:
            _LOG.info("compiling loops for this machine; they are %s", KEPT if kept else NOT_KEPT)
        self.noted = True


_NOTICE: Final = _Notice()


def kernel(*, writes: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a kernel; ``writes`` names the arrays that it fills."""

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, writes)

    return decorate
