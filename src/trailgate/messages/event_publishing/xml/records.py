"""The rows of a batch of XML publications as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import take_text
from trailgate.messages.event_publishing.options import (
    AUTHORIZATION,
    IDENTIFIER,
    NAME_OF_TABLE,
    OPERATION,
    OWNER,
    PLAN,
    TIME,
    TRANSACTION,
)
from trailgate.messages.event_publishing.xml.cells import Cells
from trailgate.messages.event_publishing.xml.envelopes import Envelopes, Values
from trailgate.messages.parsing.records import Records

_SHOWN: Final = 4096  # bytes of a row that an error may need
_OF_ROWS: Final = MappingProxyType({OWNER: "schema", NAME_OF_TABLE: "table"})
_OF_ENVELOPES: Final = MappingProxyType(
    {TRANSACTION: "commit", IDENTIFIER: "commit", TIME: "time", AUTHORIZATION: "owner"}
)


@dataclass(frozen=True, slots=True)
class XmlPublicationRecords(Records):
    """Rows as records, each with its envelope; ``text`` has the values of all.

    ``letters`` are operation types, which the options call ``operations``; ``rows`` is where the attributes of rows are.
    """

    buffer: Octets
    envelopes: Envelopes
    around: Longs
    end: Longs
    letters: Octets
    operations: Mapping[str, str]
    rows: Values
    cells: Cells
    seen: frozenset[str] = frozenset()
    words: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)

    @property
    def notes(self) -> frozenset[str]:
        """Return what control messages report."""
        return self.seen

    def text(self, name: str) -> pa.Array:
        """Return each row's text of a header field, null where it has none."""
        if name == OPERATION or name in _OF_ROWS:
            codes, words = self.codes(name)
            return pa.array(words, pa.string()).take(pa.array(codes))
        if name == PLAN:
            given = self.envelopes.texts("plan"), self.envelopes.texts("correlation")
            return take_text(pc.coalesce(*given), self.around)
        found = self.envelopes.texts(_OF_ENVELOPES[name])
        if name == TIME:  # commit times are GMT (event publishing §3.1)
            found = pc.utf8_rtrim(found, "Z")
        return take_text(found, self.around)

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return each row's number among the different texts of a header field, and those texts."""
        if name == OPERATION:
            table = np.zeros(256, np.int64)
            table[[ord(letter) for letter in self.operations]] = range(len(self.operations))
            return table[self.letters], list(self.operations.values())
        if name in _OF_ROWS:
            if name not in self.words:
                codes, words = self.rows.words(self.buffer, _OF_ROWS[name])
                self.words[name] = codes, [word.strip() for word in words]
            return self.words[name]
        return Records.codes(self, name)

    def segments(self) -> Longs:
        """Return the segment of each row's message, 0 for a message of one row."""
        return self.envelopes.segment[self.around]

    def transaction_ends(self) -> Mask:
        """Return which rows end their transaction: the last ones of messages that do."""
        last = np.ones(len(self.message), bool)
        last[:-1] = self.message[1:] != self.message[:-1]
        return last & self.envelopes.last[self.around]

    def raw(self, row: int) -> bytes:
        """Return the beginning of a row's element."""
        begin = int(self.messages.starts[self.message[row]])
        start, end = int(self.offset[row]), int(self.end[row])
        return bytes(
            memoryview(self.messages.data)[begin + start : begin + min(end, start + _SHOWN)]
        )
