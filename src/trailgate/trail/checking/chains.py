"""Chains: tokens and columns that must fill an area exactly, of many areas in lockstep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.trail.format.byte_order import ByteOrder, Words
from trailgate.trail.format.tokens import FRAME, LOGCSN, TRANID

SHORTEST_VALUE = 2  # every column value has a null indicator (trail format §10.2)


@dataclass(frozen=True, slots=True)
class Chained:
    """The data in which chains lie, as words at any offset, and their byte order."""

    data: Octets
    frames: Words
    order: ByteOrder


@dataclass(frozen=True, slots=True)
class Id:
    """The first token of one id in each area: which areas have it, and where its payload lies."""

    rows: Longs
    starts: Longs
    ends: Longs


def column_faults(chained: Chained, starts: Longs, ends: Longs) -> Longs:
    """Return the areas that are not filled by columns of at least two bytes."""
    bad: list[Longs] = []
    rows = np.flatnonzero(starts < ends)
    place, limit = starts[rows], ends[rows]
    while len(rows):
        length = chained.order.lengths(chained.frames[place])
        if length.min() < SHORTEST_VALUE:
            bad.append(rows[length < SHORTEST_VALUE])
        rows, place, limit = _stepped(rows, place + FRAME + length, limit, bad)
    return _joined(bad)


def token_faults(chained: Chained, starts: Longs, ends: Longs) -> tuple[Longs, Id, Id]:
    """Return the areas that tokens do not fill; and the LOGCSN and TRANID tokens."""
    bad: list[Longs] = []
    found: dict[int, list[tuple[Longs, Longs, Longs]]] = {LOGCSN: [], TRANID: []}
    rows = np.flatnonzero(starts < ends)
    place, limit = starts[rows], ends[rows]
    while len(rows):
        frames = chained.frames[place]
        begin = place + FRAME
        end = begin + chained.order.lengths(frames)
        codes = chained.order.codes(frames)
        for code, into in found.items():
            chosen = np.flatnonzero(codes == code)
            if len(chosen):
                into.append((rows[chosen], begin[chosen], end[chosen]))
        rows, place, limit = _stepped(rows, end, limit, bad)
    faults = _joined(bad)
    return faults, _firsts(found[LOGCSN], faults), _firsts(found[TRANID], faults)


def _stepped(
    rows: Longs, place: Longs, limit: Longs, bad: list[Longs]
) -> tuple[Longs, Longs, Longs]:
    """Return what goes on behind a step; rows whose step goes beyond the limit are bad."""
    more = place < limit
    if more.all():
        return rows, place, limit
    over = place > limit
    if over.any():
        bad.append(rows[over])
    return rows[more], place[more], limit[more]


def _joined(parts: list[Longs]) -> Longs:
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _firsts(parts: list[tuple[Longs, Longs, Longs]], faults: Longs) -> Id:
    if not parts:
        none = np.zeros(0, np.int64)
        return Id(none, none, none)
    rows, starts, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
    rows, first = np.unique(rows, return_index=True)
    if len(faults):
        good = ~np.isin(rows, faults)
        rows, first = rows[good], first[good]
    return Id(rows, starts[first], ends[first])
