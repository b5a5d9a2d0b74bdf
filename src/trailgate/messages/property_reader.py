r"""Read one parser's properties by name and type: texts, bytes with `\xHH`, value sources, tables.

`PropertyReader` converts the values that `properties` has parsed. Errors name the line. Files named
in properties are opened by the job, through the protocol `DefinitionFiles`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.definitions.userdefs import read_userdefs
from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.properties import Properties, PropertyEntry
from trailgate.messages.property_rows import PropertyRow, SourceKind
from trailgate.messages.property_table import find_property
from trailgate.model.tables import Definitions, Table

K = TypeVar("K")


V = TypeVar("V")


# \x1e, or \x without its two digits, which is an error
_HEX: Final = re.compile(rb"\\x([0-9a-fA-F]{2})?")


MESSAGE_ID_WORDS: Final = ("ogg", "time", "wmq", "activemq")  # capture properties §2.1


# com.example.MyIdParser
_JAVA_CLASS: Final = re.compile(r"[a-z_][\w$]*(\.[\w$]+)*\.[A-Z][\w$]*")


_SPECIAL: Final[tuple[tuple[str, SourceKind], ...]] = (
    ("$jmsid", SourceKind.MESSAGE_ID),
    ("*ts", SourceKind.TIMESTAMP),
    ("*txid", SourceKind.TX_ID),
    ("*seqid", SourceKind.SEQ_ID),
)


T = TypeVar("T")


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
    r"""Parse the value of a property, `{value|\xHH}`, into bytes.

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
    """Parse the value of a property that names the source of metadata (capture properties §1.1).

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
    r"""Format the bytes that a property sets for an error message, for example `'\x0d,'`."""
    return ascii(value)[1:]
