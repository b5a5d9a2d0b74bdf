"""Tables of words that kernels know by number (``kernels.names``), and the words that columns of findings name."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.rows import distinct
from trailgate.messages.xml.findings import Places
from trailgate.messages.xml.kernels.cells import word_ids
from trailgate.messages.xml.kernels.layout import INFO, NAMES, POOL, SPARE, USED
from trailgate.messages.xml.kernels.scan import intern

_TABLE: Final = 1 << 14
_POOL: Final = 1 << 18
_MOST: Final = _TABLE // 2


class Names(NamedTuple):
    """A table of words."""

    table: Offsets
    keys: Words
    info: Longs
    pool: Octets
    used: Longs

    @classmethod
    def empty(cls) -> Names:
        """Return a table without words."""
        return cls(
            np.zeros(_TABLE, np.int32),
            np.empty(2 * _MOST, np.uint64),
            np.empty(INFO * _MOST, np.int64),
            np.zeros(_POOL, np.uint8),
            np.zeros(USED, np.int64),
        )

    def copied(self) -> Names:
        """Return a table of the same words that can be added to."""
        names, size = int(self.used[NAMES]), int(self.used[POOL])
        keys, info = np.empty_like(self.keys), np.empty_like(self.info)
        pool = np.zeros(_POOL, np.uint8)
        keys[: 2 * names], info[: INFO * names] = self.keys[: 2 * names], self.info[: INFO * names]
        pool[:size] = self.pool[:size]
        return Names(self.table.copy(), keys, info, pool, self.used.copy())

    def add(self, word: bytes) -> int:
        """Return the number of a word, added if it is new; negative where there is no room."""
        text = np.frombuffer(word + bytes(SPARE), np.uint8)
        return int(intern(text, 0, len(word), *self))


def numbered_words(text: Octets, places: Places) -> tuple[Longs, list[str]]:
    """Return each word's number, -1 where there is none, and the words; ``text`` has ``SPARE`` bytes after them."""
    ids, firsts = np.empty(len(places.starts), np.int64), np.empty(_MOST, np.int64)
    count = word_ids(text, places.starts, places.lengths, ids, firsts, *Names.empty())
    if count < 0:  # empty words, or very many
        values = places.text(text)
        codes, found = distinct(values.fill_null(""))
        return np.where(np.asarray(values.is_valid()), codes, -1), found
    first = firsts[:count]
    bounds = zip(places.starts[first].tolist(), places.lengths[first].tolist(), strict=True)
    return ids, [text[start : start + size].tobytes().decode() for start, size in bounds]
