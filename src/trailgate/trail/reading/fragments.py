"""Rows larger than one record: the data of a change go on in the fragments (161) behind it.

Assumed (trail format §11): a fragment's data are the next bytes of the change's, in order of the records;
Continued is Y in all of them but the last. Behind a before image they belong to that image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trailgate.arrays import Mask
from trailgate.trail.format.record_header import Source, Spans
from trailgate.trail.format.record_types import Role
from trailgate.trail.reading.grouping import Operations, continued, last_change


def join_fragments(source: Source, operations: Operations) -> tuple[Source, Operations]:
    """Return operations whose data are whole, in a source that holds the joined ones at its end.

    Raises DecodeError where a continued record has no fragment behind it, or a fragment follows
    a record that is not continued.
    """
    goes_on = continued(source, operations.heads)[: operations.records]
    fragments = operations.of_role(Role.FRAGMENT)
    if not goes_on.any() and not len(fragments):
        return source, operations
    _check(source, operations, goes_on)
    if not len(fragments):
        return source, operations
    heads = operations.heads
    bases = np.unique(last_change(operations, fragments))
    rows = np.sort(np.concatenate([bases, fragments]))
    parts = heads.data.take(rows)
    source, places = source.extended(parts)
    ends = places + parts.ends - parts.starts
    first = np.searchsorted(rows, bases)
    data = Spans(heads.data.starts.copy(), heads.data.ends.copy())
    data.starts[bases] = places[first]
    data.ends[bases] = ends[np.append(first[1:], len(rows)) - 1]
    return source, replace(operations, heads=replace(heads, data=data))


def _check(source: Source, operations: Operations, goes_on: Mask) -> None:
    role = operations.heads.role[: operations.records]
    part = (role == Role.CHANGE) | (role == Role.FRAGMENT)
    follows = np.append(role[1:], operations.heads.role[operations.records :][:1])
    follows = np.append(follows, Role.REFUSED)[: len(role)]
    # A change may be marked for the pieces of its large objects too.
    fits = (follows == Role.FRAGMENT) | ((role == Role.CHANGE) & (follows == Role.LARGE_OBJECT))
    missing = part & goes_on & ~fits
    if missing.any():
        raise _about(source, operations, missing, "a record goes on, but no fragment follows it")
    fragment = role == Role.FRAGMENT
    fragment[1:] &= ~(part & goes_on)[:-1]
    if fragment.any():
        problem = "a fragment stands behind a record that does not go on"
        raise _about(source, operations, fragment, problem)


def _about(source: Source, operations: Operations, bad: Mask, problem: str) -> Exception:
    start = int(operations.heads.offsets[int(np.argmax(bad))])
    hint = "Is a record missing between this one and its neighbour?"
    return source.error(problem, (start, min(start + 64, len(source.data))), hint=hint)
