"""What proposals of several formats share: drafts of properties and tables, and formats of values.

``PropertiesDraft`` collects lines of properties, and ``TableDraft`` the columns of a table. The
functions after them fill both from the objects of JSON messages. ``propose_operation_codes`` and
``propose_date_format`` recognize operation types and times by sample values. ``set_up_capture`` tries the
properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from trailgate.capture.capture import Capture
from trailgate.capture.formats import find_parser_type
from trailgate.cobol.copybook.layouts import CobolDialect as CopybookDialect
from trailgate.cobol.copybook.layouts import CopybookLayout
from trailgate.columnar.temporal import compile_format, parse_timestamps
from trailgate.errors import DecodeError, OptionError, TrailgateError, count_noun
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions

FILL_IN: Final = "TO FILL IN: "
SCHEMA: Final = "MY"  # the schema of tables whose messages have none
SECONDS_DIGITS: Final = 10  # digits of a time in seconds since 1970, from 2001 to 2286

JsonObject = dict[str, Any]

# Common sets of values for insert, update, delete and truncate.
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
# 2026-01-05 12:30:00.123456Z, 05/JAN/26: parts a, b and c with one separator, and perhaps a time
_DATE: Final = re.compile(
    r"(?P<a>\d{4}|\d{2})(?P<s>[-/.])(?P<b>\d{2}|[A-Za-z]{3})(?P=s)(?P<c>\d{4}|\d{2})"
    r"(?:(?P<between>[ T:_-])\d{2}(?P<t>[:.])\d{2}(?P=t)\d{2}(?:(?P<point>[.,])(?P<fraction>\d{1,12}))?(?P<zone>Z)?)?"
)


class PropertiesDraft:
    """The lines of proposed properties."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """Add a comment to the proposed properties."""
        self.lines.append("# " + "".join(c if c.isprintable() else " " for c in text))

    def blank(self) -> None:
        """Add an empty line to the proposed properties."""
        self.lines.append("")

    def put(self, name: str, value: str) -> None:
        """Add a property to the proposal."""
        self.lines.append(f"{name}={value}")

    def tables(
        self, parser: str, tables: Iterable[TableDraft], *, keys_named: bool = False
    ) -> None:
        """Add the definitions of tables to the proposal.

        ``keys_named``: the messages state which columns are keys.
        """
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
            self.put(f"{prefix}columns", ",".join(map(quote_column, table.sizes)))
            for column, size in table.sizes.items():
                key = " key" if column in table.keys else ""
                self.put(f"{prefix}{quote_column(column)}", f"vchar {column_length_for(size)}{key}")

    def text(self) -> str:
        """Return the proposed properties as text."""
        return "\n".join(self.lines) + "\n"


@dataclass(slots=True)
class TableDraft:
    """A proposed table: its columns with the maximum bytes of their values, and its assumed key columns."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)

    def add(self, column: str, value: str | None) -> None:
        """Add a column to the proposed table, or enlarge it if this value is longer."""
        self.sizes[column] = max(self.sizes.get(column, 0), len((value or "").encode()))


def begin_draft(count: int, what: str, parser: str) -> PropertiesDraft:
    """Begin a draft for ``count`` JSON messages of the form ``what``, for example "operations"."""
    draft = PropertiesDraft()
    draft.note(f"Proposed from {count_noun(count, 'message')}: {what}. Check each line.")
    draft.put("parser.type", parser)
    return draft


def _text(value: Any) -> str | None:
    """Return a JSON value as a column's text, or None for NULL."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def add_images(table: TableDraft, images: Sequence[Any]) -> None:
    """Enlarge the columns of a draft's table for the values of JSON images."""
    for image in images:
        for name, value in (image if isinstance(image, dict) else {}).items():
            table.add(name, _text(value))


def take_first_for_key(
    tables: dict[str, TableDraft], rows: Sequence[tuple[str, JsonObject]]
) -> None:
    """Mark the first column of each proposed table as its key, if all its sample rows have a value.

    ``rows`` are pairs of a table's name and a row.
    """
    for name, table in tables.items():
        first = next(iter(table.sizes), "")
        rows_of_table = [row for known, row in rows if known == name]
        if rows_of_table and all(row.get(first) is not None for row in rows_of_table):
            table.keys = [first]


def put_only_table(draft: PropertiesDraft, names: Sequence[str]) -> None:
    """Add the only table of the sample messages to a draft as a literal, because no JSON member has SCHEMA.TABLE.

    ``names`` has the table of each sample row. Raises DecodeError if there are several tables.
    """
    tables = sorted(set(names))
    if len(tables) > 1:
        problem = f"the messages are for the tables {', '.join(tables)}, but no member has a table's name with its schema"
        hint = "Propose properties for each table separately: json.schemaandtable takes SCHEMA.TABLE from one member"
        raise DecodeError(problem, hint=hint)
    draft.note("No member has the table's name with its schema: all messages are of this table.")
    draft.put("json.schemaandtable", f'"{tables[0]}"')


def put_tables(draft: PropertiesDraft, rows: Sequence[tuple[str, tuple[Any, Any]]]) -> None:
    """Add the definitions of tables to a proposal, from rows with their before and after images."""
    tables: dict[str, TableDraft] = {}
    for name, (before, after) in rows:
        add_images(tables.setdefault(name, TableDraft(name)), [after, before])
    take_first_for_key(tables, [(name, after or before or {}) for name, (before, after) in rows])
    draft.tables("json", tables.values())


def quote_column(name: str) -> str:
    """Return a column name in the notation of properties: in quotes if it contains a dot."""
    return f'"{name}"' if "." in name else name


def column_length_for(size: int) -> int:
    """Propose the length of a text column whose longest sample value has ``size`` bytes.

    This is the first usual length (10, 20, 40 ... 32000) of at least twice the size, else 65535.
    """
    return next((one for one in _SIZES if one >= 2 * size), 65535)


def propose_operation_codes(values: Iterable[str]) -> tuple[str, ...] | None:
    """Propose the codes of operation types, such as I, U and D, by the values in sample messages.

    Returns the codes of insert, update, delete and truncate, or None if not all values belong to
    one known set of codes. For example, ``["INS", "DEL"]`` belong to ``("INS", "UPD", "DEL",
    "TRUNC")``.
    """
    known = set(values)
    for style in STYLES:
        for written in (style, tuple(map(str.lower, style)), tuple(map(str.capitalize, style))):
            if known <= set(written):
                return written
    return None


def propose_date_format(values: Sequence[str]) -> str:
    """Propose a date format by which sample values can be parsed. Returns "" unless all are times of one known format."""
    match = _DATE.fullmatch(values[0]) if values else None
    if match is None or not all(map(_DATE.fullmatch, values)):
        return ""
    # Try the possible orders of day, month and year; the first that parses all values wins.
    for day in _days(match):
        form = day
        if match["between"]:
            form += "{between}HH{t}MI{t}SS".format(**match.groupdict())
        if match["fraction"]:
            form += match["point"] + "F" * len(match["fraction"])
        form += match["zone"] or ""
        try:
            parse_timestamps(pa.array(values, pa.string()), compile_format(form))
        except TrailgateError:
            continue
        return form
    return ""


def _days(match: re.Match[str]) -> Iterator[str]:
    """Yield the possible formats of a matched date, the most likely first.

    For example 01/02/2026: MM/DD/YYYY, then DD/MM/YYYY. With other separators the day is more
    likely to come first.
    """
    month = "MMM" if match["b"].isalpha() else "MM"
    year, sign = "YY" if len(match["c"]) < 4 else "YYYY", match["s"]
    if len(match["a"]) == 4:
        yield f"YYYY{sign}{month}{sign}DD"
        return
    forms = [f"DD{sign}{month}{sign}{year}", f"{month}{sign}DD{sign}{year}"]
    yield from forms[::-1] if sign == "/" and month == "MM" else forms


class _NoFiles:
    """The definition files of proposed properties, which name none: reading one is an error."""

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        raise OptionError(f"the file {path} is not read")

    def copybook(self, path: str, dialect: CopybookDialect) -> list[CopybookLayout]:
        del dialect
        raise OptionError(f"the file {path} is not read")


def set_up_capture(text: str) -> Capture:
    """Set up a capture with proposed properties that name no files."""
    properties = parse_properties(text.encode(), "the proposal")
    options, tables = find_parser_type(properties).setup(properties, _NoFiles())
    return Capture(options, CaptureRules().with_keys(tables))
