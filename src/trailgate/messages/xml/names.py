"""Tables of words that kernels know by number (``kernels.names``), and the words that columns of findings name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.rows import distinct
from trailgate.messages.xml.findings import Found, Places
from trailgate.messages.xml.kernels.cells import word_ids
from trailgate.messages.xml.kernels.layout import (
    INFO,
    NAMES,
    POOL,
    POOLED,
    SEEN,
    SIZE,
    SPARE,
    USED,
    XMLNS,
)
from trailgate.messages.xml.kernels.scan import intern

MOST: Final = 1 << 13  # words of a table
_POOLED: Final = 32  # bytes of them, each
_LEAST: Final = 64


class Names(NamedTuple):
    """A table of words."""

    table: Offsets
    keys: Words
    info: Longs
    pool: Octets
    used: Longs

    @classmethod
    def empty(cls, most: int = MOST) -> Names:
        """Return a table without words, for so many of them; a power of 2."""
        return cls(
            np.zeros(2 * most, np.int32),
            np.empty(2 * most, np.uint64),
            np.empty(INFO * most, np.int64),
            np.zeros(_POOLED * most, np.uint8),
            np.zeros(USED, np.int64),
        )

    def copied(self) -> Names:
        """Return a table of the same words that can be added to."""
        names, size = int(self.used[NAMES]), int(self.used[POOL])
        keys, info = np.empty_like(self.keys), np.empty_like(self.info)
        pool = np.zeros_like(self.pool)
        keys[: 2 * names], info[: INFO * names] = self.keys[: 2 * names], self.info[: INFO * names]
        pool[:size] = self.pool[:size]
        return Names(self.table.copy(), keys, info, pool, self.used.copy())

    def add(self, word: bytes) -> int:
        """Return the number of a word, added if it is new; negative where there is no room."""
        text = np.frombuffer(word + bytes(SPARE), np.uint8)
        return int(intern(text, 0, len(word), *self))

    def seen(self) -> Iterator[str]:
        """Yield the names, without prefix, of elements and attributes that a scan has seen."""
        rows = self.info[: INFO * int(self.used[NAMES])].reshape(-1, INFO)
        for size, start, prefix, local in rows[rows[:, SEEN] >= 0, :4].tolist():
            own = (start, size) if prefix < 0 else (rows[local, POOLED], rows[local, SIZE])
            if prefix != XMLNS and own[0] != rows[XMLNS, POOLED]:
                yield self.pool[own[0] : own[0] + own[1]].tobytes().decode()


def numbered_words(text: Octets, found: Found, field: int) -> tuple[Longs, list[str]]:
    """Return the number of each record's word at a field, -1 where it has none, and the words; ``text`` has ``SPARE`` bytes after them."""
    rows = len(found)
    most = min(MOST, 1 << max(_LEAST, rows).bit_length())
    ids, firsts = np.empty(rows, np.int64), np.empty(most, np.int64)
    count = word_ids(text, found.records, found.width, field, ids, firsts, *Names.empty(most))
    if count < 0:  # empty words, or very many
        starts, lengths = (found.records[at :: found.width] for at in (field, field + 1))
        values = Places(starts.astype(np.int64), lengths.astype(np.int64)).text(text)
        codes, words = distinct(values.fill_null(""))
        return np.where(np.asarray(values.is_valid()), codes.astype(np.int64), -1), words
    places = found.rows[firsts[:count], field : field + 2].tolist()
    return ids, [text[start : start + size].tobytes().decode() for start, size in places]
