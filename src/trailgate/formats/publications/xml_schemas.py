"""Read and write the messages of XML publications that change no row: schema messages, heartbeats and reports.

Schema messages (subSchema and addColumn, event publishing §3) describe tables. They are compared
with the definitions, if there are any. Otherwise `PublicationTableInference` collects the tables
before anything is captured. Control messages become notes, for example that publishing of a table
was deactivated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.formats.publications.detection import XML, detect_format
from trailgate.formats.publications.xml_encodings import as_utf8
from trailgate.formats.publications.xml_envelopes import Envelopes
from trailgate.formats.publications.xml_vocabulary import (
    ADDED_COLUMN,
    COLUMN,
    CONTROLS,
    DEACTIVATED,
    DEFINING,
    ERROR,
    HEARTBEAT,
    LOADED,
    escape_attribute,
)
from trailgate.formats.xml.documents import XmlElement, parse_document
from trailgate.formats.xml.faults import XmlLimits
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import BadMessagesError
from trailgate.model.table_names import join_owner
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TypeFamily

INTEGER_DIGITS: Final = 18  # digits that always fit into 64 bits
_CHAR, _VARCHAR, _BIN16, _BIN32, _BIN64 = 0, 64, 130, 132, 134
_REAL, _DOUBLE, _DATETIME = 142, 143, 192
_FIXED_TEXT, _BINARY = 3, 4
_MOST_TEXT: Final = 65535  # the largest length in the two length bytes of a text column
_MOST_LARGE: Final = 1 << 30
_WIDE: Final = 3  # UTF-8 bytes of a two-byte graphic character
_TO_SECONDS, _NANOSECONDS = 19, 29
_DECFLOAT: Final = 43  # -d.(33 digits)E+dddd
_TRUE: Final = ("1", "true")


# By the code of a text type: the type of publications.
_STRINGS: Final = MappingProxyType({0: "char", 1: "char", 2: "graphic", 66: "vargraphic"})
_INTEGERS: Final = MappingProxyType({_BIN16: "smallint", _BIN32: "integer", _BIN64: "bigint"})
_DATE: Final = 10
_SHORT: Final = MappingProxyType({13: "varchar", 16: "varchar"})  # date times without seconds

# The start of a note that counts heartbeats. XML text cannot contain the character NUL.
_BEATS: Final = "\0heartbeat\0"
_LAST_COMMIT: Final = ("lastCmitTime", "lastcmitTime")  # both spellings occur (§3.1)
_MEANINGS: Final = {
    DEACTIVATED: "publishing of {table} was deactivated ({state})",
    LOADED: "the load of {table} is done ({state})",
    ERROR: "Q Capture reports an error of {table}: {error}",
}
_WORDS: Final = tuple(word.encode() for word in DEFINING)
_LIMITS: Final = XmlLimits(settable=False)


class _Schema(NamedTuple):
    """A column's type and lengths, as stated in a schema message of XML publications."""

    type: str
    length: int
    precision: int
    scale: int


def _of(code: int, length: int) -> Column:
    return Column("", code, length)


def _text(schema: _Schema) -> Column:
    fixed = schema.type == "char"
    return Column("", _CHAR if fixed else _VARCHAR, min(schema.length or _MOST_TEXT, _MOST_TEXT))


def _graphic(schema: _Schema) -> Column:
    # A graphic character of two bytes may need three bytes in UTF-8.
    characters = schema.length or _MOST_TEXT // _WIDE
    return Column("", _VARCHAR, min(_WIDE * characters, _MOST_TEXT), character_length=characters)


def _bytes(schema: _Schema) -> Column:
    # Bytes are stored as hex digits, two per byte.
    length = min(schema.length or _MOST_TEXT // 2, _MOST_TEXT // 2)
    return Column("", _VARCHAR, 2 * length, sub_type=_BINARY)


def _large(schema: _Schema) -> Column:
    """Return the column for the large objects that a schema message describes.

    Its values in a trail may be longer than two length bytes can state.
    """
    length = min(schema.length or _MOST_LARGE, _MOST_LARGE)
    binary = schema.type == "blob"
    return Column(
        "",
        _VARCHAR,
        2 * length if binary else length,
        sub_type=_BINARY if binary else 0,
        lob_type=1,
    )


def _decimal(schema: _Schema) -> Column:
    precision = schema.precision or schema.length
    # A scaled 64-bit integer; otherwise text with a sign and a point.
    if precision <= INTEGER_DIGITS:
        return Column("", _BIN64, precision, scale=schema.scale)
    length = precision + 1 + (schema.scale > 0)
    return Column("", _VARCHAR, length, scale=schema.scale, sub_type=_FIXED_TEXT)


def _timestamp(schema: _Schema) -> Column:
    # Db2's default is six digits of fraction.
    digits = schema.scale or schema.precision or 6
    return Column("", _DATETIME, min(_TO_SECONDS + 1 + digits, _NANOSECONDS))


# By a type of publications: the column that can store all of its values.
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


def parse_schema_table(element: XmlElement) -> Table:
    """Parse the table that a subSchema or addColumn element of an XML publication describes.

    For an addColumn, the table has only the added column.

    Raises DecodeError if an attribute is missing or wrong, or there is no column.
    """
    attributes = attributes_of(element)
    name = join_owner(
        *(_need_text(attributes, word, element.name) for word in ("srcOwner", "srcName"))
    )
    columns = tuple(_column(child) for child in element.children if child.name == COLUMN)
    if not columns:
        raise DecodeError(f"{element.name} of {name} has no column")
    return complete_table(Table(name, columns))


def attributes_of(element: XmlElement) -> Mapping[str, str]:
    """Return the attributes of a schema message's element by name, without surrounding blanks."""
    return {each.name: each.value.strip() for each in element.attributes}


def _column(element: XmlElement) -> Column:
    attributes = attributes_of(element)
    name = _need_text(attributes, "name", COLUMN)
    kind = _need_text(attributes, "type", COLUMN).casefold()
    if kind not in _COLUMNS:
        raise DecodeError(f"the type of column {name} is {kind!r}, which is unknown")
    numbers = (_number(attributes, word, name) for word in ("len", "precision", "scale"))
    template = _COLUMNS[kind](_Schema(kind, *numbers))
    key = attributes.get("isKey", "0") in _TRUE
    return Column(
        name,
        template.data_type,
        template.external_length,
        scale=template.scale,
        sub_type=template.sub_type,
        character_length=template.character_length,
        lob_type=template.lob_type,
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


def key_differences(table: Table, described: Iterable[Column]) -> tuple[str, ...]:
    """Describe each column that is a key only in the schema message or only in the definition.

    A definition that marks no key has no differences. Types are not compared, because definitions
    may intentionally use other types.
    """
    known = {column.name.casefold(): column for column in table.columns}
    found = []
    for column in described:
        own = known.get(column.name.casefold())
        if own is not None and own.key != column.key and table.marked_keys:
            where = "the message" if column.key else "the definition"
            found.append(f"column {column.name} is a key only in {where}")
    return tuple(found)


def publication_type(column: Column) -> str:
    """Return the type that a schema message of XML publications states for a column, which is also the element of its values (event publishing §3)."""
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


# By the family of a column's type: the type of publications.
_OF_FAMILIES: Final[Mapping[TypeFamily, Callable[[Column], str]]] = MappingProxyType(
    {
        TypeFamily.TEXT: _of_text,
        TypeFamily.NUMBER_TEXT: _of_number,
        TypeFamily.INTEGER: _of_integer,
        TypeFamily.UNSIGNED: lambda _: "decimal",
        TypeFamily.DATETIME: _of_datetime,
        TypeFamily.BYTES: lambda column: "blob" if column.lob_type else "bitvarchar",
        TypeFamily.FLOAT: lambda column: "real" if column.type_row.width == 4 else "double",
        TypeFamily.NUMBERED: lambda _: "varchar",
        TypeFamily.UNSUPPORTED: lambda _: "varchar",
    }
)


def schema_columns(table: Table) -> bytes:
    """Write the `col` elements of a table's schema message, which precedes XML publications."""
    return b"".join(map(_schema_column, table.columns))


def _schema_column(column: Column) -> bytes:
    kind = publication_type(column)
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
    written = "".join(
        f' {name}="{escape_attribute(value).decode()}"' for name, value in given.items()
    )
    return f"<{COLUMN}{written}/>".encode()


class ControlMessages:
    """Reads the control messages of a batch of XML publications, which have no rows.

    Schemas are compared with `definitions`.
    """

    def __init__(self, limits: XmlLimits, definitions: Definitions | None = None) -> None:
        self.limits, self.definitions = limits, definitions

    def notes(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> frozenset[str]:
        """Return notes on control messages of XML publications.

        For example, that publishing of a table was stopped. Errors are added to `errors`.
        """
        texts: set[str] = set()
        beats, last = [], ""
        for number, element in self._elements(messages, envelopes, errors):
            if element.name == HEARTBEAT:
                beats.append(number)
                given = attributes_of(element)
                last = max(last, *(given.get(name, "") for name in _LAST_COMMIT))
                continue
            try:
                texts.update(self._note(element, _place(messages, number)))
            except DecodeError as error:
                errors.setdefault(number, error)
        if beats:
            place = f"{messages.files[beats[0]]}.{messages.offsets[beats[0]]}"
            parts = place, str(len(beats)), last
            texts.add(_BEATS + "\0".join(parts))
        return frozenset(texts)

    def tables(self, messages: MessageBatch, envelopes: Envelopes) -> Iterator[tuple[Table, bool]]:
        """Yield the table of each schema message, and whether the message is an addColumn.

        The table of an addColumn has only the added column.
        """
        errors: dict[int, TrailgateError] = {}
        for _, element in self._elements(messages, envelopes, errors):
            if element.name in DEFINING:
                yield parse_schema_table(element), element.name == ADDED_COLUMN

    def _elements(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> Iterator[tuple[int, XmlElement]]:
        """Yield the message number and the element below the root of each control or schema message."""
        data = memoryview(messages.data)
        numbers = sorted(envelopes.message[envelopes.mask_types(*CONTROLS, *DEFINING)].tolist())
        for number in numbers:
            if number in errors:
                continue
            body = bytes(data[messages.starts[number] : messages.ends[number]])
            document = parse_document(body, self.limits)
            yield number, document.top.children[0].children[0]

    def _note(self, element: XmlElement, place: str) -> Iterator[str]:
        if element.name in DEFINING:
            yield from self._compare(parse_schema_table(element), element.name, place)
            return
        given = attributes_of(element)
        table = ".".join(given.get(name, "?") for name in ("srcOwner", "srcName"))
        state, error = given.get("stateInfo", "no state"), given.get("errorMsg", "no text")
        text = _MEANINGS[element.name].format(table=table, state=state, error=error)
        yield f"{text}: {element.name}, {place}"

    def _compare(self, described: Table, kind: str, place: str) -> Iterator[str]:
        """Compare the table of a schema message with its definition, and yield notes on differences.

        These are columns that are a key in only one of them, or a missing definition. Raises
        DecodeError if columns are missing from the definition.
        """
        if self.definitions is None:
            return
        defined = self.definitions.get(described.name)
        if defined is None:
            # A table that is not captured may be published: only a note.
            yield f"{kind} of {described.name}, which is not in the definitions: {place}"
            return
        known = {column.name.casefold() for column in defined.columns}
        lacking = [c.name for c in described.columns if c.name.casefold() not in known]
        if lacking:
            problem = f"{kind} has columns that the definition of {defined.name} lacks: {', '.join(lacking)}"
            hint = (
                "A trail has one definition of a table: define the columns, and begin a new trail"
            )
            raise DecodeError(problem, hint=hint)
        for difference in key_differences(defined, described.columns):
            yield f"{kind} of {defined.name}: {difference}; the definition is used: {place}"

    @staticmethod
    def warnings(notes: Iterable[str]) -> frozenset[str]:
        """Combine the notes on control messages of XML publications into warnings.

        Heartbeats are counted together.
        """
        texts, count, last = set(), 0, ""
        for note in notes:
            if not note.startswith(_BEATS):
                texts.add(note)
                continue
            *_, number, commit = note.split("\0")
            count, last = count + int(number), max(last, commit)
        if count:
            until = f", the last one of commits up to {last}" if last else ""
            texts.add(f"heartbeats in the messages: {count}{until}")
        return frozenset(texts)


def _place(messages: MessageBatch, number: int) -> str:
    source, offset = messages.place(number)
    return f"{source}, byte {offset}"


def described_tables(messages: MessageBatch, page: str | None) -> Iterator[Table]:
    """Yield the tables of schema messages. An addColumn message yields a table with only that column.

    `page` is the code page of all messages. Messages of other types and malformed ones are
    ignored; the capture reports the latter.
    """
    for body in _with_words(messages, page):
        try:
            document = parse_document(body, _LIMITS)
            for root in document.top.children:
                yield from (
                    parse_schema_table(each) for each in root.children if each.name in DEFINING
                )
        except DecodeError:
            continue


def _with_words(messages: MessageBatch, page: str | None) -> Iterator[bytes]:
    """Yield the XML publications that contain the name of a schema message."""
    try:
        _, kind = detect_format(messages)
        if kind != XML:
            return
        messages = as_utf8(messages, page)
    except BadMessagesError as bad:
        kept = np.setdiff1d(np.arange(len(messages)), bad.messages).tolist()
        # One bad message must not hide the schemas in the others: examine each of them alone.
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
