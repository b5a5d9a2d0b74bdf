r"""The adapter's ``.properties`` files: bytes to checked names and values, then to typed options.

Values are bytes with ``\xHH``, value sources, names. They are taken by name and type, with errors placed at their lines. Files that properties name are
asked for here; the jobs open them. ``MetadataOptions`` is what the options of all parsers have in common: where an operation's metadata comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, TypeVar

from trailgate.cobol.copybook.layouts import Dialect, Layout
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.definitions.userdefs import userdefs
from trailgate.errors import OptionError, Where, did_you_mean
from trailgate.messages.property_rows import Effect, PropertyRow, SourceKind, ValueKind
from trailgate.messages.property_table import nearest, row_of
from trailgate.model.tables import Definitions, Table

_BLANKS: Final = " \t\r\f"
_LITERAL_ESCAPES: Final = frozenset({r"\n", r"\t", r"\r", r"\r\n"})


# Parsers whose metadata is where their format has it: its defaults are not choices of ours.
_FORMATS_OWN: Final = frozenset({"json", "debezium"})

# capture properties §7: rules have names of the user's own, which begin the names of their properties.
_OF_XML: Final = re.compile(
    r"^[ \t]*parser\.type[ \t]*=[ \t]*xml[ \t\r]*$", re.MULTILINE | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One property as written: its canonical name, its value and its line (1-based).

    ``of_rule`` marks the properties of XML rules, whose names begin with the rule's.
    """

    name: str
    value: str
    line: int
    written: str
    of_rule: bool = False


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a file, and what is to be said about them (name, reason)."""

    entries: tuple[Entry, ...]
    source: str = ""
    notes: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> Entry | None:
        """Return the entry of that canonical name, or None."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def error(self, problem: str, entry: Entry | None = None, hint: str = "") -> OptionError:
        """Return an error placed at an entry, or at the file."""
        if entry is None:
            return OptionError(problem, where=Where(source=self.source or None), hint=hint)
        where = Where(source=self.source or None, line=entry.line, field=entry.written)
        return OptionError(problem, where=where, hint=hint)


def parse_properties(data: bytes, source: str = "") -> Properties:
    r"""Return the properties of a file; raises OptionError that names the line.

    capture properties §1: one ``name=value`` a line, ``#`` as the first character opens a
    comment. A backslash is data except in ``\xHH``; there are no continuation lines, since a
    delimiter may be a backslash. Bytes that are not UTF-8 are kept for delimiters.
    """
    text = data.decode("utf-8-sig", "surrogateescape")
    found: dict[str, Entry] = {}
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


def _entry(line: str, number: int, *, rules: bool) -> Entry:
    """Return a line's entry; with ``rules`` names may begin with those of XML rules."""
    name, equals, value = line.partition("=")
    name, value = name.strip(_BLANKS), value.strip(_BLANKS)
    if not equals or not name:
        raise OptionError(f"expected name=value, found {_shown(line)!r}")
    if name != _shown(name):
        raise OptionError(f"the name {_shown(name)} is not UTF-8")
    row = row_of(name)
    if row is None and rules and "." in name:
        return Entry(name, value, number, name, of_rule=True)
    if row is None:
        raise OptionError(f"unknown property {_shown(name)}", hint=_unknown_hint(name))
    if row.effect is Effect.USED:
        _check_value(row, name, value)
    return Entry(_canonical(row, name), value, number, name)


def _check_value(row: PropertyRow, name: str, value: str) -> None:
    where = Where(field=name)
    if not value:
        hint = r"A blank is written \x20" if row.kind is ValueKind.BYTES else ""
        raise OptionError(f"{name} has no value", where=where, hint=hint)
    if row.kind is not ValueKind.BYTES and value != _shown(value):
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
        return "Rules of XML messages go with parser.type=xml"
    return nearest(name)


def _add(found: dict[str, Entry], entry: Entry) -> None:
    earlier = found.get(entry.name)
    if earlier is None:
        found[entry.name] = entry
    elif earlier.value != entry.value:
        problem = f"{entry.written} differs from its value in line {earlier.line}"
        raise OptionError(problem, where=Where(field=entry.written))


def _notes(found: dict[str, Entry]) -> list[tuple[str, str]]:
    notes = []
    for entry in found.values():
        row = row_of(entry.written)
        if row is None:
            continue
        if row.effect is Effect.NONE:
            notes.append((entry.written, f"without effect: {row.reason}"))
        elif row.kind is ValueKind.BYTES and entry.value in _LITERAL_ESCAPES:
            notes.append(
                (entry.written, rf"{entry.value} is taken letter by letter; a byte is written \xHH")
            )
    if "delim.schemaandtable" in found and "delim.schema" in found:
        notes.append(("delim.schema", "without effect: delim.schemaandtable names the schema"))
    return notes


def _parser(found: dict[str, Entry]) -> str:
    """Return the name of the file's parser, or an empty text."""
    entry = found.get("parser.type")
    return "" if entry is None else entry.value.casefold()


def _stray_notes(found: dict[str, Entry]) -> list[tuple[str, str]]:
    """Return notes on the properties of other parsers than the file's own."""
    own, row = _parser(found), row_of("parser.type")
    others = {name for name in (row.choices if row else ()) if own and name != own}
    return [
        (entry.written, f"without effect: parser.type is {own}")
        for entry in found.values()
        if entry.name.partition(".")[0] in others
    ]


def _time_notes(found: dict[str, Entry]) -> list[tuple[str, str]]:
    """Return a note where operations have the time at which they are captured; other defaults are documented, and only ids."""
    own = _parser(found)
    name = f"{own}.timestamp"
    row = None if own in _FORMATS_OWN else row_of(name)
    if row is None or not row.default or name in found:
        return []
    return [(name, f"not given: {row.default} is taken")]


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


K = TypeVar("K")
V = TypeVar("V")

_HEX: Final = re.compile(rb"\\x([0-9a-fA-F]{2})?")
_SPECIAL: Final[tuple[tuple[str, SourceKind], ...]] = (
    ("$jmsid", SourceKind.MESSAGE_ID),
    ("*ts", SourceKind.TIMESTAMP),
    ("*txid", SourceKind.TX_ID),
    ("*seqid", SourceKind.SEQ_ID),
)


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where a metadata value comes from; ``name`` is the field, header or literal text."""

    kind: SourceKind
    name: str = ""

    def __str__(self) -> str:
        if self.kind is SourceKind.LITERAL:
            return f'"{self.name}"'
        return f"${self.name}" if self.kind is SourceKind.HEADER else self.name or self.kind.value


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """The names of a record's header fields, and what an error calls the place of them."""

    names: tuple[str, ...] = ()
    place: str = ""

    def found(self, name: str) -> str | None:
        """Return a field's name as the header has it, compared without case, or None."""
        folded = name.casefold()
        return next((own for own in self.names if own.casefold() == folded), None)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Mapping[K, V]):
    """A small mapping that can be pickled, hashed and not changed."""

    pairs: tuple[tuple[K, V], ...] = ()

    def __getitem__(self, key: K) -> V:
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
    r"""Return a ``{value|\xHH}`` property as bytes; raises OptionError for a broken ``\xHH``.

    capture properties §1 and §6: several ``\xHH`` may follow each other and be mixed with text; any
    other backslash is data.
    """

    def byte(found: re.Match[bytes]) -> bytes:
        if found.group(1) is None:
            raise OptionError(rf"expected two hexadecimal digits after \x in {value!r}")
        return bytes.fromhex(found.group(1).decode())

    return _HEX.sub(byte, value.encode("utf-8", "surrogateescape"))


def parse_names(value: str) -> tuple[str, ...]:
    """Return comma-separated names; raises OptionError for an empty or repeated one."""
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
    """Return a value source (capture properties §1.1); raises OptionError for one not allowed.

    A field is named as the header has it.
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
    found = fields.found(source.name)
    if found is not None:
        return ValueSource(SourceKind.FIELD, found)
    hint = did_you_mean(source.name, fields.names)
    if not hint and SourceKind.LITERAL in allowed:
        hint = f'A fixed value is written in double quotes: "{source.name}"'
    hint = hint or f"{fields.place} names {', '.join(fields.names)}"
    raise OptionError(f"{source.name} is not a name of {fields.place}", hint=hint)


class DefinitionFiles(Protocol):
    """Reads definitions by the paths that properties give."""

    def chosen(self, path: str) -> str:
        """Return the path of the definitions file: that of the properties, or one put before it."""
        ...

    def sourcedefs(self, path: str) -> Definitions:
        """Return the tables of a definitions file."""
        ...

    def copybook(self, path: str, dialect: Dialect) -> list[Layout]:
        """Return the records of a copybook."""
        ...


T = TypeVar("T")
_NO_FIELDS: Final = HeaderFields()
MESSAGE_ID_WORDS: Final = ("ogg", "time", "wmq", "activemq")  # capture properties §2.1
_JAVA_CLASS: Final = re.compile(r"[a-z_][\w$]*(\.[\w$]+)*\.[A-Z][\w$]*")


@dataclass(frozen=True, slots=True)
class PropertyReader:
    """Takes one parser's properties; names are given without the parser's own prefix.

    With ``binding`` a source that is not given is the header field of its name, if there is one.
    """

    properties: Properties
    parser: str
    header: HeaderFields = _NO_FIELDS
    binding: bool = False

    def entry(self, name: str) -> Entry | None:
        """Return the property as written, or None."""
        return self.properties.get(f"{self.parser}.{name}")

    def error(self, problem: str, name: str, hint: str = "") -> OptionError:
        """Return an error placed at a property, or at the file where it is not given."""
        return self.properties.error(problem, self.entry(name), hint)

    def missing_error(self, name: str) -> OptionError:
        """Return the error of a property that is missing."""
        return self.properties.error(f"{self.parser}.{name} is required")

    def given(self, name: str, parse: Callable[[str], T]) -> T:
        """Return a required property's value."""
        entry = self.entry(name)
        if entry is None:
            raise self.missing_error(name)
        return self.parse(entry, parse)

    def text(self, name: str, default: str = "") -> str:
        """Return a property as it is written, or the default: the one given, else its row's."""
        entry = self.entry(name)
        return default or self._row(name).default or "" if entry is None else entry.value

    def source(self, name: str, *others: str) -> ValueSource | None:
        """Return where a metadata value comes from, by the property or its row's default.

        ``others`` are further names of a header field that binds itself.
        """
        row, entry = self._row(name), self.entry(name)
        if entry is not None:
            return self.parse(entry, lambda value: parse_source(value, row.sources, self.header))
        if self.binding:
            for field in (name, *others):
                if self.header.found(field) is not None:
                    return parse_source(field, (SourceKind.FIELD,), self.header)
        return parse_source(row.default, row.sources, self.header) if row.default else None

    def needed_source(self, name: str, *others: str) -> ValueSource:
        """Return where a metadata value comes from that there must be."""
        source = self.source(name, *others)
        if source is None:
            raise self.missing_error(name)
        return source

    def token(self, name: str) -> bytes | None:
        r"""Return a value that may have ``\xHH``, or None where it has no default either."""
        entry = self.entry(name)
        if entry is not None:
            return self.parse(entry, parse_bytes)
        default = self._row(name).default
        return parse_bytes(default) if default else None

    def needed_token(self, name: str) -> bytes:
        """Return a value of bytes whose row has a default."""
        value = self.token(name)
        assert value is not None
        return value

    def values(
        self,
        name: str,
        kinds: tuple[tuple[str, str], ...],
        take: Callable[[str], bytes] | None = None,
    ) -> Lookup[bytes, str]:
        """Return the codes of a metadata value; two equal ones are an error."""
        found: dict[bytes, str] = {}
        for word, meaning in kinds:
            own = f"{name}.{word}val"
            value = (take or self.needed_token)(own)
            if value in found:
                other = f"and so is another value of {self.parser}.{name}"
                raise self.error(f"{self.parser}.{own} is {shown(value)}, {other}", own)
            found[value] = meaning
        return Lookup(tuple(found.items()))

    def userdefs(self) -> tuple[Table, ...]:
        """Return the tables that the properties define themselves."""
        try:
            return userdefs(self.properties.entries, f"{self.parser}.userdefs.")
        except OptionError as error:
            raise error.with_place(source=self.properties.source or None) from None

    def definitions(
        self, files: DefinitionFiles, *, needed: bool = True, hint: str = ""
    ) -> Definitions:
        """Return the tables of the definitions file, where one is named, and those of the properties.

        A table in both is an error; with ``needed`` so is that there are neither.
        """
        entry, own = self.entry("sourcedefs"), self.userdefs()
        if needed and entry is None and not own:
            problem = f"{self.parser}.sourcedefs or {self.parser}.userdefs.tables is required"
            raise self.properties.error(problem, hint=hint)
        path = files.chosen("" if entry is None else entry.value)
        if not path:
            return Definitions(own)
        found = files.sourcedefs(path)
        for table in own:
            if found.get(table.name) is not None:
                problem = f"table {table.name} is defined in {path} too"
                raise self.error(problem, "userdefs.tables", "Leave one of the definitions out")
        return Definitions((*found.tables, *own), found.database)

    def message_id(self) -> str | None:
        """Return the value of ``jms.id``, or None; its own words in small letters."""
        entry = self.properties.get("jms.id")
        if entry is None:
            return None
        if _JAVA_CLASS.fullmatch(entry.value):
            hint = "Take ogg, time, wmq, activemq or the name of a message header"
            problem = "jms.id names a Java class, and no Java runs here"
            raise self.properties.error(problem, entry, hint)
        word = entry.value.casefold()
        return word if word in MESSAGE_ID_WORDS else entry.value

    def parse(self, entry: Entry, parse: Callable[[str], T]) -> T:
        """Return what ``parse`` makes of a property; its OptionError is placed there."""
        try:
            return parse(entry.value)
        except OptionError as error:
            source = self.properties.source or None
            raise error.with_place(source=source, line=entry.line, field=entry.written) from None

    def date_format(self, name: str) -> DateFormat | None:
        """Return a property that is a date format, or None; errors of values name its line."""
        entry = self.entry(name)
        return None if entry is None else configured_format(self.properties, entry)

    def _row(self, name: str) -> PropertyRow:
        row = row_of(f"{self.parser}.{name}")
        assert row is not None
        return row


def configured_format(properties: Properties, entry: Entry) -> DateFormat:
    """Return the date format of a property; raises OptionError placed at its line."""
    try:
        found = compile_format(entry.value)
    except OptionError as error:
        raise properties.error(error.problem, entry, error.hint) from None
    of = f" of {properties.source}" if properties.source else ""
    return replace(found, origin=f"{entry.written} in line {entry.line}{of}")


def shown(value: bytes) -> str:
    """Return bytes as an error shows them."""
    return ascii(value)[1:]


OP_TYPES: Final = (("insert", "I"), ("update", "U"), ("delete", "D"), ("truncate", "T"))
TX_INDICATORS: Final = (("begin", "B"), ("middle", "M"), ("end", "E"), ("whole", "W"))
TIME: Final = "time"  # a jms.id that is generated: the position of the message
NUMBERED_INDICATORS: Final = ((b"0", "B"), (b"1", "M"), (b"2", "E"), (b"3", "W"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """How the metadata of operations is read; capture properties §4.

    The table is named by ``schemaandtable``, or by the sources of ``table`` put together, with the
    schema before it. ``infers``: no tables are defined, and messages may describe them; ``undefined_hint`` is what to try for one that
    nothing defines, empty: the names of those that are.
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
    txind: ValueSource | None
    txind_values: Lookup[bytes, str]
    message_id: str | None
    infers: bool = False
    undefined_hint: str = ""

    def with_tables(self, definitions: Definitions) -> MetadataOptions:  # noqa: ARG002  for parsers that look at them
        """Return the options with the tables that were inferred."""
        return replace(self, infers=False)

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about its definitions."""
        return frozenset()

    @property
    def by_id(self) -> bool:
        """Return whether transactions are known by their ids alone, see ``messages/by_id.py``."""
        return False

    @property
    def has_tombstones(self) -> bool:
        """Return whether a message without a body is a tombstone, which is not an operation; else it is an error."""
        return False

    @property
    def names_operations(self) -> bool:
        """Return whether properties name the values of operation types and indicators."""
        return True

    @property
    def operation_ids(self) -> bool:
        """Return whether, with ``by_id``, transactions are known by transaction ids, and each operation has a sequence id of its own."""
        return False

    @property
    def spans_messages(self) -> bool:
        """Return whether a transaction may span messages: operations have an indicator, or transactions ids alone."""
        return self.txind is not None or self.by_id

    @property
    def message_id_values(self) -> frozenset[str]:
        """Return the names of the values that are ``$jmsid``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        sources = {name: one for name, one in values.items() if isinstance(one, ValueSource)}
        return frozenset(n for n, one in sources.items() if one.kind is SourceKind.MESSAGE_ID)

    @property
    def needs_message_ids(self) -> bool:
        """Return whether ids have to come with the messages: ``jms.id`` selects them, or a value is ``$jmsid``."""
        given = self.message_id is not None or bool(self.message_id_values)
        return given and self.message_id != TIME

    @property
    def compares_message_ids(self) -> bool:
        """Return whether the ids of messages are compared: ``jms.id`` selects them, or they are the sequence ids."""
        given = self.message_id is not None or "seqid" in self.message_id_values
        return given and self.message_id != TIME

    @property
    def gives_ids(self) -> bool:
        """Return whether sequence ids come from the messages; others are generated."""
        by_message = self.seqid.kind is SourceKind.MESSAGE_ID and self.message_id != TIME
        return by_message or self.seqid.kind in (SourceKind.FIELD, SourceKind.HEADER)


def metadata(read: PropertyReader, code: Callable[[str], bytes] | None = None) -> dict[str, Any]:
    """Return the options that all parsers take alike; what names the table is left to each.

    ``code`` takes an operation code or indicator value, where a parser reads them otherwise.
    """
    return {
        "seqid": read.needed_source("seqid"),
        "timestamp": read.needed_source("timestamp"),
        "timestamp_format": read.date_format("timestamp.format"),
        "txid": read.needed_source("txid"),
        "txowner": read.source("txowner"),
        "txname": read.source("txname"),
        "optype": read.needed_source("optype"),
        "optype_values": read.values("optype", OP_TYPES, code),
        "txind": read.source("txind"),
        "txind_values": _indicators(read, code),
        "message_id": read.message_id(),
    }


def _indicators(read: PropertyReader, code: Callable[[str], bytes] | None) -> Lookup[bytes, str]:
    """Return the values of ``txind``; where no property gives one, letters and numbers are known.

    capture properties §11: one manual has the defaults B, M, E and W, the other 0, 1, 2 and 3.
    """
    found = read.values("txind", TX_INDICATORS, code)
    if any(read.entry(f"txind.{word}val") for word, _ in TX_INDICATORS):
        return found
    return Lookup((*found.pairs, *NUMBERED_INDICATORS))
