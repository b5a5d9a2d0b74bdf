"""Values of delimited fields: quotes off, escapes undone, nulls told apart from empty text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.delimited import Fields, find_all
from trailgate.columnar.gather import gather, replaced
from trailgate.columnar.kernels import delimited as kernels
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, Where
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.parsing.message_text import check_utf8
from trailgate.messages.parsing.messages import MessageBatch


class FieldValues:
    """Takes the values of fields out of a batch's bytes, a column at a time."""

    def __init__(
        self, buffer: pa.Buffer, data: Octets, fields: Fields, options: DelimitedOptions
    ) -> None:
        self.buffer, self.data, self.fields, self.options = buffer, data, fields, options
        self.checked = False
        self._replacements = [
            (escaped, plain)
            for escaped, plain in (
                (options.fielddelim_escaped, options.fielddelim),
                (options.linedelim_escaped, options.linedelim),
            )
            if escaped and len(find_all(data, escaped))
        ]

    def check_text(self, messages: MessageBatch) -> None:
        """Check once that all bodies are UTF-8; raises BadMessagesError where some are not.

        Delimiters that are no ASCII may cut text: then each column is checked by itself.
        """
        delimiters = self.options.fielddelim + self.options.linedelim + (self.options.quote or b"")
        if not delimiters.isascii() or not len(messages):
            return
        check_utf8(messages)
        self.checked = True

    def text(self, first: Longs, place: int) -> pa.Array:
        """Return the text of the fields ``first + place``, quotes off and escapes undone."""
        starts, ends, _, seen = self._values(first, place, nullable=False)
        values = gather(self.buffer, starts, ends, text=True, checked=self.checked)
        return self._plain(values, first + place, seen)

    def nullable(self, first: Longs, place: int) -> pa.Array:
        """Return the text of the fields, null where they are NULL; an error's record is its row."""
        starts, ends, nulls, seen = self._values(first, place, nullable=True)
        try:
            values = gather(self.buffer, starts, ends, nulls=nulls, text=True, checked=self.checked)
        except DecodeError as error:
            row = int(np.flatnonzero(starts == (error.where.offset or 0))[0])
            where = Where(record=row, raw=error.where.raw)
            raise DecodeError(error.problem, where=where, hint=error.hint) from None
        return self._plain(values, first + place, seen)

    def _values(
        self, first: Longs, place: int, *, nullable: bool
    ) -> tuple[Longs, Longs, Mask | None, int]:
        """Return where the values are, within their quotes, which are NULL, and their flags ored.

        Without a null indicator an unquoted empty field is NULL, a quoted one empty text.
        """
        fields, options, rows = self.fields, self.options, len(first)
        starts, ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
        nulls = np.empty(rows if nullable else 0, np.bool_)
        found, seen = kernels.values_of(
            self.data,
            fields.starts,
            fields.ends,
            fields.flags,
            first,
            place,
            len(options.quote or b""),
            octets(options.nullindicator or b""),
            starts,
            ends,
            nulls,
        )
        assert found >= 0, "the caller counts the fields of its records"
        return starts, ends, nulls if found else None, seen

    def _plain(self, values: pa.Array, which: Longs, seen: int) -> pa.Array:
        """Return the values of these fields with the escapes undone."""
        options = self.options
        if seen & kernels.ESCAPES:
            marked = self.fields.flags[which] & kernels.ESCAPES > 0
            quote = options.quote or b""
            values = replaced(values, marked, options.quote_escaped or quote * 2, quote)
        for escaped, plain in self._replacements:
            values = replaced(values, np.ones(len(values), np.bool_), escaped, plain)
        if options.nullindicator_escaped and options.nullindicator:
            literal = pc.equal(values, options.nullindicator_escaped.decode())
            if seen & kernels.QUOTED:
                quoted = self.fields.flags[which] & kernels.QUOTED > 0
                literal = pc.and_(literal, pa.array(~quoted))
            values = pc.if_else(literal, options.nullindicator.decode(), values)
        return values
