"""The adapter's ``.properties`` files: bytes to checked names and values, then to typed options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trailgate.errors import OptionError, Where
from trailgate.messages.properties.rows import Effect, PropertyRow, ValueKind
from trailgate.messages.properties.table import PROPERTIES, nearest, row_of

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
            raise error.located(source=source or None, line=number) from None
    entries = tuple(found.values())
    notes = (*_notes(found), *_stray_notes(found), *_default_notes(found))
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


def _default_notes(found: dict[str, Entry]) -> list[tuple[str, str]]:
    own = _parser(found)
    if own in _FORMATS_OWN:
        return []
    return [
        (row.name, f"not given: {row.default} is taken")
        for row in PROPERTIES
        if own
        and row.name.startswith(f"{own}.")
        and row.kind is ValueKind.SOURCE
        and row.default
        and row.name not in found
    ]


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
