"""Where the GGS tokens of many records lie: the first of one id, or all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.records import kernels
from trailgate.trail.records.trail_bytes import Spans, TrailBytes


@dataclass(frozen=True, slots=True)
class FoundToken:
    """The payload of the first token of an id in each area, at -1 where it has none.

    ``faults`` are the areas that tokens do not fill exactly.
    """

    spans: Spans
    faults: Mask

    @property
    def rows(self) -> Longs:
        """Return the areas that have the token."""
        return np.flatnonzero(self.spans.starts >= 0)


@dataclass(frozen=True, slots=True)
class ListedTokens:
    """Tokens by group and id: the group, the id and the payload of each."""

    groups: Longs
    codes: Longs
    spans: Spans


def find_token(source: TrailBytes, areas: Spans, code: int) -> FoundToken:
    """Return where the first token of an id lies in each area; raises nothing for areas with faults."""
    count = len(areas.starts)
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    faults = np.empty(count, bool)
    kernels.find_token(
        source.data, areas.starts, areas.ends, source.big, code, starts, ends, faults
    )
    return FoundToken(Spans(starts, ends), faults)


def list_tokens(source: TrailBytes, areas: Spans, groups: Longs) -> ListedTokens:
    """Return the tokens of the first areas; of an id that a group has twice, the first.

    ``groups`` is the group of each area, ascending; areas of a negative one are left out. Raises DecodeError for a token
    that runs over its area.
    """
    room = int(areas.sizes[: len(groups)].sum()) // FRAME
    owners, codes, starts, ends = (np.empty(room, np.int64) for _ in range(4))
    count, bad, place = kernels.list_tokens(
        source.data, areas.starts, areas.ends, source.big, groups, owners, codes, starts, ends
    )
    if bad >= 0:
        raise _overrun(source, (place, int(areas.ends[bad])))
    return ListedTokens(owners[:count], codes[:count], Spans(starts[:count], ends[:count]))


def _overrun(source: TrailBytes, span: tuple[int, int]) -> DecodeError:
    return source.error("a token runs over the token area", span)
