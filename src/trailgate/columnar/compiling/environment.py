"""Which loops run: ``TRAILGATE_LOOPS`` forces native loops, numba's, or plain Python.

Without it each loop is native if it was built from the same sources, else compiled by numba if that
is installed, else plain Python.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Final

from trailgate.errors import MissingDependencyError, OptionError

VARIABLE: Final = "TRAILGATE_LOOPS"

INSTALL_NUMBA: Final = f"Install it with: {sys.executable} -m pip install numba"


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
