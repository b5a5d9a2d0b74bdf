"""The table of names of the XML scanner, which grows and can be copied.

`formats/xml/kernels/tables.py` describes its layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from trailgate.formats.xml.kernels.names import fill_table, intern_word
from trailgate.formats.xml.kernels.tables import (
    BOUND,
    INFO,
    NAMES,
    POOL,
    POOLED,
    SEEN,
    SIZE,
    SPARE,
    USED,
    XML,
    XML_SPACE,
    XMLNS,
    NameArrays,
)

MOST: Final = 1 << 13  # words that a table has room for
MOST_GROWN: Final = 1 << 20  # words that a table can grow to, some 120 MB
_POOLED: Final = 32  # bytes of the pool per word


class NameTable(NameArrays):
    """The scanner's hash table of XML names, which grows and can be copied."""

    @classmethod
    def empty(cls, most: int = MOST) -> NameTable:
        """Create an empty XML name table with room for `most` words, a power of 2."""
        return cls(
            # Twice as many slots as words: at least half stay free, so searches are short.
            np.zeros(2 * most, np.int32),
            # The keys: the first and the last eight bytes of each word.
            np.empty(2 * most, np.uint64),
            np.empty(INFO * most, np.int64),
            np.zeros(_POOLED * most, np.uint8),
            np.zeros(USED, np.int64),
        )

    def copy(self) -> NameTable:
        """Return a copy of the XML name table, to which names can be added."""
        return self._with_room(len(self.table) // 2)

    def enlarge(self) -> NameTable | None:
        """Return a copy of the XML name table with room for eight times as many words.

        Returns None if it already has the maximum size `MOST_GROWN`.
        """
        words = len(self.table) // 2
        most = min(8 * words, MOST_GROWN)
        return self._with_room(most) if most > words else None

    def _with_room(self, most: int) -> NameTable:
        names, size = int(self.used[NAMES]), int(self.used[POOL])
        more = NameTable.empty(most)
        more.keys[: 2 * names] = self.keys[: 2 * names]
        more.info[: INFO * names] = self.info[: INFO * names]
        more.pool[:size], more.used[:] = self.pool[:size], self.used
        # The slot of a word depends on the number of slots, so a larger table is filled again.
        if len(more.table) == len(self.table):
            more.table[:] = self.table
        else:
            fill_table(more.keys, more.info, names, more.table)
        return more

    def without_prefixes(self) -> None:
        """Unbind all prefixes except `xml`, which is always bound."""
        # The field BOUND of every word, since ``info`` has INFO fields for each.
        self.info[BOUND : INFO * int(self.used[NAMES]) : INFO] = 0
        self.info[XML * INFO + BOUND] = XML_SPACE + 1

    def add(self, word: bytes) -> int:
        """Add a name to the XML name table if it is new.

        Returns its number, or a negative number if there is no room.
        """
        # The kernel reads a word in blocks, which may go beyond its end.
        text = np.frombuffer(word + bytes(SPARE), np.uint8)
        return int(intern_word(text, 0, len(word), self))

    def seen(self) -> Iterator[str]:
        """Yield the local names of XML elements and attributes that a scan has read, at most `MOST`."""
        rows = self.info[: INFO * int(self.used[NAMES])].reshape(-1, INFO)
        for size, start, prefix, local in rows[
            np.flatnonzero(rows[:, SEEN] >= 0)[:MOST], :4
        ].tolist():
            # A name with a prefix refers to its local name, which is a word of its own.
            own = (start, size) if prefix < 0 else (rows[local, POOLED], rows[local, SIZE])
            # Skip namespace declarations: xmlns="..." and xmlns:p="...".
            # Each word is in the pool once, so the same offset means the same word.
            if prefix != XMLNS and own[0] != rows[XMLNS, POOLED]:
                yield self.pool[own[0] : own[0] + own[1]].tobytes().decode()
