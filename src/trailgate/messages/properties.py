r"""Parse the adapter's `.properties` files into names and values, and these into typed options.

`parse_properties` checks every name against the property table, and the form of every value.
`PropertyReader` then reads one parser's properties by name and type: texts, bytes with `\xHH`,
value sources, tables. Errors name the line. `MetadataOptions` are the options that all parsers
have: the sources of an operation's ids, times, table and type.

Files named in properties are opened by the job, through the protocol `DefinitionFiles`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, TypeVar

from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.definitions.userdefs import read_userdefs
from trailgate.errors import OptionError, Where, did_you_mean
from trailgate.messages.property_rows import PropertyEffect, PropertyRow, PropertyType, SourceKind
from trailgate.messages.property_table import find_property, nearest_property
from trailgate.model.tables import Definitions, Table

_BLANKS: Final = " \t\r\f"
_LITERAL_ESCAPES: Final = frozenset({r"\n", r"\t", r"\r", r"\r\n"})


# Formats that define where metadata is: no note is needed about their defaults.
_FORMATS_OWN: Final = frozenset({"json", "debezium"})

# capture properties §7: users name their rules, and the names of a rule's properties begin with it.
_OF_XML: Final = re.compile(
    r"^[ \t]*parser\.type[ \t]*=[ \t]*xml[ \t\r]*$", re.MULTILINE | re.IGNORECASE
)


K = TypeVar("K")
V = TypeVar("V")
# \x1e, or \x without its two digits, which is an error
_HEX: Final = re.compile(rb"\\x([0-9a-fA-F]{2})?")
_SPECIAL: Final[tuple[tuple[str, SourceKind], ...]] = (
    ("$jmsid", SourceKind.MESSAGE_ID),
    ("*ts", SourceKind.TIMESTAMP),
    ("*txid", SourceKind.TX_ID),
    ("*seqid", SourceKind.SEQ_ID),
)
T = TypeVar("T")
MESSAGE_ID_WORDS: Final = ("ogg", "time", "wmq", "activemq")  # capture properties §2.1
# com.example.MyIdParser
_JAVA_CLASS: Final = re.compile(r"[a-z_][\w$]*(\.[\w$]+)*\.[A-Z][\w$]*")
OP_TYPES: Final = (("insert", "I"), ("update", "U"), ("delete", "D"), ("truncate", "T"))
TX_INDICATORS: Final = (("begin", "B"), ("middle", "M"), ("end", "E"), ("whole", "W"))
TIME: Final = "time"  # a generated jms.id: the position of the message
NUMBERED_INDICATORS: Final = ((b"0", "B"), (b"1", "M"), (b"2", "E"), (b"3", "W"))


@dataclass(frozen=True, slots=True)
class PropertyEntry:
    """One property of a file: its canonical name, its value, its line (from 1), and its name as written.

    `of_rule` marks the properties of XML rules, whose names begin with the rule's name.
    """

    name: str
    value: str
    line: int
    written: str
    of_rule: bool = False


@dataclass(frozen=True, slots=True)
class Properties:
    """The entries of a properties file, and warnings about them (name, reason).

    `source` is the name of the file in errors.
    """

    entries: tuple[PropertyEntry, ...]
    source: str = ""
    notes: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> PropertyEntry | None:
        """Return the property of the file that has this canonical name, or None."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def error(
        self, problem: str, entry: PropertyEntry | None = None, hint: str = ""
    ) -> OptionError:
        """Create an error located at a property, or at the properties file."""
        if entry is None:
            return OptionError(problem, where=Where(source=self.source or None), hint=hint)
        where = Where(source=self.source or None, line=entry.line, field=entry.written)
        return OptionError(problem, where=where, hint=hint)


def parse_properties(data: bytes, source: str = "") -> Properties:
    r"""Parse a properties file into entries. Raises OptionError that names the line.

    capture properties §1: one `name=value` per line; `#` as the first character starts a comment. A
    backslash is data except in `\xHH`, and there are no continuation lines, because a delimiter may
    be a backslash. Bytes that are not UTF-8 are kept for delimiters.
    """
    # surrogateescape keeps bytes that are not UTF-8, because a delimiter may be any byte.
    text = data.decode("utf-8-sig", "surrogateescape")
    found: dict[str, PropertyEntry] = {}
    rules = _OF_XML.search(text) is not None
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(_BLANKS)
        if not stripped or stripped[0] == "#":
            continue
        try:
            entry = _entry(stripped, number, rules=rules)
            _add(found, entry)
        except OptionError as error:
            raise error.with_place(source=source or None, line=number) from None
    entries = tuple(found.values())
    notes = (*_notes(found), *_stray_notes(found), *_time_notes(found))
    return Properties(entries, source, notes)


def _entry(line: str, number: int, *, rules: bool) -> PropertyEntry:
    """Parse a line of a properties file, `name=value`.

    With `rules`, the file has XML rules, and unknown names with a point are their properties.
    """
    name, equals, value = line.partition("=")
    name, value = name.strip(_BLANKS), value.strip(_BLANKS)
    if not equals or not name:
        raise OptionError(f"expected name=value, found {_shown(line)!r}")
    # Names must be UTF-8; values of delimiters need not.
    if name != _shown(name):
        raise OptionError(f"the name {_shown(name)} is not UTF-8")
    row = find_property(name)
    if row is None and rules and "." in name:
        return PropertyEntry(name, value, number, name, of_rule=True)
    if row is None:
        raise OptionError(f"unknown property {_shown(name)}", hint=_unknown_hint(name))
    if row.effect is PropertyEffect.USED:
        _check_value(row, name, value)
    return PropertyEntry(_canonical(row, name), value, number, name)


def _check_value(row: PropertyRow, name: str, value: str) -> None:
    where = Where(field=name)
    if not value:
        hint = r"A blank is written \x20" if row.kind is PropertyType.BYTES else ""
        raise OptionError(f"{name} has no value", where=where, hint=hint)
    if row.kind is not PropertyType.BYTES and value != _shown(value):
        raise OptionError(f"the value of {name} is not UTF-8", where=where)
    if row.choices and value.casefold() not in row.choices:
        known = ", ".join(row.choices)
        raise OptionError(f"{name} is {value!r}, expected one of {known}", where=where)


def _canonical(row: PropertyRow, name: str) -> str:
    # Table and column names are compared without case; the rest of a name is exact.
    if "<" in row.name:
        prefix = row.name[: row.name.index("<")]
        return prefix + name[len(prefix) :].upper()
    return name if "*" in row.name else row.name


def _unknown_hint(name: str) -> str:
    if name.startswith("xml."):
        return "Rules of XML messages need parser.type=xml"
    return nearest_property(name)


def _add(found: dict[str, PropertyEntry], entry: PropertyEntry) -> None:
    earlier = found.get(entry.name)
    if earlier is None:
        found[entry.name] = entry
    # The same value twice is accepted.
    elif earlier.value != entry.value:
        problem = f"{entry.written} differs from its value in line {earlier.line}"
        raise OptionError(problem, where=Where(field=entry.written))


def _notes(found: dict[str, PropertyEntry]) -> list[tuple[str, str]]:
    notes = []
    for entry in found.values():
        row = find_property(entry.written)
        if row is None:
            continue
        if row.effect is PropertyEffect.NONE:
            notes.append((entry.written, f"without effect: {row.reason}"))
        elif row.kind is PropertyType.BYTES and entry.value in _LITERAL_ESCAPES:
            notes.append(
                (entry.written, rf"{entry.value} is used literally; a byte is written \xHH")
            )
    if "delim.schemaandtable" in found and "delim.schema" in found:
        notes.append(("delim.schema", "without effect: delim.schemaandtable names the schema"))
    return notes


def _parser(found: dict[str, PropertyEntry]) -> str:
    """Return the parser that a properties file names (`parser.type`), in lower case, or ""."""
    entry = found.get("parser.type")
    return "" if entry is None else entry.value.casefold()


def _stray_notes(found: dict[str, PropertyEntry]) -> list[tuple[str, str]]:
    """Return warnings about properties of parsers other than the one used."""
    own, row = _parser(found), find_property("parser.type")
    # For example, `xml.rules` in a file with parser.type=json.
    others = {name for name in (row.choices if row else ()) if own and name != own}
    return [
        (entry.written, f"without effect: parser.type is {own}")
        for entry in found.values()
        if entry.name.partition(".")[0] in others
    ]


def _time_notes(found: dict[str, PropertyEntry]) -> list[tuple[str, str]]:
    """Return a warning if no property sets the timestamp: operations get the capture's time.

    Other defaults only generate ids, and are documented.
    """
    own = _parser(found)
    name = f"{own}.timestamp"
    row = None if own in _FORMATS_OWN else find_property(name)
    if row is None or not row.default or name in found:
        return []
    return [(name, f"not given: {row.default} is used")]


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ValueSource:
    """The source of a metadata value that a property names: a field, header, literal and so on.

    `name` is the name of the field or header, or the literal text, and otherwise empty.
    """

    kind: SourceKind
    name: str = ""

    def __str__(self) -> str:
        if self.kind is SourceKind.LITERAL:
            return f'"{self.name}"'
        return f"${self.name}" if self.kind is SourceKind.HEADER else self.name or self.kind.value


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """The names of a record's header fields.

    `place` describes in errors what defines them, for example the property `delim.header`.
    """

    names: tuple[str, ...] = ()
    place: str = ""

    def spelling(self, name: str) -> str | None:
        """Return a field's name as the header spells it, ignoring case, or None."""
        folded = name.casefold()
        return next((own for own in self.names if own.casefold() == folded), None)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Mapping[K, V]):
    """A small immutable mapping in the options of a parser, which can be pickled and hashed."""

    pairs: tuple[tuple[K, V], ...] = ()

    def __getitem__(self, key: K) -> V:
        # Linear search is enough for about ten pairs.
        for known, value in self.pairs:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs))


def parse_bytes(value: str) -> bytes:
    r"""Parse a `{value|\xHH}` property into bytes.

    Raises OptionError if `\x` is not followed by two hex digits.

    capture properties §1 and §6: several `\xHH` may follow each other and be mixed with text; any
    other backslash is data. Example: `\x0d\x0aX` is CR, LF and X.
    """

    def byte(match: re.Match[bytes]) -> bytes:
        if match.group(1) is None:
            raise OptionError(rf"expected two hexadecimal digits after \x in {value!r}")
        return bytes.fromhex(match.group(1).decode())

    return _HEX.sub(byte, value.encode("utf-8", "surrogateescape"))


def parse_names(value: str) -> tuple[str, ...]:
    """Parse the comma-separated names of a property. Raises OptionError if a name is empty or repeated."""
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise OptionError("a name is empty")
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise OptionError(f"{name} is named twice")
        seen.add(name.casefold())
    return names


def parse_source(value: str, allowed: tuple[SourceKind, ...], fields: HeaderFields) -> ValueSource:
    """Parse a property that names the source of a metadata value (capture properties §1.1).

    Example: `$GG_ID` is a message header, `"X"` a literal, and `OPTYPE` a header field, whose name
    is returned as `fields` spells it. Raises OptionError if the kind of source is not in `allowed`,
    or if there is no such field.
    """
    source = _source(value)
    if source.kind not in allowed:
        known = ", ".join(_describe(kind, fields) for kind in allowed)
        raise OptionError(f"{value} is not allowed here, expected {known}")
    if source.kind in (SourceKind.FIELD, SourceKind.HEADER) and not source.name:
        raise OptionError(f"{value} names nothing")
    return _field(source, allowed, fields) if source.kind is SourceKind.FIELD else source


def _describe(kind: SourceKind, fields: HeaderFields) -> str:
    return f"a name from {fields.place}" if kind is SourceKind.FIELD else kind.value


def _source(value: str) -> ValueSource:
    for written, kind in _SPECIAL:
        if value.casefold() == written:
            return ValueSource(kind)
    if value.startswith("$"):
        return ValueSource(SourceKind.HEADER, value[1:])
    if value.startswith("*"):
        known = ", ".join(written for written, _ in _SPECIAL[1:])
        raise OptionError(f"unknown system value {value}", hint=f"There are {known}")
    if value.startswith('"'):
        if len(value) < 2 or not value.endswith('"'):
            raise OptionError(f"no closing quote in {value}")
        return ValueSource(SourceKind.LITERAL, value[1:-1])
    return ValueSource(SourceKind.FIELD, value)


def _field(
    source: ValueSource, allowed: tuple[SourceKind, ...], fields: HeaderFields
) -> ValueSource:
    field_name = fields.spelling(source.name)
    if field_name is not None:
        return ValueSource(SourceKind.FIELD, field_name)
    hint = did_you_mean(source.name, fields.names)
    if not hint and SourceKind.LITERAL in allowed:
        hint = f'A fixed value is written in double quotes: "{source.name}"'
    hint = hint or f"{fields.place} names {', '.join(fields.names)}"
    raise OptionError(f"{source.name} is not a name of {fields.place}", hint=hint)


class DefinitionFiles(Protocol):
    """The interface by which properties read the definition files that they name."""

    def chosen(self, path: str) -> str:
        """Return the definitions file to read, if the properties name the file `path`."""
        ...

    def sourcedefs(self, path: str) -> Definitions:
        """Read the tables of a definitions file that a property names."""
        ...

    def copybook(self, path: str, dialect: CobolDialect) -> list[CopybookLayout]:
        """Read the records of a copybook that a property names."""
        ...


_NO_FIELDS: Final = HeaderFields()


@dataclass(frozen=True, slots=True)
class PropertyReader:
    """Reads one parser's properties. Names are given without the parser's prefix, such as `delim.`.

    With `binding`, a metadata value without a property is read from the header field of the
    same name, if there is one.
    """

    properties: Properties
    parser: str
    header: HeaderFields = _NO_FIELDS
    binding: bool = False

    def entry(self, name: str) -> PropertyEntry | None:
        """Return the parser's property with this name, or None."""
        return self.properties.get(f"{self.parser}.{name}")

    def error(self, problem: str, name: str, hint: str = "") -> OptionError:
        """Create an error located at a property, or at the file if the property is missing."""
        return self.properties.error(problem, self.entry(name), hint)

    def missing_error(self, name: str) -> OptionError:
        """Create the error that a required property of the parser is missing."""
        return self.properties.error(f"{self.parser}.{name} is required")

    def required(self, name: str, parse: Callable[[str], T]) -> T:
        """Parse a required property of the parser with the function `parse`."""
        entry = self.entry(name)
        if entry is None:
            raise self.missing_error(name)
        return self.parse(entry, parse)

    def text(self, name: str, default: str = "") -> str:
        """Return a parser's property as text, as it is written in the file.

        If it is not set, return `default`, or else the default in the property table.
        """
        entry = self.entry(name)
        return default or self._row(name).default or "" if entry is None else entry.value

    def source(self, name: str, *others: str) -> ValueSource | None:
        """Return the source of a metadata value: its property, or the default in the property table.

        With `binding`, a header field called `name`, or one of `others`, precedes the default.
        Returns None if there is neither.
        """
        row, entry = self._row(name), self.entry(name)
        if entry is not None:
            return self.parse(entry, lambda value: parse_source(value, row.sources, self.header))
        # Without a property, a header field of the same name is used.
        if self.binding:
            for field in (name, *others):
                if self.header.spelling(field) is not None:
                    return parse_source(field, (SourceKind.FIELD,), self.header)
        return parse_source(row.default, row.sources, self.header) if row.default else None

    def required_source(self, name: str, *others: str) -> ValueSource:
        """Return the source of a required metadata value. Raises OptionError if it has none."""
        source = self.source(name, *others)
        if source is None:
            raise self.missing_error(name)
        return source

    def byte_string(self, name: str) -> bytes | None:
        r"""Return a property that may contain `\xHH` as bytes.

        Returns None if it is not set and has no default.
        """
        entry = self.entry(name)
        if entry is not None:
            return self.parse(entry, parse_bytes)
        default = self._row(name).default
        return parse_bytes(default) if default else None

    def required_bytes(self, name: str) -> bytes:
        """Return a property as bytes, as `byte_string` does. It must have a default value."""
        value = self.byte_string(name)
        assert value is not None
        return value

    def values(
        self,
        name: str,
        kinds: tuple[tuple[str, str], ...],
        take: Callable[[str], bytes] | None = None,
    ) -> Lookup[bytes, str]:
        """Return the codes that properties define, with their meanings: `{b"I": "I", b"NEW": "U"}`.

        `name` is "optype" or "txind". `kinds` are pairs of a word and its meaning: with ("insert",
        "I"), the property `optype.insertval` has the code of an insert. `take` reads such a
        property; by default it is read as bytes. Raises OptionError if two codes are equal.
        """
        found: dict[bytes, str] = {}
        for word, meaning in kinds:
            own = f"{name}.{word}val"
            value = (take or self.required_bytes)(own)
            if value in found:
                other = f"and so is another value of {self.parser}.{name}"
                raise self.error(f"{self.parser}.{own} is {bytes_for_error(value)}, {other}", own)
            found[value] = meaning
        return Lookup(tuple(found.items()))

    def userdefs(self) -> tuple[Table, ...]:
        """Return the tables defined in the properties themselves."""
        try:
            return read_userdefs(self.properties.entries, f"{self.parser}.userdefs.")
        except OptionError as error:
            raise error.with_place(source=self.properties.source or None) from None

    def definitions(
        self, files: DefinitionFiles, *, needed: bool = True, hint: str = ""
    ) -> Definitions:
        """Return the tables of the definitions file, if one is named, and those defined in the properties.

        Raises OptionError if a table is in both, or with `needed` if there is neither.
        """
        entry, userdefs = self.entry("sourcedefs"), self.userdefs()
        if needed and entry is None and not userdefs:
            problem = f"{self.parser}.sourcedefs or {self.parser}.userdefs.tables is required"
            raise self.properties.error(problem, hint=hint)
        path = files.chosen("" if entry is None else entry.value)
        if not path:
            return Definitions(userdefs)
        from_file = files.sourcedefs(path)
        for table in userdefs:
            if from_file.get(table.name) is not None:
                problem = f"table {table.name} is defined in {path} too"
                raise self.error(problem, "userdefs.tables", "Remove one of the definitions")
        return Definitions((*from_file.tables, *userdefs), from_file.database)

    def message_id(self) -> str | None:
        """Return the value of `jms.id`, or None. Its keywords, such as `ogg`, are in lower case."""
        entry = self.properties.get("jms.id")
        if entry is None:
            return None
        if _JAVA_CLASS.fullmatch(entry.value):
            hint = "Use ogg, time, wmq, activemq or the name of a message header"
            problem = "jms.id names a Java class, but no Java runs here"
            raise self.properties.error(problem, entry, hint)
        word = entry.value.casefold()
        return word if word in MESSAGE_ID_WORDS else entry.value

    def parse(self, entry: PropertyEntry, parse: Callable[[str], T]) -> T:
        """Call `parse` with a property's value. Adds the property's line to an OptionError."""
        try:
            return parse(entry.value)
        except OptionError as error:
            source = self.properties.source or None
            raise error.with_place(source=source, line=entry.line, field=entry.written) from None

    def date_format(self, name: str) -> DateFormat | None:
        """Return the date format that a property sets, or None. Errors of dates name its line."""
        entry = self.entry(name)
        return None if entry is None else configured_format(self.properties, entry)

    def _row(self, name: str) -> PropertyRow:
        row = find_property(f"{self.parser}.{name}")
        assert row is not None
        return row


def configured_format(properties: Properties, entry: PropertyEntry) -> DateFormat:
    """Compile the date format in a property. Raises OptionError located at its line."""
    try:
        date_format = compile_format(entry.value)
    except OptionError as error:
        raise properties.error(error.problem, entry, error.hint) from None
    of = f" of {properties.source}" if properties.source else ""
    return replace(date_format, origin=f"{entry.written} in line {entry.line}{of}")


def bytes_for_error(value: bytes) -> str:
    r"""Format the bytes of a property for an error message, for example `'\x0d,'`."""
    return ascii(value)[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """The options by which the metadata of operations is read (capture properties §4).

    A `ValueSource` states where a value is read, None that it is not read. `optype_values` and
    `txind_values` map the codes in messages to letters, and `message_id` is the value of `jms.id`.
    The table is named by `schemaandtable`, or by the sources of `schema` and `table` together.
    `infers` is set if no tables are defined and messages may describe them. With `quotes_table`, a
    point in the table's source is part of the table's name and does not separate it from a schema.
    `undefined_hint` is the hint for a table without a definition; if empty, the hint lists the
    known tables.
    """

    seqid: ValueSource
    timestamp: ValueSource
    timestamp_format: DateFormat | None
    txid: ValueSource
    txowner: ValueSource | None
    txname: ValueSource | None
    optype: ValueSource
    optype_values: Lookup[bytes, str]
    schemaandtable: ValueSource | None
    schema: ValueSource | None
    table: tuple[ValueSource, ...]
    quotes_table: bool = False
    txind: ValueSource | None
    txind_values: Lookup[bytes, str]
    message_id: str | None
    infers: bool = False
    undefined_hint: str = ""

    def with_tables(self, definitions: Definitions) -> MetadataOptions:  # noqa: ARG002  for parsers that look at them
        """Return the parser's options for a capture whose tables were inferred from messages."""
        return replace(self, infers=False)

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about the parser's definitions that a run reports once."""
        return frozenset()

    @property
    def by_id(self) -> bool:
        """Whether transactions are identified by their ids alone; see `messages/by_id.py`."""
        return False

    @property
    def has_tombstones(self) -> bool:
        """Whether a message without a body is a tombstone and is skipped.

        Otherwise it is an error.
        """
        return False

    @property
    def names_operations(self) -> bool:
        """Whether properties such as `optype.insertval` can define the codes of operation types."""
        return True

    @property
    def operation_ids(self) -> bool:
        """Whether sequence ids identify operations, and transaction ids transactions.

        Otherwise, if `by_id` is set, all operations of a transaction have the same sequence id.
        """
        return False

    @property
    def spans_messages(self) -> bool:
        """Whether a transaction may span messages. True if operations have an indicator, or if only transaction ids group them."""
        return self.txind is not None or self.by_id

    @property
    def message_id_values(self) -> frozenset[str]:
        """The names of the metadata values whose source is `$jmsid`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        sources = {name: one for name, one in values.items() if isinstance(one, ValueSource)}
        return frozenset(n for n, one in sources.items() if one.kind is SourceKind.MESSAGE_ID)

    @property
    def needs_message_ids(self) -> bool:
        """Whether messages must have ids: `jms.id` selects them, or a value is `$jmsid`."""
        given = self.message_id is not None or bool(self.message_id_values)
        return given and self.message_id != TIME

    @property
    def compares_message_ids(self) -> bool:
        """Whether message ids are compared: `jms.id` selects them, or they are the sequence ids."""
        given = self.message_id is not None or "seqid" in self.message_id_values
        return given and self.message_id != TIME

    @property
    def has_sequence_ids(self) -> bool:
        """Whether the messages provide sequence ids. Otherwise they are generated."""
        by_message = self.seqid.kind is SourceKind.MESSAGE_ID and self.message_id != TIME
        return by_message or self.seqid.kind in (SourceKind.FIELD, SourceKind.HEADER)


def read_metadata(
    read: PropertyReader, code: Callable[[str], bytes] | None = None
) -> dict[str, Any]:
    """Read the options that all parsers share, except those that name the table.

    `code(name)` reads the property of an operation code or indicator value, such as
    `optype.insertval`; by default it is read as bytes.
    """
    return {
        "seqid": read.required_source("seqid"),
        "timestamp": read.required_source("timestamp"),
        "timestamp_format": read.date_format("timestamp.format"),
        "txid": read.required_source("txid"),
        "txowner": read.source("txowner"),
        "txname": read.source("txname"),
        "optype": read.required_source("optype"),
        "optype_values": read.values("optype", OP_TYPES, code),
        "txind": read.source("txind"),
        "txind_values": _indicators(read, code),
        "message_id": read.message_id(),
    }


def _indicators(read: PropertyReader, code: Callable[[str], bytes] | None) -> Lookup[bytes, str]:
    """Return the mapping of `txind` codes to transaction indicators.

    If no property sets such a code, both letters and digits are accepted.

    capture properties §11: one manual gives the defaults B, M, E and W, the other 0, 1, 2 and 3.
    """
    values = read.values("txind", TX_INDICATORS, code)
    if any(read.entry(f"txind.{word}val") for word, _ in TX_INDICATORS):
        return values
    return Lookup((*values.pairs, *NUMBERED_INDICATORS))
