"""Compile kernels with numba, and keep the compiled code on disk for other processes.

numba keeps it beside the kernel's module, in ``NUMBA_CACHE_DIR``, or in the user's cache folder. If
none of them can be written, every process compiles it again. numba's cache only compares the
kernel's own file, so the name of a kernel there ends with its fingerprint: it is compiled again if a
function that it calls or a constant has changed, in whatever file.

The cached function is a small entry function, which calls the kernel's code as a numba overload.
numba asks for the code of an overload only if the entry function is not in the cache. So a process
that finds its loops in the cache does not read and rewrite their sources.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType, MappingProxyType
from typing import Any, Final

import numba
from numba.extending import overload

from trailgate.columnar.compiling import llvm_code
from trailgate.columnar.compiling.contracts import ArrayContract, NumberContract, groups_of
from trailgate.columnar.compiling.indexes import with_unsigned_indexes
from trailgate.columnar.compiling.inner_functions import (
    called_inner_functions,
    fingerprint,
    has_llvm_code,
)

# Kernels allocate nothing, so numba need not count references to arrays (_nrt). It does that with atomic
# operations wherever a loop calls another function, which made some loops seven times as slow.
OPTIONS: Final = MappingProxyType({"nogil": True, "error_model": "numpy", "_nrt": False})
_LOG: Final = logging.getLogger(__name__)
KEPT: Final = "kept for the next time"
NOT_KEPT: Final = f"not kept, since neither {__file__.rpartition('/columnar/')[0]} nor the user's cache folder can be written. Set NUMBA_CACHE_DIR to a folder that can"
_BODY: Final = "_body_of_the_kernel"
# The types of numbers that kernels take, as they are annotated, and numba's types for them.
_NUMBERS: Final = MappingProxyType({bool: numba.boolean, int: numba.int64, float: numba.float64})


def compile_kernel(
    function: FunctionType, contract: Iterable[ArrayContract | NumberContract]
) -> Any:
    """Compile a kernel with numba for the types in its contract, or load it from numba's cache."""
    entry = _entry(function)
    try:
        dispatcher = numba.njit(cache=True, **OPTIONS)(entry)
    except RuntimeError:  # no folder for the cache can be written
        dispatcher = numba.njit(**OPTIONS)(entry)
    dispatcher.compile(numba_signature(contract))
    dispatcher.disable_compile()
    if not dispatcher.stats.cache_hits:
        NOTICE.say(kept=dispatcher.stats.cache_path is not None)
    return dispatcher


def numba_signature(contract: Iterable[ArrayContract | NumberContract]) -> tuple[Any, ...]:
    """Return the signature that numba compiles a kernel for: numba's types of the arguments in its contract."""
    return tuple(map(_type, contract))


def _type(row: ArrayContract | NumberContract) -> Any:
    if isinstance(row, NumberContract):
        return _NUMBERS[row.kind]
    return numba.types.Array(numba.from_dtype(row.dtype), 1, "C", readonly=not row.writes)


def compilable(function: FunctionType) -> FunctionType:
    """Rewrite a function for numba: with unsigned indexes, calling compiled inner functions."""
    compiled = {
        name: _compiled_inner(value) for name, value in called_inner_functions(function).items()
    }
    return with_unsigned_indexes(function, compiled)


def compilable_kernel(function: FunctionType) -> FunctionType:
    """Rewrite a kernel to the function that numba compiles, with flat arguments instead of groups."""
    if not any(groups_of(function).values()):
        return compilable(function)
    return _with_flat_arguments(function, numba.njit(**_inlined())(compilable(function)))


@cache
def _compiled_inner(function: FunctionType) -> Any:
    if has_llvm_code(function) and not numba.config.BOUNDSCHECK:
        return getattr(llvm_code, function.__name__)
    return numba.njit(**_inlined())(compilable(function))


def _inlined() -> dict[str, Any]:
    """Return numba's options for functions that are inlined into their callers.

    With bounds checks their code is too large for that, so they are not inlined.
    """
    return {**OPTIONS, "forceinline": not numba.config.BOUNDSCHECK}


def _entry(function: FunctionType) -> FunctionType:
    """Return a kernel's entry function for numba's cache, which calls the kernel's code.

    Its qualified name ends with the fingerprint.
    """

    def body(*_arguments: Any) -> None:
        """Stand for the code of the kernel."""

    def code_of_body(*_types: Any) -> Callable[..., Any]:
        return compilable(function)

    overload(body, jit_options=_inlined(), strict=False)(code_of_body)
    entry = _with_flat_arguments(function, body)
    checked = "checked-" if numba.config.BOUNDSCHECK else ""
    entry.__name__, entry.__module__ = function.__name__, function.__module__
    entry.__qualname__ = f"{function.__qualname__}-{checked}{fingerprint(function)}"
    return entry


def _with_flat_arguments(function: FunctionType, body: Callable[..., Any]) -> FunctionType:
    """Return a function that takes the kernel's arrays and numbers one by one, and calls the body with groups.

    For a kernel of a group and a number it is ``def entry(rows__starts, rows__ends, width): return
    body(rows(rows__starts, rows__ends), width)``. The groups cost nothing: once the body is inlined, LLVM
    sees only their fields.
    """
    groups = groups_of(function)
    flat: list[str] = []
    passed: list[str] = []
    for name, group in groups.items():
        own = [f"{name}__{field}" for field in group._fields] if group else [name]
        flat += own
        passed.append(f"{name}({', '.join(own)})" if group else name)
    code = function.__code__
    # The lines before it: numba states where a function is. No argument has the name of the body.
    before = "\n" * (code.co_firstlineno - 1)
    text = f"{before}def entry({', '.join(flat)}): return {_BODY}({', '.join(passed)})"
    defined: dict[str, Any] = {}
    exec(compile(text, code.co_filename, "exec"), {**groups, _BODY: body}, defined)  # noqa: S102  names of arguments
    entry: FunctionType = defined["entry"]
    return entry


class _Notice:
    """Logs once per process that loops are being compiled, since that takes seconds."""

    def __init__(self) -> None:
        self.noted = False

    def say(self, *, kept: bool) -> None:
        """Log the line unless it was logged before. ``kept``: the compiled loops are kept for other processes."""
        if not self.noted:
            _LOG.info("compiling loops for this machine; they are %s", KEPT if kept else NOT_KEPT)
        self.noted = True


NOTICE: Final = _Notice()
