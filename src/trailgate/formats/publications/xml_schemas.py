"""Messages of XML publications that change no row: tables from schema messages (subSchema and addColumn, event publishing §3), and notes.

Schemas are compared with the definitions that are given. Without these, ``InferredTables`` finds the tables that schema messages describe, before anything
is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.definitions.defgen import complete
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.formats.publications.kinds import XML, kind_of
from trailgate.formats.publications.xml_envelopes import Envelopes, as_utf8
from trailgate.formats.publications.xml_vocabulary import (
    ADDED_COLUMN,
    COLUMN,
    CONTROLS,
    DEACTIVATED,
    DEFINING,
    ERROR,
    HEARTBEAT,
    LOADED,
    escape,
)
from trailgate.formats.xml.documents import Element, Limits, parse_document
from trailgate.messages.messages import MessageBatch
from trailgate.messages.records import BadMessagesError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import Family

INTEGER_DIGITS: Final = 18  # what 64 bits hold
_CHAR, _VARCHAR, _BIN16, _BIN32, _BIN64 = 0, 64, 130, 132, 134
_REAL, _DOUBLE, _DATETIME = 142, 143, 192
_FIXED_TEXT, _BINARY = 3, 4
_MOST_TEXT: Final = 65535  # what the two length bytes of such a column hold
_MOST_LARGE: Final = 1 << 30
_WIDE: Final = 3  # bytes of UTF-8 that two bytes of a graphic character may need
_TO_SECONDS, _NANOSECONDS = 19, 29
_DECFLOAT: Final = 43  # -d.(33 digits)E+dddd
_TRUE: Final = ("1", "true")


class _Schema(NamedTuple):
    """A column's type and lengths as a schema message has them."""

    type: str
    length: int
    precision: int
    scale: int


def _of(code: int, length: int) -> Column:
    return Column("", code, length)


def _text(own: _Schema) -> Column:
    fixed = own.type == "char"
    return Column("", _CHAR if fixed else _VARCHAR, min(own.length or _MOST_TEXT, _MOST_TEXT))


def _graphic(own: _Schema) -> Column:
    characters = own.length or _MOST_TEXT // _WIDE
    return Column("", _VARCHAR, min(_WIDE * characters, _MOST_TEXT), character_length=characters)


def _bytes(own: _Schema) -> Column:
    length = min(own.length or _MOST_TEXT // 2, _MOST_TEXT // 2)
    return Column("", _VARCHAR, 2 * length, sub_type=_BINARY)


def _large(own: _Schema) -> Column:
    """Return a large object: how long it is in a trail is not limited by two bytes."""
    length = min(own.length or _MOST_LARGE, _MOST_LARGE)
    binary = own.type == "blob"
    return Column(
        "",
        _VARCHAR,
        2 * length if binary else length,
        sub_type=_BINARY if binary else 0,
        lob_type=1,
    )


def _decimal(own: _Schema) -> Column:
    precision = own.precision or own.length
    if precision <= INTEGER_DIGITS:
        return Column("", _BIN64, precision, scale=own.scale)
    length = precision + 1 + (own.scale > 0)
    return Column("", _VARCHAR, length, scale=own.scale, sub_type=_FIXED_TEXT)


def _timestamp(own: _Schema) -> Column:
    digits = own.scale or own.precision or 6
    return Column("", _DATETIME, min(_TO_SECONDS + 1 + digits, _NANOSECONDS))


_COLUMNS: Final[Mapping[str, Callable[[_Schema], Column]]] = MappingProxyType(
    {
        "smallint": lambda _: _of(_BIN16, 2),
        "integer": lambda _: _of(_BIN32, 4),
        "bigint": lambda _: _of(_BIN64, 8),
        "real": lambda _: _of(_REAL, 4),
        "float": lambda _: _of(_DOUBLE, 8),
        "double": lambda _: _of(_DOUBLE, 8),
        "decimal": _decimal,
        "decfloat": lambda _: _of(_VARCHAR, _DECFLOAT),
        "date": lambda _: _of(_DATETIME, 10),
        "time": lambda _: _of(_VARCHAR, 8),
        "timestamp": _timestamp,
        **dict.fromkeys(("clob", "dbclob", "xml", "blob"), _large),
        **dict.fromkeys(("char", "varchar", "longvarchar"), _text),
        **dict.fromkeys(("graphic", "vargraphic", "longvargraphic"), _graphic),
        **dict.fromkeys(("bitchar", "bitvarchar", "bitlongvarchar", "rowid"), _bytes),
    }
)


def table_of(element: Element) -> Table:
    """Return the table that a subSchema, or the one column that an addColumn, describes; raises DecodeError."""
    attributes = attributes_of(element)
    name = ".".join(_need_text(attributes, word, element.name) for word in ("srcOwner", "srcName"))
    columns = tuple(_column(child) for child in element.children if child.name == COLUMN)
    if not columns:
        raise DecodeError(f"{element.name} of {name} has no column")
    return complete(Table(name, columns))


def attributes_of(element: Element) -> Mapping[str, str]:
    """Return an element's attributes by name, without blanks around their values."""
    return {each.name: each.value.strip() for each in element.attributes}


def _column(element: Element) -> Column:
    attributes = attributes_of(element)
    name = _need_text(attributes, "name", COLUMN)
    kind = _need_text(attributes, "type", COLUMN).casefold()
    if kind not in _COLUMNS:
        raise DecodeError(f"the type of column {name} is {kind!r}, which is not known")
    numbers = (_number(attributes, word, name) for word in ("len", "precision", "scale"))
    found = _COLUMNS[kind](_Schema(kind, *numbers))
    key = attributes.get("isKey", "0") in _TRUE
    return Column(
        name,
        found.data_type,
        found.external_length,
        scale=found.scale,
        sub_type=found.sub_type,
        character_length=found.character_length,
        lob_type=found.lob_type,
        key=key,
        nullable=not key,
    )


def _need_text(attributes: Mapping[str, str], name: str, element: str) -> str:
    value = attributes.get(name)
    if not value:
        raise DecodeError(f"{element} has no attribute {name}", where=Where(field=name))
    return value


def _number(attributes: Mapping[str, str], name: str, column: str) -> int:
    text = attributes.get(name) or "0"
    if not text.isdecimal() or len(text) > 9:
        raise DecodeError(f"{name} of column {column} is {text!r}, not a number")
    return int(text)


def differences(table: Table, described: Iterable[Column]) -> tuple[str, ...]:
    """Return the keys that a schema message has otherwise than a table's definition, a text each.

    Types are not compared: definitions may have others on purpose.
    """
    known = {column.name.casefold(): column for column in table.columns}
    found = []
    for column in described:
        own = known.get(column.name.casefold())
        if own is not None and own.key != column.key and table.marked_keys:
            where = "the message" if column.key else "the definition"
            found.append(f"column {column.name} is a key in {where} alone")
    return tuple(found)


_STRINGS: Final = MappingProxyType({0: "char", 1: "char", 2: "graphic", 66: "vargraphic"})
_INTEGERS: Final = MappingProxyType({_BIN16: "smallint", _BIN32: "integer", _BIN64: "bigint"})


def type_of(column: Column) -> str:
    """Return the element of a column's type (event publishing §3)."""
    return _OF_FAMILIES[column.family](column)


def _of_text(column: Column) -> str:
    return "clob" if column.lob_type else _STRINGS.get(column.data_type, "varchar")


def _of_integer(column: Column) -> str:
    return "decimal" if column.scale else _INTEGERS.get(column.data_type, "decimal")


def _of_number(column: Column) -> str:
    return "decimal" if column.sub_type == _FIXED_TEXT else "decfloat"


def _of_datetime(column: Column) -> str:
    if column.zoned or column.external_length < _DATE:
        return "varchar"
    return (
        "timestamp"
        if column.external_length >= _TO_SECONDS
        else _SHORT.get(column.external_length, "date")
    )


_DATE: Final = 10
_SHORT: Final = MappingProxyType({13: "varchar", 16: "varchar"})  # hours and minutes alone
_OF_FAMILIES: Final[Mapping[Family, Callable[[Column], str]]] = MappingProxyType(
    {
        Family.TEXT: _of_text,
        Family.NUMBER_TEXT: _of_number,
        Family.INTEGER: _of_integer,
        Family.UNSIGNED: lambda _: "decimal",
        Family.DATETIME: _of_datetime,
        Family.BYTES: lambda column: "blob" if column.lob_type else "bitvarchar",
        Family.FLOAT: lambda column: "real" if column.type_row.width == 4 else "double",
        Family.NUMBERED: lambda _: "varchar",
        Family.UNSUPPORTED: lambda _: "varchar",
    }
)


def schema_of(table: Table) -> bytes:
    """Return the columns of a table's schema message."""
    return b"".join(map(_schema_column, table.columns))


def _schema_column(column: Column) -> bytes:
    kind = type_of(column)
    given = {"name": column.name, "type": kind, "isKey": str(int(column.key))}
    if kind in ("decimal", "decfloat"):
        given["precision"] = str(column.external_length)
        given["scale"] = str(column.scale)
    elif kind == "timestamp":
        given["scale"] = str(max(0, min(column.external_length, _NANOSECONDS) - _TO_SECONDS - 1))
    elif kind.startswith("bit") or kind == "blob":
        given["len"] = str(column.external_length // 2)
    else:
        given["len"] = str(column.external_length)
    written = "".join(f' {name}="{escape(value).decode()}"' for name, value in given.items())
    return f"<{COLUMN}{written}/>".encode()


_BEATS: Final = (
    "\0heartbeat\0"  # a note of how many came begins so; no text of XML has this character
)
_LAST_COMMIT: Final = ("lastCmitTime", "lastcmitTime")  # both are seen (event publishing §3.1)
_MEANINGS: Final = {
    DEACTIVATED: "publishing of {table} was deactivated ({state})",
    LOADED: "the load of {table} is done ({state})",
    ERROR: "Q Capture reports an error of {table}: {error}",
}


class Controls:
    """Reads the messages of a batch that have no rows; ``definitions`` are those that schemas are compared with."""

    def __init__(self, limits: Limits, definitions: Definitions | None = None) -> None:
        self.limits, self.definitions = limits, definitions

    def notes(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> frozenset[str]:
        """Return what a run notes of these messages; add the errors of those that are wrong."""
        found: set[str] = set()
        beats, last = [], ""
        for number, element in self._elements(messages, envelopes, errors):
            if element.name == HEARTBEAT:
                beats.append(number)
                given = attributes_of(element)
                last = max(last, *(given.get(name, "") for name in _LAST_COMMIT))
                continue
            try:
                found.update(self._note(element, _place(messages, number)))
            except DecodeError as error:
                errors.setdefault(number, error)
        if beats:
            place = f"{messages.files[beats[0]]}.{messages.offsets[beats[0]]}"
            parts = place, str(len(beats)), last
            found.add(_BEATS + "\0".join(parts))
        return frozenset(found)

    def tables(self, messages: MessageBatch, envelopes: Envelopes) -> Iterator[tuple[Table, bool]]:
        """Yield the table of each schema message, and whether it is a column added to one."""
        errors: dict[int, TrailgateError] = {}
        for _, element in self._elements(messages, envelopes, errors):
            if element.name in DEFINING:
                yield table_of(element), element.name == ADDED_COLUMN

    def _elements(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> Iterator[tuple[int, Element]]:
        """Yield the number of each such message, and its element below the root."""
        whole = memoryview(messages.data)
        numbers = sorted(envelopes.message[envelopes.of(*CONTROLS, *DEFINING)].tolist())
        for number in numbers:
            if number in errors:
                continue
            body = bytes(whole[messages.starts[number] : messages.ends[number]])
            document = parse_document(body, self.limits)
            yield number, document.top.children[0].children[0]

    def _note(self, element: Element, place: str) -> Iterator[str]:
        if element.name in DEFINING:
            yield from self._compare(table_of(element), element.name, place)
            return
        given = attributes_of(element)
        table = ".".join(given.get(name, "?") for name in ("srcOwner", "srcName"))
        state, error = given.get("stateInfo", "no state"), given.get("errorMsg", "no text")
        text = _MEANINGS[element.name].format(table=table, state=state, error=error)
        yield f"{text}: {element.name}, {place}"

    def _compare(self, described: Table, kind: str, place: str) -> Iterator[str]:
        """Yield the differences of keys; raises DecodeError for columns that the definition lacks."""
        if self.definitions is None:
            return
        own = self.definitions.get(described.name)
        if own is None:
            yield f"{kind} of {described.name}, which is not in the definitions: {place}"
            return
        known = {column.name.casefold() for column in own.columns}
        lacking = [c.name for c in described.columns if c.name.casefold() not in known]
        if lacking:
            problem = (
                f"{kind} has columns that the definition of {own.name} lacks: {', '.join(lacking)}"
            )
            hint = "A trail has one definition of a table: define them, and begin a new trail"
            raise DecodeError(problem, hint=hint)
        for difference in differences(own, described.columns):
            yield f"{kind} of {own.name}: {difference}; the definition is obeyed: {place}"


def _place(messages: MessageBatch, number: int) -> str:
    source, offset = messages.place(number)
    return f"{source}, byte {offset}"


def warnings(notes: Iterable[str]) -> frozenset[str]:
    """Return what a run notes at its end: heartbeats are counted together."""
    found, count, last = set(), 0, ""
    for note in notes:
        if not note.startswith(_BEATS):
            found.add(note)
            continue
        *_, own, commit = note.split("\0")
        count, last = count + int(own), max(last, commit)
    if count:
        until = f", the last one of commits up to {last}" if last else ""
        found.add(f"heartbeats in the messages: {count}{until}")
    return frozenset(found)


_WORDS: Final = tuple(word.encode() for word in DEFINING)
_LIMITS: Final = Limits(settable=False)


def described_tables(messages: MessageBatch, page: str | None) -> Iterator[Table]:
    """Yield the table of each schema message, with one column where a column was added.

    ``page`` is the code page given for all messages. What is not a schema message, or broken, is left to the capture, which reports it.
    """
    for body in _with_words(messages, page):
        try:
            document = parse_document(body, _LIMITS)
            for root in document.top.children:
                yield from (table_of(each) for each in root.children if each.name in DEFINING)
        except DecodeError:
            continue


def _with_words(messages: MessageBatch, page: str | None) -> Iterator[bytes]:
    """Yield the documents that have the name of a schema message in them."""
    try:
        _, kind = kind_of(messages)
        if kind != XML:
            return
        messages = as_utf8(messages, page)
    except BadMessagesError as bad:
        kept = [number for number in range(len(messages)) if number not in bad.errors]
        if kept and len(kept) < len(messages):
            for number in kept:
                yield from _with_words(messages.slice(number, number + 1), page)
        return
    whole = bytes(messages.data)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    if any(word in whole for word in _WORDS):
        for start, end in bounds:
            body = whole[start:end]
            if any(word in body for word in _WORDS):
                yield body
