"""What the code of a compiled kernel is made of: numba's cache on disk compares the kernel's own file alone."""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any, Final

import numba

_KERNELS: Final = "trailgate.columnar.kernels"
_COMPILER: Final = ("compiled.py", "compiler/indexing.py", "compiler/instructions.py")
_CONSTANTS: Final = (bool, int, float, str, bytes, tuple)


def fingerprint(function: Callable[..., Any], mark: str) -> str:
    """Return a digest of a kernel, of the functions with this mark that it calls, of the constants that they name, and of what compiles them."""
    digest = hashlib.sha256(_compiler())
    for part in sorted(set(_parts(function, mark, set()))):
        digest.update(part.encode())
    return digest.hexdigest()


@cache
def _compiler() -> bytes:
    checked = bytes([bool(numba.config.BOUNDSCHECK)])
    sources = (pkgutil.get_data(_KERNELS, name) for name in _COMPILER)
    return checked + b"".join(source or b"" for source in sources)


def _parts(function: Callable[..., Any], mark: str, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    assert isinstance(function, FunctionType)
    code = function.__code__
    yield repr((code.co_code, code.co_consts, code.co_names, code.co_varnames))
    for name in code.co_names:
        value: Any = function.__globals__.get(name)
        if hasattr(value, mark):
            yield from _parts(value, mark, seen)
        elif isinstance(value, _CONSTANTS):
            yield repr((name, value))
