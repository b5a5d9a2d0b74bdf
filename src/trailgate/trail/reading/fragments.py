"""Rows larger than one record: the data of a change continue in the fragments (161) after it.

Assumed (trail format §11): a fragment's data are the next bytes of the change's, in order of the records;
Continued is Y in all of them but the last. After a before image they belong to that image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trailgate.arrays import Mask
from trailgate.trail.format.record_types import Role
from trailgate.trail.reading.grouping import Operations, last_change
from trailgate.trail.records.trail_bytes import Spans, TrailBytes


def join_fragments(source: TrailBytes, operations: Operations) -> tuple[TrailBytes, Operations]:
    """Return operations whose data are whole, in bytes that hold the joined ones at their end.

    Raises DecodeError where a continued record has no fragment after it, or a fragment follows
    a record that is not continued.
    """
    is_continued = operations.view.continued[: operations.records] != 0
    fragments = operations.of_role(Role.FRAGMENT)
    if not is_continued.any() and not len(fragments):
        return source, operations
    _check(source, operations, is_continued)
    if not len(fragments):
        return source, operations
    view = operations.view
    bases = np.unique(last_change(operations, fragments))
    rows = np.sort(np.concatenate([bases, fragments]))
    parts = view.data.take(rows)
    source, places = source.extended(parts)
    ends = places + parts.sizes
    first = np.searchsorted(rows, bases)
    data = Spans(view.data.starts.copy(), view.data.ends.copy())
    data.starts[bases] = places[first]
    data.ends[bases] = ends[np.append(first[1:], len(rows)) - 1]
    return source, replace(operations, view=replace(view, data=data))


def _check(source: TrailBytes, operations: Operations, is_continued: Mask) -> None:
    role = operations.view.role[: operations.records]
    part = (role == Role.CHANGE) | (role == Role.FRAGMENT)
    follows = np.append(role[1:], operations.view.role[operations.records :][:1])
    follows = np.append(follows, Role.REFUSED)[: len(role)]
    # A change may be marked for the pieces of its large objects too.
    fits = (follows == Role.FRAGMENT) | ((role == Role.CHANGE) & (follows == Role.LARGE_OBJECT))
    missing = part & is_continued & ~fits
    if missing.any():
        raise _about(
            source, operations, missing, "a record is continued, but no fragment follows it"
        )
    fragment = role == Role.FRAGMENT
    fragment[1:] &= ~(part & is_continued)[:-1]
    if fragment.any():
        problem = "a fragment follows a record that is not continued"
        raise _about(source, operations, fragment, problem)


def _about(source: TrailBytes, operations: Operations, bad: Mask, problem: str) -> Exception:
    start = int(operations.view.offsets[int(np.argmax(bad))])
    hint = "Is a record missing between this one and its neighbour?"
    return source.error(problem, (start, min(start + 64, len(source.data))), hint=hint)
