"""The functions that kernels call, and a fingerprint of all code that a kernel consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any, Final

from trailgate.columnar.compiling.contracts import is_group

# All inner functions have this attribute. It is True for those with LLVM code.
_MARK: Final = "_is_instruction"
# A change of these modules can change the code that a kernel is compiled to.
_COMPILER: Final = ("indexes.py", "llvm_code.py", "numba_compiler.py")
_CONSTANTS: Final = (bool, int, float, str, bytes, tuple)


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an inner function, which kernels call. Its code is inlined when a kernel is compiled."""
    setattr(function, _MARK, False)
    return function


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an inner function that compiled kernels replace by a few machine instructions.

    The instructions are the function of the same name in ``llvm_code.py``; this one is used when a
    kernel runs as plain Python.
    """
    setattr(function, _MARK, True)
    return function


def has_llvm_code(function: Callable[..., Any]) -> bool:
    """Return whether an inner function is marked as ``instruction``, so that ``llvm_code`` has a function of its name."""
    return bool(getattr(function, _MARK))


def called_inner_functions(function: FunctionType) -> dict[str, FunctionType]:
    """Return the inner functions that a kernel calls, by the names in its code."""
    names, known = function.__code__.co_names, function.__globals__
    named: Iterator[tuple[str, Any]] = ((name, known.get(name)) for name in names)
    return {name: value for name, value in named if hasattr(value, _MARK)}


def fingerprint(function: FunctionType) -> str:
    """Return a digest of everything that a kernel is compiled from: its code and that of all inner functions that it calls.

    This includes the kernel, the inner functions that it calls, the constants that they name, the
    fields of the groups that they use, and the modules that compile it. The bytecode is part of it,
    so each Python version has its own fingerprints.
    """
    from hashlib import sha256  # noqa: PLC0415  slow to import, and not needed by a wheel

    digest = sha256(_compiler())
    # Sorted, because the order of a set of strings differs between processes.
    for part in sorted(set(_parts(function, set()))):
        digest.update(part.encode())
    return digest.hexdigest()[:16]


@cache
def _compiler() -> bytes:
    from pkgutil import get_data  # noqa: PLC0415  as above

    sources = (get_data(__package__, name) for name in _COMPILER)
    return b"".join(source or b"" for source in sources)


def _parts(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    code, parts = function.__code__, called_inner_functions(function)
    yield repr((code.co_code, code.co_consts, code.co_names, code.co_varnames))
    # Annotations name the groups. In a module with ``from __future__ import annotations`` they are
    # strings, which are looked up like the names in the code.
    for name in (*code.co_names, *function.__annotations__.values()):
        value: Any = function.__globals__.get(name) if isinstance(name, str) else name
        if name in parts:
            yield from _parts(parts[name], seen)
        elif isinstance(value, _CONSTANTS):
            yield repr((name, value))
        elif is_group(value):
            yield repr((value.__name__, value._fields))
