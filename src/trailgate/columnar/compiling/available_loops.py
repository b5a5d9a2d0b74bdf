"""The ways in which a kernel can run here: as a native loop, compiled by numba, or as plain Python.

``TRAILGATE_LOOPS`` forces one of them for all kernels. Without it each loop is native if it was built
from the same sources, else compiled by numba if that is installed, else plain Python.

Native loops are compiled when a wheel is built or by ``make native``, in ``trailgate/_loops.abi3.so``.
The extension checks the types of all arguments before a loop runs, releases the GIL, and raises
TypeError for arguments that a loop does not accept. In a checkout, a loop is used only if the
kernel's code has not changed since the loop was built. A wheel contains no fingerprints, because
its loops and its sources were built together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final

from trailgate.columnar.compiling.inner_functions import fingerprint
from trailgate.errors import MissingDependencyError, OptionError

VARIABLE: Final = "TRAILGATE_LOOPS"
INSTALL_NUMBA: Final = f"Install it with: {sys.executable} -m pip install numba"
EXTENSION: Final = "trailgate._loops"


class Loops(StrEnum):
    """A way to run kernels: native, compiled by numba, or as plain Python."""

    NATIVE = "native"
    NUMBA = "numba"
    PLAIN = "plain"


@cache
def forced_loops() -> Loops | None:
    """Return the way to run kernels that ``TRAILGATE_LOOPS`` forces, or None if it is not set.

    Raises OptionError for an unknown word, MissingDependencyError if numba is forced and missing.
    """
    word = os.environ.get(VARIABLE, "")
    if not word:
        return None
    if word not in set(Loops):
        raise OptionError(f"{VARIABLE}={word}: expected one of {', '.join(Loops)}")
    if word == Loops.NUMBA and not has_numba():
        raise MissingDependencyError(
            f"{VARIABLE}=numba, and numba is not installed", hint=INSTALL_NUMBA
        )
    return Loops(word)


@cache
def has_numba() -> bool:
    """Return whether numba is installed. It is not imported."""
    return find_spec("numba") is not None


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
