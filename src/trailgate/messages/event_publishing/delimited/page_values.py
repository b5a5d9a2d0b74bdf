"""Values of delimited publications in the code page of their messages: bytes that are not characters spoil their own field alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.single_byte import SingleBytePage
from trailgate.columnar.code_pages.varying import decode_column
from trailgate.columnar.delimited import Fields
from trailgate.columnar.rows import text_view
from trailgate.errors import DecodeError, Where
from trailgate.messages.delimited.field_values import FieldValues
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.message_text import are_utf8
from trailgate.messages.parsing.messages import MessageBatch

ERROR: Final = "error"
REPLACE: Final = "replace"
_HEADER_HINT: Final = "Is event_publishing.codepage the code page of the messages?"
_HINT: Final = f"{_HEADER_HINT} event_publishing.undecodable=missing or replace takes such values"


class PageValues(FieldValues):
    """Copies the values of fields and makes them text; ``undecodable`` has the bad rows of the last columns, by their places."""

    def __init__(
        self,
        data: Octets,
        fields: Fields,
        options: DelimitedOptions,
        page: CodePage,
        policy: str = ERROR,
    ) -> None:
        super().__init__(data, fields, options)
        self.page = page
        self.policy = policy
        self.undecodable: dict[int, Mask] = {}

    def check_text(self, messages: MessageBatch) -> None:
        """Find out whether all bodies are UTF-8: then no value need be looked at by itself."""
        self.checked = self.page.name == "utf-8" and are_utf8(messages)

    def columns(
        self, first: Longs, places: Sequence[int], *, nullable: bool = True
    ) -> list[pa.Array]:
        """Return a text column for each place in the records, as ``FieldValues`` does.

        Values of columns that are not text are null where they may be, see ``undecodable``.
        """
        self.undecodable = {}
        return super().columns(first, places, nullable=nullable)

    def not_characters(self, where: Where, hint: str) -> DecodeError:
        """Return the error of bytes that are not text."""
        problem = f"bytes that are not characters of the code page {self.page.name}"
        return DecodeError(problem, where=where, hint=hint)

    def _text(self, values: pa.Array, place: int) -> pa.Array:
        """Return bytes as text; raises DecodeError with the row as its record and the place as its column."""
        raw = values.view(pa.binary())
        if not isinstance(self.page, SingleBytePage):
            try:
                return raw.cast(pa.string())
            except pa.ArrowInvalid:
                pass
        text, bad = decode_column(self.page, raw)
        if bad is None or not bad.any():
            return text
        row = int(np.argmax(bad))
        in_header = place < len(self.options.header)
        if self.policy == ERROR or in_header:
            where = Where(record=row, column=place, raw=raw[row].as_py())
            raise self.not_characters(where, _HEADER_HINT if in_header else _HINT)
        if self.policy == REPLACE:
            return _replaced(self.page.name, raw, text, bad)
        self.undecodable[place] = bad
        return text


def converted(messages: MessageBatch, page: CodePage) -> MessageBatch:
    """Return messages of a page of several bytes a character in UTF-8; raises BadMessagesError for those that are not text."""
    whole = memoryview(messages.data)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    bodies = pa.array([bytes(whole[begin:end]) for begin, end in bounds], pa.binary())
    text, bad = decode_column(page, bodies)
    if bad is not None and bad.any():
        problem = f"the message is not text of the code page {page.name}"
        raise BadMessagesError(
            {
                at: DecodeError(problem, where=Where(raw=bodies[at].as_py()))
                for at in np.flatnonzero(bad).tolist()
            }
        )
    offsets, data = text_view(text)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return replace(messages, data=pa.py_buffer(data), starts=starts, ends=ends)


def _replaced(page: str, raw: pa.Array, text: pa.Array, bad: Mask) -> pa.Array:
    """Return the text with U+FFFD in the bad rows, for what cannot be read."""
    found = text.to_pylist()
    for row in np.flatnonzero(bad).tolist():
        found[row] = raw[row].as_py().decode(page, "replace")
    return pa.array(found, pa.string())
