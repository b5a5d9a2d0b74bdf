"""Compare the ways in which loops run, on the calls that tests make: native code of each level, numba's, and plain Python.

With ``TRAILGATE_COMPARED=1`` (``make test-kernels``) the first calls of each kernel in a process run in every way that is
present, each on a copy of the arguments. Results, their types and all arrays must be the same, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from trailgate.columnar.compiling import CheckedKernel
from trailgate.columnar.compiling.available_loops import extension, has_numba
from trailgate.columnar.compiling.contracts import flatten_groups
from trailgate.columnar.compiling.inner_functions import fingerprint

CALLS: Final = 30  # of each kernel in a process
MOST: Final = 8192  # bytes of a call that plain Python repeats
Loop = Callable[..., Any]


def ways_of(kernel: CheckedKernel, *, with_numba: bool = True) -> Iterator[tuple[str, Loop]]:
    """Yield each way to run a kernel: plain Python first."""
    yield "plain", lambda *arguments: kernel._as_written(kernel._check(arguments))
    if with_numba and has_numba():
        from trailgate.columnar.compiling.numba_compiler import compile_kernel  # noqa: PLC0415  heavy

        yield "numba", compile_kernel(kernel.function, kernel.contract.values())
    loops = extension()
    for level in loops.levels if loops else ():
        found = loops.find(f"{kernel.function.__module__}.{kernel.__name__}", level)
        if runs_here(level) and found and found[0] == fingerprint(kernel.function):
            yield level, found[1]


def runs_here(level: str) -> bool:
    """Return whether this processor has a level's instructions: those of the best level, and of those before it."""
    loops = extension()
    return bool(loops.levels.index(level) <= loops.levels.index(loops.level))


def outcome(loop: Loop, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return all that a call gives: its result, with the types in it, and the bytes of each array after it."""
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    result = loop(*copies)
    types = tuple(map(type, result)) if isinstance(result, tuple) else type(result)
    arrays = tuple(value.tobytes() for value in copies if isinstance(value, np.ndarray))
    return repr(result), types, arrays


def compare(name: str, ways: dict[str, Loop], arguments: tuple[Any, ...]) -> None:
    """Run a call in each way. Raises AssertionError if one differs from the first one."""
    first, *others = ways
    expected = outcome(ways[first], arguments)
    for other in others:
        found = outcome(ways[other], arguments)
        assert found == expected, f"{name}: {other} differs from {first}"


def compare_calls() -> None:
    """Compare the calls of all kernels in this process from now on."""
    run_as_usual = CheckedKernel.__call__
    calls: Counter[CheckedKernel] = Counter()
    ways: dict[CheckedKernel, dict[str, Loop]] = {}

    def compared(kernel: CheckedKernel, *arguments: Any) -> Any:
        size = sum(getattr(value, "nbytes", 0) for value in flatten_groups(arguments))
        # Tests define kernels too, and break some of them on purpose.
        ours = kernel.function.__module__.startswith("trailgate.")
        if ours and size <= MOST and calls[kernel] < CALLS:
            calls[kernel] += 1
            if kernel not in ways:
                ways[kernel] = dict(ways_of(kernel))
            compare(kernel.__name__, ways[kernel], tuple(kernel._check(arguments)))
        return run_as_usual(kernel, *arguments)

    setattr(CheckedKernel, "__call__", compared)  # noqa: B010  a method to all but this run
