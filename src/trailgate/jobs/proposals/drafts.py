"""What proposals are written with: lines of properties, tables with room for what was seen, and what values look like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of
from trailgate.cobol.copybook.layouts import Dialect as CopybookDialect
from trailgate.cobol.copybook.layouts import Layout
from trailgate.columnar.temporal import compile_format, parse_timestamps
from trailgate.errors import OptionError, TrailgateError
from trailgate.expressions.selection import CaptureRules
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions

FILL_IN: Final = "TO FILL IN: "
SCHEMA: Final = "MY"  # of tables whose message names none

# The values of insert, update, delete and truncate, as they are written together.
STYLES: Final = (
    ("I", "U", "D", "T"),
    ("INS", "UPD", "DEL", "TRUNC"),
    ("INSERT", "UPDATE", "DELETE", "TRUNCATE"),
    ("ISRT", "REPL", "DLET", "TRUNC"),
    ("C", "U", "D", "T"),
)
WORDS: Final = ("insert", "update", "delete", "truncate")
IDENTIFIER: Final = re.compile(r"[A-Za-z_][\w$#]*", re.ASCII)
TABLE: Final = re.compile(r"[A-Za-z_][\w$#]*(?:\.[A-Za-z_][\w$#]*){1,2}", re.ASCII)
_SIZES: Final = (10, 20, 40, 80, 200, 1000, 4000, 32000)
_DATE: Final = re.compile(
    r"(?P<a>\d{4}|\d{2})(?P<s>[-/.])(?P<b>\d{2}|[A-Za-z]{3})(?P=s)(?P<c>\d{4}|\d{2})"
    r"(?:(?P<between>[ T:_-])\d{2}(?P<t>[:.])\d{2}(?P=t)\d{2}(?:(?P<point>[.,])(?P<fraction>\d{1,12}))?(?P<zone>Z)?)?"
)


class Draft:
    """The lines of properties as they are proposed."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """Add a comment."""
        self.lines.append("# " + "".join(c if c.isprintable() else " " for c in text))

    def blank(self) -> None:
        """Add an empty line."""
        self.lines.append("")

    def put(self, name: str, value: str) -> None:
        """Add a property."""
        self.lines.append(f"{name}={value}")

    def tables(
        self, parser: str, tables: Iterable[TableDraft], *, keys_named: bool = False
    ) -> None:
        """Add the definitions of tables."""
        known = list(tables)
        self.blank()
        self.note(
            "The tables, with lengths that have room for what was seen. Those of a database come from its"
        )
        self.note(f"definitions file: {parser}.sourcedefs=FILE instead of what is below.")
        if any(table.keys for table in known):
            what = (
                "The messages name the key"
                if keys_named
                else "The first column is taken for the key"
            )
            self.note(f"{what}: the word key marks a column of it.")
        self.put(f"{parser}.userdefs.tables", ",".join(table.name for table in known))
        for table in known:
            prefix = f"{parser}.userdefs.{table.name}."
            self.put(f"{prefix}columns", ",".join(map(quoted, table.sizes)))
            for column, size in table.sizes.items():
                key = " key" if column in table.keys else ""
                self.put(f"{prefix}{quoted(column)}", f"vchar {room(size)}{key}")

    def text(self) -> str:
        """Return the properties."""
        return "\n".join(self.lines) + "\n"


@dataclass(slots=True)
class TableDraft:
    """A table: its columns with the most bytes that a value of each has, and those that are taken for the key."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)

    def add(self, column: str, value: str | None) -> None:
        """Take a value into account."""
        self.sizes[column] = max(self.sizes.get(column, 0), len((value or "").encode()))


def counted(count: int, what: str) -> str:
    """Return how many there are of something."""
    return f"one {what}" if count == 1 else f"{count:,} {what}s"


def quoted(name: str) -> str:
    """Return a column's name as properties have it."""
    return f'"{name}"' if "." in name else name


def room(size: int) -> int:
    """Return a length of a column that has room for twice of what was seen."""
    return next((one for one in _SIZES if one >= 2 * size), 65535)


def operation_style(values: Iterable[str]) -> tuple[str, ...] | None:
    """Return the words of insert, update, delete and truncate that these values are some of, or None."""
    known = set(values)
    for style in STYLES:
        for written in (style, tuple(map(str.lower, style)), tuple(map(str.capitalize, style))):
            if known <= set(written):
                return written
    return None


def date_format(values: Sequence[str]) -> str:
    """Return the format of values that are all times, empty where they are not, or where no format is known for them."""
    found = _DATE.fullmatch(values[0]) if values else None
    if found is None or not all(map(_DATE.fullmatch, values)):
        return ""
    for day in _days(found):
        form = day
        if found["between"]:
            form += "{between}HH{t}MI{t}SS".format(**found.groupdict())
        if found["fraction"]:
            form += found["point"] + "F" * len(found["fraction"])
        form += found["zone"] or ""
        try:
            parse_timestamps(pa.array(values, pa.string()), compile_format(form))
        except TrailgateError:
            continue
        return form
    return ""


def _days(found: re.Match[str]) -> Iterator[str]:
    """Yield the formats that a day may have, the likeliest first: before a slash of two digits a month."""
    month = "MMM" if found["b"].isalpha() else "MM"
    year, sign = "YY" if len(found["c"]) < 4 else "YYYY", found["s"]
    if len(found["a"]) == 4:
        yield f"YYYY{sign}{month}{sign}DD"
        return
    forms = [f"DD{sign}{month}{sign}{year}", f"{month}{sign}DD{sign}{year}"]
    yield from forms[::-1] if sign == "/" and month == "MM" else forms


class _NoFiles:
    """What is proposed names no files."""

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        raise OptionError(f"the file {path} is not read")

    def copybook(self, path: str, dialect: CopybookDialect) -> list[Layout]:
        del dialect
        raise OptionError(f"the file {path} is not read")


def setup(text: str) -> Capture:
    """Return a capture by properties that name no files."""
    properties = parse_properties(text.encode(), "the proposal")
    options, tables = parser_of(properties).setup(properties, _NoFiles())
    return Capture(options, CaptureRules().with_keys(tables))
