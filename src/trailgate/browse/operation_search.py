"""Search operations for the pages: find those that pass filters, after or before a position, page by page.

The index knows which spans may contain matches. Only those are decoded, in columns, and only the
rows of the page are converted to text. A search ends after a fifth of a second, even if the page is
not full, and returns the position at which to continue, so that no page keeps the user waiting.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import IndexSpan, TrailIndex
from trailgate.browse.shown_operations import MARKUP, ShownOperation, show_operations
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.columnar.rows import condition_to_mask
from trailgate.model.changes import ChangeBatch
from trailgate.model.positions import long_position
from trailgate.storage.files.trail_files import TrailPosition

ROWS: Final = 50  # rows on a page
SECONDS: Final = 0.2  # the time limit of a search
BEGINS: Final = "BW"  # transaction indicators of first operations
ENDS: Final = "EW"
CHARACTERS: Final = 500_000  # characters of HTML of a page's rows, about: it stays below 1 MB


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page of operations: matching rows in trail order, and the positions at which the search continues.

    ``after`` and ``before`` are None if there is nothing more in that direction. ``hurried`` is
    True if the time limit ended the search.
    """

    rows: tuple[ShownOperation | UnreadOperations, ...]
    after: TrailPosition | None
    before: TrailPosition | None
    hurried: bool = False


@dataclass(frozen=True, slots=True)
class OperationSearch:
    """A search for one page of operations: the first matches from a position on, or with ``back`` the last matches before it."""

    index: TrailIndex
    filters: OperationFilters
    place: TrailPosition | None = None
    back: bool = False
    rows: int = ROWS
    seconds: float = field(default_factory=lambda: SECONDS)
    damage: bool = False  # whether damaged bytes are shown as rows

    def run(self) -> SearchResult:
        """Search the trail for one page of operations that pass the filters.

        At least one span is searched, even if that takes longer than the limit.
        """
        rows: list[ShownOperation | UnreadOperations] = []
        until = monotonic() + self.seconds
        reached: TrailPosition | None = None
        for number, span in enumerate(self.spans()):
            # number > 0: the first span is always searched
            if number and monotonic() > until:
                reached = span.stop if self.back else span.begin
                break
            matches = self._of_span(span, self.rows - len(rows))
            rows = [*matches, *rows] if self.back else [*rows, *matches]
            if len(rows) >= self.rows:
                break
        result = self._found(tuple(rows), reached)
        return self._shorten(self._with_damage(result) if self.damage else result)

    def _shorten(self, result: SearchResult) -> SearchResult:
        """Remove rows from a page that would have more than ``CHARACTERS``. At least one row is kept."""
        rows = result.rows[::-1] if self.back else result.rows
        sizes = [row.size if isinstance(row, ShownOperation) else MARKUP for row in rows]
        # The number of rows whose sizes together fit: sizes 40 50 30 with room for 100 have the
        # sums 40 90 120, and two fit.
        count = max(1, int(np.searchsorted(np.cumsum(sizes), CHARACTERS, "right")))
        return result if count >= len(rows) else self._cut(result.rows, count)

    def _cut(self, rows: Sequence[ShownOperation | UnreadOperations], count: int) -> SearchResult:
        """Shorten the page to its first ``count`` rows, or with ``back`` to its last ones."""
        if self.back:
            kept = tuple(rows[-count:])
            return SearchResult(kept, self.place, kept[0].place)
        kept = tuple(rows[:count])
        return SearchResult(kept, kept[-1].place.just_after, self.place)

    def _with_damage(self, result: SearchResult) -> SearchResult:
        """Add a row for each run of damaged bytes to the result, even if filters are set.

        It is unknown whether these bytes would match.
        """
        # The range that the found rows cover.
        begin, end = (result.before, self.place) if self.back else (self.place, result.after)
        with self.index.lock:
            lost = [
                UnreadOperations(one.begin, one.sentence)
                for one in self.index.unread
                if (begin is None or one.begin >= begin) and (end is None or one.begin < end)
            ]
        if not lost:
            return result
        rows = sorted([*result.rows, *lost], key=lambda row: row.place)
        if len(rows) <= self.rows:
            return replace(result, rows=tuple(rows))
        # With the damage there are more rows than fit, so the page ends earlier.
        return self._cut(rows, self.rows)

    def _found(
        self, rows: tuple[ShownOperation | UnreadOperations, ...], reached: TrailPosition | None
    ) -> SearchResult:
        # a full page continues at its own edge, a hurried search at the first span it has not read
        full, hurried = len(rows) >= self.rows, reached is not None
        if self.back:
            return SearchResult(
                rows, self.place, reached or (rows[0].place if full else None), hurried
            )
        next_one = rows[-1].place.just_after if full else None
        return SearchResult(rows, reached or next_one, self.place, hurried)

    def spans(self) -> Iterator[IndexSpan]:
        """Yield the index spans in which to search for a page of operations, in the direction of the search."""
        with self.index.lock:
            gone, patterns = self.index.gone, self.filters.tables
            spans = [span for span in self.index.spans if span.number not in gone]
            names = [name for name in self.index.tables if patterns and patterns.fits(name)]
            tables = self.index.bits(names) if patterns else None
        if self.back:
            # keep the spans that begin before the position, last one first
            begins = [span.begin for span in spans]
            spans = spans[: bisect_left(begins, self.place) if self.place else None][::-1]
        elif self.place:
            spans = spans[bisect_right([span.stop for span in spans], self.place) :]
        yield from (span for span in spans if self.filters.may_be_in(span, tables))

    def _of_span(self, span: IndexSpan, rows: int) -> list[ShownOperation | UnreadOperations]:
        """Return the first ``rows`` matching operations of a span of the index, or with ``back`` the last ones, in order."""
        matches: list[ShownOperation | UnreadOperations] = []
        for part in read_span(self.index, span, self.filters.selection, self.place, back=self.back):
            if isinstance(part, UnreadOperations):
                if self.place is None or (part.place < self.place) == self.back:
                    matches.append(part)
            else:
                matches += self._shown(part, rows if self.back else rows - len(matches))
            # Searching back, the whole span is read, because the last matches are wanted.
            if not self.back and len(matches) >= rows:
                break
        return matches[-rows:] if self.back else matches[:rows]

    def _shown(self, batch: ChangeBatch, rows: int) -> list[ShownOperation]:
        keep = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            passed = self.filters.matching(block)
            if self.place:
                compare = pc.less if self.back else pc.greater_equal
                passed &= condition_to_mask(compare(block.position, long_position(*self.place)))
            keep[block.order] = passed
        chosen = np.flatnonzero(keep)
        # drop all but the last (or the first) ``rows`` matches, before values become text
        keep[chosen[:-rows] if self.back else chosen[rows:]] = False
        ordered: list[tuple[int, ShownOperation]] = []
        for block in batch.where(keep).blocks:
            # Blocks are by table: sorting by ``order`` restores the order of the trail across
            # tables.
            ordered += zip(block.order.tolist(), show_operations(self.index, block), strict=True)
        return [row for _, row in sorted(ordered, key=lambda one: one[0])]
