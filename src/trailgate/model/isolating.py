"""The bad rows among many: what fails as a whole is tried in halves, until each bad row is alone."""

from __future__ import annotations

from collections.abc import Callable

from trailgate.errors import TrailgateError


def isolated(count: int, act: Callable[[range], object]) -> dict[int, TrailgateError]:
    """Call ``act`` with the rows 0 to ``count`` - 1 in as few parts as have no bad row; return the error of each bad row.

    ``act`` raises TrailgateError where one of its rows is bad. Parts are tried in ascending order.
    """
    errors: dict[int, TrailgateError] = {}
    waiting = [range(count)]
    while waiting:
        rows = waiting.pop()
        if not rows:
            continue
        try:
            act(rows)
        except TrailgateError as error:
            if len(rows) == 1:
                errors[rows.start] = error
                continue
            half = len(rows) // 2
            waiting += [rows[half:], rows[:half]]
    return errors
