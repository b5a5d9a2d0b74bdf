"""Compile loops with numba, and check the arguments of every call against the loop's contract.

A kernel is a plain function over one-dimensional arrays and numbers, marked with ``@kernel``. Its
annotations are its contract. Compiled code checks neither types nor bounds, so the arguments of
every call are compared with the contract first. A kernel can only write to the arrays that it names
in ``writes``: the others are passed read-only, and code that assigns to them does not compile.

Compiling takes longer than processing a few bytes. So a process first runs the Python function
itself, until a kernel has received ``INTERPRETED`` bytes. Then the kernel is compiled and stored on
disk for other processes: beside its module, in ``NUMBA_CACHE_DIR``, or in the user's cache folder.
If none of them is writable, every process compiles it again. A kernel is recompiled if it, a
function that it calls (``inner``) or a constant has changed, in whatever file.
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
)  # bytes of arrays that a kernel processes before it is compiled: some milliseconds

# Kernels allocate nothing, so numba need not count references to arrays (_nrt). It does that with atomic
# operations wherever a loop calls another function, which made some loops seven times as slow.
_OPTIONS: Final = MappingProxyType({"nogil": True, "error_model": "numpy", "_nrt": False})
_LOG: Final = logging.getLogger(__name__)
KEPT: Final = "kept for the next time"
NOT_KEPT: Final = f"not kept, since neither {__file__.rpartition('/columnar/')[0]} nor the user's cache folder can be written. Set NUMBA_CACHE_DIR to a folder that can"

_MARK: Final = "_is_instruction"


class _Array(NamedTuple):
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

    @property
    def type(self) -> Any:
        """Return numba's type for the array."""
        import numba  # noqa: PLC0415  heavy, and not needed for a few bytes

        base = numba.from_dtype(self.dtype)
        return numba.types.Array(base, 1, "C", readonly=not self.writes)


class _Scalar(NamedTuple):
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

    @property
    def type(self) -> Any:
        """Return numba's type for the number."""
        import numba  # noqa: PLC0415  as above

        return {bool: numba.boolean, int: numba.int64, float: numba.float64}[self.kind]


def _kind(value: Any) -> str:
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that kernels call. Its compiled code is inlined into theirs."""
    setattr(function, _MARK, False)
    return function


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an inner function that is replaced by the function of its name in ``compiler`` when compiled."""
    setattr(function, _MARK, True)
    return function


@cache
def _compiled_inner(function: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415  as above

    if getattr(function, _MARK) and not numba.config.BOUNDSCHECK:
        from trailgate.columnar.kernels import compiler as instructions  # noqa: PLC0415  as above

        return getattr(instructions, function.__name__)
    inlined = not numba.config.BOUNDSCHECK  # code with bounds checks is too large to inline
    options = {**_OPTIONS, **_compiler()}
    return numba.njit(forceinline=inlined, **options)(_calling_compiled(function))


def _compiler() -> dict[str, Any]:
    from trailgate.columnar.kernels.compiler import KernelCompiler  # noqa: PLC0415  as above

    return {"pipeline_class": KernelCompiler}


def _calling_compiled(function: Callable[..., Any]) -> FunctionType:
    """Return the function, with the inner functions that it calls replaced by compiled ones."""
    assert isinstance(function, FunctionType)
    named = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    called = {name: _compiled_inner(value) for name, value in named if hasattr(value, _MARK)}
    if not called:
        return function
    known = {**function.__globals__, **called}
    bound = FunctionType(function.__code__, known, function.__name__, function.__defaults__)
    bound.__module__, bound.__qualname__ = function.__module__, function.__qualname__
    return bound


class CheckedKernel:
    """A function whose arguments are checked at each call.

    It is compiled once its arguments had more than ``INTERPRETED`` bytes in total.
    """

    def __init__(self, function: Callable[..., Any], writes: tuple[str, ...]) -> None:
        self.function, self.writes = function, writes
        self.interpreted = 0  # bytes
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Call the function. Raises TypeError for arguments that break the contract."""
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
        """Return the arguments as the kernel gets them. Raises TypeError if they break the contract."""
        contract = self._checks
        if len(arguments) != len(contract):
            raise TypeError(f"{self.__name__} takes {len(contract)} arguments")
        return [
            passed(name, value) for (name, passed), value in zip(contract, arguments, strict=True)
        ]

    def _as_written(self, arguments: list[Any]) -> Any:
        rows = self.contract.values()
        guarded = [row.guard(value) for row, value in zip(rows, arguments, strict=True)]
        with np.errstate(over="ignore"):  # integers wrap, as they do in a compiled loop
            result = self.function(*guarded)
        if isinstance(result, tuple):
            return tuple(map(_as_number, result))
        return _as_number(result)

    @cached_property
    def contract(self) -> dict[str, _Array | _Scalar]:
        """Return the contract of each argument, by its name."""
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
        """Return the positions and types of number arguments, which compiled functions would silently convert."""
        rows = enumerate(self.contract.values())
        return tuple((place, row.kind) for place, row in rows if isinstance(row, _Scalar))

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """Return the compiled function, from the cache or compiled now."""
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

    def cached(self) -> KernelCacheEntry:
        """Return where the compiled function is cached, after compiling it if necessary."""
        stats = getattr(self.compiled, "stats", None)  # None: NUMBA_DISABLE_JIT
        hit = stats is None or bool(stats.cache_hits)
        return KernelCacheEntry(hit, None if stats is None else stats.cache_path)


def _as_number(value: Any) -> Any:
    """Convert a numpy scalar to Python's number, which a compiled loop would return."""
    return value.item() if isinstance(value, np.generic) else value


class KernelCacheEntry(NamedTuple):
    """Whether a compiled function was in the cache, and the folder of the cache if there is one."""

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
    """Yield the scalar types in an annotation. Releases of numpy nest them in ``NDArray`` differently."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        yield hint
    for part in get_args(hint):
        yield from _items(part)


def _jit(function: FunctionType, written: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415  as above

    from trailgate.columnar.kernels.compiler import fingerprint  # noqa: PLC0415  as above

    # numba names the files of its cache after the function. It only notices changes of the function's own file,
    # so the name ends with a fingerprint of all code that the kernel consists of.
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
    """Logs once per process that loops are being compiled, since that takes seconds."""

    def __init__(self) -> None:
        self.noted = False

    def say(self, *, kept: bool) -> None:
        """Log the line unless it was logged before."""
        if not self.noted:
            _LOG.info("compiling loops for this machine; they are %s", KEPT if kept else NOT_KEPT)
        self.noted = True


_NOTICE: Final = _Notice()


def kernel(*, writes: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], CheckedKernel]:
    """Return a decorator that makes a kernel. ``writes`` names the arrays that it fills."""

    def decorate(function: Callable[..., Any]) -> CheckedKernel:
        return CheckedKernel(function, writes)

    return decorate
