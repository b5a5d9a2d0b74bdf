"""Values of delimited fields: quotes off, escapes undone, nulls distinct from empty text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets
from trailgate.columnar.delimited import Fields, find_all
from trailgate.columnar.gather import NO_NULLS, check_text, column
from trailgate.columnar.grouping import FEW
from trailgate.columnar.kernels import delimited as kernels
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import distinct
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, Where
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.parsing.message_text import check_utf8
from trailgate.messages.parsing.messages import MessageBatch


class FieldValues:
    """Copies the values of fields from a batch's bytes, a column at a time."""

    def __init__(self, data: Octets, fields: Fields, options: DelimitedOptions) -> None:
        self.data, self.fields, self.options = data, fields, options
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

        Delimiters that are not ASCII may cut text: then each column is checked by itself.
        """
        options = self.options
        quotes = (options.quote or b"") + (options.quote_escaped or b"")
        if not (options.fielddelim + options.linedelim + quotes).isascii() or not len(messages):
            return
        check_utf8(messages)
        self.checked = True

    def text(self, first: Longs, place: int) -> pa.Array:
        """Return the text of the fields ``first + place``, quotes off and escapes undone."""
        return self.columns(first, [place], nullable=False)[0]

    def codes(self, first: Longs, place: int) -> tuple[Longs, list[str]]:
        """Return each record's number among the different texts of a field, and those texts."""
        codes, known = self.spans(first, place, 1)
        if known is None:
            return distinct(self.text(first, place))
        texts = self.text(first[known], place).to_pylist()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        if len(numbers) < len(known):  # one text, in quotes and without
            codes = np.array([numbers[text] for text in texts])[codes]
        return codes, list(numbers)

    def spans(self, first: Longs, place: int, count: int) -> tuple[Longs, Longs | None]:
        """Return each record's number among the different bytes of ``count`` fields, and a row of each; None for too many."""
        codes, known = np.empty(len(first), np.int64), np.empty(FEW, np.int64)
        recent = np.full(kernels.RECENT, -1)
        recents = (recent, np.empty(kernels.RECENT, np.uint64), recent.copy())
        starts, ends = self.fields.starts, self.fields.ends[count - 1 :]
        found = kernels.code_fields(
            self.data, starts[: len(ends)], ends, first, place, codes, known, *recents
        )
        return codes, None if found < 0 else known[:found]

    def columns(
        self, first: Longs, places: Sequence[int], *, nullable: bool = True
    ) -> list[pa.Array]:
        """Return a text column for each place in the records, null where a field is NULL.

        Raises DecodeError, with the row as its record and the place as its column, for a value that
        is not UTF-8.
        """
        fields, options, rows = self.fields, self.options, len(first)
        quote = options.quote or b""
        escaped = options.quote_escaped or quote * 2
        offsets = np.empty((len(places), rows + 1), np.int32)
        begins = np.empty(len(places) * rows, np.int32)
        nulls = np.zeros((len(places) if nullable else 0, rows), np.bool_)
        seen = np.zeros(len(places), np.uint8)
        which = (first, np.array(places, np.int64), octets(quote), octets(escaped))
        null = octets(options.nullindicator or b"")
        written = (offsets.ravel(), begins, nulls.ravel(), seen)
        count = kernels.measure_fields(
            self.data, fields.starts, fields.ends, fields.flags, *which, null, *written
        )
        assert count >= 0, "the caller counts the fields of its records"
        sizes = offsets[:, -1].astype(np.int64) + SPARE
        bases = np.cumsum(sizes) - sizes
        out = np.empty(int(sizes.sum()), np.uint8)
        kernels.copy_fields(self.data, fields.ends, *which, offsets.ravel(), begins, bases, out)
        columns = []
        for number, (base, size) in enumerate(zip(bases.tolist(), sizes.tolist(), strict=True)):
            mask = nulls[number] if count else NO_NULLS
            values = column(offsets[number], out[base : base + size], mask, text=True)
            if not self.checked:
                values = self._text(values, places[number])
            columns.append(self._plain(values, first, places[number], int(seen[number])))
        return columns

    def _text(self, values: pa.Array, place: int) -> pa.Array:
        """Return text that is checked; raises DecodeError with the row as its record and the place as its column."""
        try:
            check_text(values, np.arange(len(values)))
        except DecodeError as error:
            where = Where(record=error.where.offset, column=place, raw=error.where.raw)
            raise DecodeError(error.problem, where=where, hint=error.hint) from None
        return values

    def _plain(self, values: pa.Array, first: Longs, place: int, seen: int) -> pa.Array:
        """Return the values of the fields ``first + place`` with the escapes undone (decision 0026).

        capture properties §6.3: escapes are removed "only in quoted values"; its examples without a quote
        property have them everywhere.
        """
        options = self.options
        if options.quote and not seen & kernels.QUOTED:
            return values
        plain = values
        for escaped, delimiter in self._replacements:
            plain = _replaced(plain, escaped, delimiter)
        if options.nullindicator_escaped and options.nullindicator:
            literal = pc.equal(plain, options.nullindicator_escaped.decode())
            plain = pc.if_else(literal, options.nullindicator.decode(), plain)
        if plain is values or not options.quote:
            return plain
        quoted = self.fields.flags[first + place] & kernels.QUOTED > 0
        return plain if quoted.all() else pc.if_else(pa.array(quoted), plain, values)


def _replaced(values: pa.Array, pattern: bytes, replacement: bytes) -> pa.Array:
    if not pc.any(pc.match_substring(values, pattern.decode())).as_py():
        return values
    return pc.replace_substring(values, pattern.decode(), replacement.decode())
