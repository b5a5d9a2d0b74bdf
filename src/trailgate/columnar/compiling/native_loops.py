"""Native loops, compiled when a wheel was built or by ``make native``, in ``trailgate/_loops.abi3.so``.

The extension checks the types of all arguments before a loop runs, releases the GIL, and raises
TypeError for arguments that a loop does not accept. In a checkout, a loop is used only if the
kernel's code has not changed since the loop was built. A wheel contains no fingerprints, because
its loops and its sources were built together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, Final

from trailgate.columnar.compiling.inner_functions import fingerprint

EXTENSION: Final = "trailgate._loops"


@cache
def extension() -> Any:
    """Import the module of native loops, or return None if it was not built for this machine."""
    try:
        return import_module(EXTENSION)
    except ImportError:
        return None


def native_loop(function: FunctionType) -> Callable[..., Any] | None:
    """Return a kernel's native loop, or None if it was not built or the kernel's code has changed since."""
    loops = extension()
    found = loops and loops.find(f"{function.__module__}.{function.__name__}")
    if not found:
        return None
    built_from, loop = found
    # A fingerprint takes longer than the few bytes of a short command.
    return None if built_from and built_from != fingerprint(function) else loop
