"""Values of delimited fields: quotes off, escapes undone, nulls told apart from empty text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.delimiter_tokens import find_all, token_at
from trailgate.columnar.delimiters import Fields
from trailgate.columnar.gather import gather
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

    def text(self, which: Longs) -> pa.Array:
        """Return the fields' text, quotes off and escapes undone."""
        starts, ends, quoted = self._unquoted(which)
        values = gather(self.buffer, starts, ends, text=True, checked=self.checked)
        return self._plain(values, which, quoted)

    def nullable(self, which: Longs) -> pa.Array:
        """Return the fields' text, null where they are NULL; an error's record is its row."""
        starts, ends, quoted = self._unquoted(which)
        nulls = self._nulls(starts, ends, quoted)
        try:
            values = gather(self.buffer, starts, ends, nulls=nulls, text=True, checked=self.checked)
        except DecodeError as error:
            row = int(np.flatnonzero(starts == (error.where.offset or 0))[0])
            where = Where(record=row, raw=error.where.raw)
            raise DecodeError(error.problem, where=where, hint=error.hint) from None
        return self._plain(values, which, quoted)

    def _unquoted(self, which: Longs) -> tuple[Longs, Longs, Mask | None]:
        """Return where the values lie within their quotes, and which were quoted (None: none)."""
        starts, ends = self.fields.starts[which], self.fields.ends[which]
        quote = self.options.quote
        if not quote or not self.fields.quotes:
            return starts, ends, None
        size = len(quote)
        if size == 1:
            quoted = self.data.take(starts, mode="clip") == quote[0]
        else:
            quoted = token_at(self.data, starts, quote)
        quoted &= ends - starts >= 2 * size
        if not quoted.any():
            return starts, ends, None
        if quoted.all():
            return starts + size, ends - size, quoted
        inner = quoted * size
        return starts + inner, ends - inner, quoted

    def _nulls(self, starts: Longs, ends: Longs, quoted: Mask | None) -> Mask | None:
        """Return the unquoted fields that are the null indicator; None where there are none.

        Without an indicator an unquoted empty field is NULL, a quoted one empty text.
        """
        token = self.options.nullindicator or b""
        found = (ends - starts) == len(token)
        if quoted is not None:
            found &= ~quoted
        if token and found.any():
            found &= token_at(self.data, starts, token)
        return found if found.any() else None

    def _plain(self, values: pa.Array, which: Longs, quoted: Mask | None) -> pa.Array:
        """Return the values with the escapes undone."""
        options = self.options
        if quoted is not None and self.fields.escapes is not None:
            values = self._unescaped(values, self.fields.escapes[which] & quoted)
        for escaped, plain in self._replacements:
            values = _replaced(values, escaped, plain)
        if options.nullindicator_escaped and options.nullindicator:
            literal = pc.equal(values, options.nullindicator_escaped.decode())
            if quoted is not None:
                literal = pc.and_(literal, pa.array(~quoted))
            values = pc.if_else(literal, options.nullindicator.decode(), values)
        return values

    def _unescaped(self, values: pa.Array, marked: Mask) -> pa.Array:
        """Return the values with escaped quotes undone in the marked rows."""
        if not marked.any():
            return values
        quote = self.options.quote or b""
        escaped = self.options.quote_escaped or quote * 2
        rows = pa.array(np.flatnonzero(marked))
        undone = pc.replace_substring(values.take(rows), escaped.decode(), quote.decode())
        return pc.replace_with_mask(values, pa.array(marked), undone)


def _replaced(values: pa.Array, pattern: bytes, replacement: bytes) -> pa.Array:
    if not pc.any(pc.match_substring(values, pattern.decode())).as_py():
        return values
    return pc.replace_substring(values, pattern.decode(), replacement.decode())
