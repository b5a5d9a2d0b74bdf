"""The shortest reading of delimited text, byte by byte, to be checked by eye.

A quote opens a quoted value only where a field begins. Inside it delimiters are data, and the
escaped quote is a quote. Of two delimiters that begin at one byte the longer one counts.
"""

from __future__ import annotations

from trailgate.columnar.delimited import DelimitedDialect
from trailgate.formats.delimited.options import DelimitedOptions


class MalformedError(Exception):
    """A quoted value is not closed, or text follows its closing quote."""


def split(body: bytes, dialect: DelimitedDialect) -> list[list[bytes]]:
    """Return a body's records as lists of fields, quotes included."""
    records: list[list[bytes]] = []
    record: list[bytes] = []
    place = 0
    while True:
        end = _field_end(body, place, dialect)
        record.append(body[place:end])
        delimiter = _delimiter(body, end, dialect)
        if delimiter != dialect.field:
            records.append(record)
            record = []
        place = end + len(delimiter)
        if not delimiter or (place == len(body) and not record):
            return records  # what ends a record at the body's end begins no other


def _delimiter(body: bytes, place: int, dialect: DelimitedDialect) -> bytes:
    delimiters = (dialect.field, dialect.line, *((b"\r\n",) if dialect.returns else ()))
    found = [d for d in delimiters if body.startswith(d, place)]
    return max(found, key=len, default=b"")


def _field_end(body: bytes, place: int, dialect: DelimitedDialect) -> int:
    if not dialect.quote or not body.startswith(dialect.quote, place):
        while place < len(body) and not _delimiter(body, place, dialect):
            place += 1
        return place
    place += len(dialect.quote)
    while place < len(body):
        if body.startswith(dialect.escaped_quote, place):
            place += len(dialect.escaped_quote)
        elif body.startswith(dialect.quote, place):
            place += len(dialect.quote)
            if place < len(body) and not _delimiter(body, place, dialect):
                raise MalformedError("text follows a closing quote")
            return place
        else:
            place += 1
    raise MalformedError("a quoted value is not closed")


def value(field: bytes, options: DelimitedOptions) -> str | None:
    """Return a column's value, None where it is NULL."""
    quote = options.quote or b""
    quoted = quote != b"" and field.startswith(quote)
    escapes = quoted or not quote
    if not quoted and field == (options.nullindicator or b""):
        return None
    if quoted:
        field = field[len(quote) : -len(quote)]
        field = field.replace(options.quote_escaped or quote * 2, quote)
    for escaped, plain in (
        (options.fielddelim_escaped, options.fielddelim),
        (options.linedelim_escaped, options.linedelim),
    ):
        field = field.replace(escaped, plain) if escaped and escapes else field
    if escapes and options.nullindicator and field == options.nullindicator_escaped:
        field = options.nullindicator
    return field.decode()


def images(
    record: list[bytes], options: DelimitedOptions, columns: list[str]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return a record's before and after values, all of them; its operations are I, U and D."""
    cells = record[len(options.header) :]
    parts = ["after", "before"] if options.afterfirst else ["before", "after"]
    parts = parts if options.hasbefores else ["after"]
    parts = ["name", *parts] if options.hasnames else parts
    count = len(cells) // len(parts)
    found: dict[str, dict[str, str | None]] = {"before": {}, "after": {}, "name": {}}
    for i, cell in enumerate(cells):
        part, column = divmod(i, count) if options.isgrouped else divmod(i, len(parts))[::-1]
        found[parts[part]][columns[column]] = value(cell, options)
    kind = options.optype_values[record[0]]
    if kind == "D":
        return found["before"] if options.hasbefores else found["after"], {}
    return {} if kind == "I" else found["before"], found["after"]
