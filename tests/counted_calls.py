"""The work of a piece of code as a count of calls, which is the same on any machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_COMPILING = re.compile("kernels|numba|llvmlite")


def counted(work: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many Python functions were called, and the result."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        # Loops are compiled after their first bytes only: what they call is not counted.
        calls += event == "call" and not _COMPILING.search(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(before)
    return calls, found
