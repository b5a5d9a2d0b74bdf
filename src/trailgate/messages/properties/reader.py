"""Properties taken by name and type, with errors placed at their lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from trailgate.columnar.datetime_formats import DateFormat, compile_format
from trailgate.definitions.userdefs import userdefs
from trailgate.errors import OptionError
from trailgate.messages.properties.file import Entry, Properties
from trailgate.messages.properties.rows import PropertyRow, SourceKind
from trailgate.messages.properties.table import row_of
from trailgate.messages.properties.values import (
    HeaderFields,
    Lookup,
    ValueSource,
    parse_bytes,
    parse_source,
)
from trailgate.model.tables import Table

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

    def required(self, name: str) -> OptionError:
        """Return the error of a property that is missing."""
        return self.properties.error(f"{self.parser}.{name} is required")

    def given(self, name: str, parse: Callable[[str], T]) -> T:
        """Return a required property's value."""
        entry = self.entry(name)
        if entry is None:
            raise self.required(name)
        return self.parsed(entry, parse)

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
            return self.parsed(entry, lambda value: self.parsed_source(value, row.sources))
        if self.binding:
            for field in (name, *others):
                if self.header.found(field) is not None:
                    return parse_source(field, (SourceKind.FIELD,), self.header)
        return self.parsed_source(row.default, row.sources) if row.default else None

    def needed_source(self, name: str, *others: str) -> ValueSource:
        """Return where a metadata value comes from that there must be."""
        source = self.source(name, *others)
        if source is None:
            raise self.required(name)
        return source

    def parsed_source(self, value: str, allowed: tuple[SourceKind, ...]) -> ValueSource:
        """Return a value source as it is written; raises OptionError."""
        return parse_source(value, allowed, self.header)

    def token(self, name: str) -> bytes | None:
        r"""Return a value that may have ``\xHH``, or None where it has no default either."""
        entry = self.entry(name)
        if entry is not None:
            return self.parsed(entry, parse_bytes)
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
            raise error.located(source=self.properties.source or None) from None

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

    def parsed(self, entry: Entry, parse: Callable[[str], T]) -> T:
        """Return what ``parse`` makes of a property; its OptionError is placed there."""
        try:
            return parse(entry.value)
        except OptionError as error:
            source = self.properties.source or None
            raise error.located(source=source, line=entry.line, field=entry.written) from None

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
