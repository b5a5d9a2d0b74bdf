"""Parse the adapter's `.properties` files into names and values.

`parse_properties` checks every name against the property table, and the form of every value. Errors
and warnings name the line. `property_reader` then converts the values of one parser's properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trailgate.errors import OptionError, Where
from trailgate.messages.property_rows import PropertyEffect, PropertyRow, PropertyType
from trailgate.messages.property_table import find_property, nearest_property

_BLANKS: Final = " \t\r\f"


_LITERAL_ESCAPES: Final = frozenset({r"\n", r"\t", r"\r", r"\r\n"})


# Formats that define where metadata is: no note is needed about their defaults.
_FORMATS_OWN: Final = frozenset({"json", "debezium"})

# capture properties §7: users name their rules, and the names of a rule's properties begin with it.
_OF_XML: Final = re.compile(
    r"^[ \t]*parser\.type[ \t]*=[ \t]*xml[ \t\r]*$", re.MULTILINE | re.IGNORECASE
)


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
