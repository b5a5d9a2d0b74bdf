"""Properties proposed from one message: a beginning that ``capture`` takes, whose comments state what was seen and what has to be filled in.

Delimited messages are split by the capture's own reader, once for each delimiter and quote that may be theirs. Which leading fields are the header's follows from their
values. XML messages are in ``xml_proposals``. Nothing is known of what one message does not show: a comment that begins with TO FILL IN names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of
from trailgate.cobol.copybook.layouts import Dialect as CopybookDialect
from trailgate.cobol.copybook.layouts import Layout
from trailgate.columnar.delimited import Dialect, Fields, index_fields
from trailgate.columnar.kernels.delimited import QUOTED
from trailgate.columnar.rows import octets
from trailgate.columnar.temporal import compile_format, parse_timestamps
from trailgate.errors import DecodeError, OptionError, TrailgateError
from trailgate.expressions.selection import CaptureRules
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.formats.delimited.reader import ColumnPairing
from trailgate.jobs.capture.loading import messages_from
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions

RECORDS: Final = 2000  # that are looked at
LEADING: Final = 8  # fields among which the header's are searched
MORE: Final = 2  # fields of the header that only the columns after them show
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
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9_$#]+", re.ASCII)
_INDICATORS: Final = re.compile(r"(?:W|BM*E)+|BM*|M+|M*E")
_NULLS: Final = ("NULL", "null", r"\N", "<NULL>", "(null)", "[NULL]")
_DELIMITERS: Final = (
    *("|~|", "~|~", "||", "::", "##", "\x01", "\x02", "\x1f", "\x1e", "\x1c", "\x1d"),
    *("\t", "|", ";", ",", "~", "^", "¦", "§", "#", "!"),
)
_SIZES: Final = (10, 20, 40, 80, 200, 1000, 4000, 32000)
_DATE: Final = re.compile(
    r"(?P<a>\d{4}|\d{2})(?P<s>[-/.])(?P<b>\d{2}|[A-Za-z]{3})(?P=s)(?P<c>\d{4}|\d{2})"
    r"(?:(?P<between>[ T:_-])\d{2}(?P<t>[:.])\d{2}(?P=t)\d{2}(?:(?P<point>[.,])(?P<fraction>\d{1,12}))?)?"
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

    def tables(self, parser: str, tables: Iterable[TableDraft]) -> None:
        """Add the definitions of tables."""
        known = list(tables)
        self.blank()
        self.note(
            "The tables, with lengths that have room for what was seen. Those of a database come from its"
        )
        self.note(f"definitions file: {parser}.sourcedefs=FILE instead of what is below.")
        if any(table.key for table in known):
            self.note("The first column is taken for the key: the word key marks a column of it.")
        self.put(f"{parser}.userdefs.tables", ",".join(table.name for table in known))
        for table in known:
            prefix = f"{parser}.userdefs.{table.name}."
            self.put(f"{prefix}columns", ",".join(map(quoted, table.sizes)))
            for column, size in table.sizes.items():
                key = " key" if column == table.key else ""
                self.put(f"{prefix}{quoted(column)}", f"vchar {room(size)}{key}")

    def text(self) -> str:
        """Return the properties."""
        return "\n".join(self.lines) + "\n"


@dataclass(slots=True)
class TableDraft:
    """A table: its columns with the most bytes that a value of each has, and the one that is taken for the key."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    key: str = ""

    def add(self, column: str, value: str | None) -> None:
        """Take a value into account."""
        self.sizes[column] = max(self.sizes.get(column, 0), len((value or "").encode()))


def quoted(name: str) -> str:
    """Return a column's name as properties have it."""
    return f'"{name}"' if "." in name else name


def room(size: int) -> int:
    """Return a length of a column that has room for twice of what was seen."""
    return next((one for one in _SIZES if one >= 2 * size), 65535)


def propose(message: bytes) -> str:
    """Return properties for messages such as this one.

    Raises DecodeError for a message that cannot be read, OptionError for one of which nothing can be seen.
    """
    head = message[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head:
        raise OptionError("the message is empty", hint="Paste one, or choose one")
    if head[:1] in (b"{", b"["):
        hint = "parser.type=json reads operations of GoldenGate's JSON formatter, parser.type=debezium change events; both name their fields"
        raise OptionError(
            "properties are proposed for delimited and XML messages, and this is JSON", hint=hint
        )
    if head[:1] == b"<" or message[:2] in (b"\xff\xfe", b"\xfe\xff"):
        from trailgate.browse.xml_proposals import propose_xml  # noqa: PLC0415  it needs this one

        return checked(propose_xml(message), message)
    return checked(_delimited(message), message)


def checked(text: str, message: bytes) -> str:
    """Return the properties with what a capture of the message refuses, as a comment, if anything."""
    capture = setup(text)
    parsed = capture.parse(messages_from([message], "message"))
    if not parsed.problems:
        return text
    draft = Draft()
    draft.note(f"{FILL_IN}a capture of the message stops as yet:")
    for line in str(parsed.problems[0].error).splitlines():
        draft.note(f"  {line}")
    return draft.text() + text


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


@dataclass(frozen=True, slots=True)
class _Split:
    """A message split by a delimiter."""

    delimiter: bytes
    line: bytes
    quote: bytes | None
    data: bytes
    fields: Fields

    @property
    def least(self) -> int:
        return int(self.fields.count.min())

    def raw(self, record: int) -> list[bytes]:
        """Return the fields of a record as they are written."""
        fields, bounds = self.fields, self.fields.bounds
        places = range(int(bounds[record]), int(bounds[record + 1]))
        return [self.data[int(fields.starts[at]) : int(fields.ends[at])] for at in places]


def _delimited(body: bytes) -> str:
    """Return properties for a delimited message."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        hint = "Fixed-width messages of code pages need a copybook: parser.type=fixed, fixed.copybook, fixed.codepage"
        raise DecodeError(f"the message is not UTF-8 text: {error.reason}", hint=hint) from None
    split = _split(body)
    if split is None:
        hint = "Fixed-width messages need a copybook or a definitions file: parser.type=fixed with fixed.copybook=FILE, fixed.header and fixed.table"
        raise OptionError("no delimiter was found that all lines of the message have", hint=hint)
    return _Delimited(split).text()


def _split(body: bytes) -> _Split | None:
    """Return the message split by the delimiter that gives the most fields in each record."""
    line = b"\n"
    if b"\n" not in body.rstrip(b"\r\x1e"):
        line = next((end for end in (b"\r", b"\x1e") if end in body), b"\n")
    best: _Split | None = None
    for delimiter in (text.encode() for text in _DELIMITERS):
        if delimiter == line or delimiter not in body:
            continue
        found = _split_by(body, delimiter, line)
        if found is None or found.least < 2:
            continue
        if best is not None and body.count(delimiter) == body.count(best.delimiter) * (
            best.delimiter.count(delimiter)
        ):
            continue  # it is only found within the longer one
        if best is None or found.least > best.least:
            best = found
    return best


def _split_by(body: bytes, delimiter: bytes, line: bytes) -> _Split | None:
    quotes = [quote for quote in (b'"', b"'") if quote in body]
    for quote in (*quotes, None):
        dialect = Dialect(delimiter, line, quote, returns=line == b"\n")
        bounds = np.array([0]), np.array([len(body)])
        try:
            fields = index_fields(octets(body), *bounds, dialect)
        except DecodeError:
            continue
        if len(fields.count) and (quote is None or (fields.flags & QUOTED).any()):
            return _Split(delimiter, line, quote, body, fields)
    return None


class Switches(NamedTuple):
    """How the fields of columns lie."""

    hasbefores: bool = False
    hasnames: bool = False
    afterfirst: bool = False
    isgrouped: bool = False

    @property
    def parts(self) -> int:
        """Return how many fields a column has."""
        return 1 + self.hasnames + self.hasbefores


WAYS: Final = tuple(
    Switches(befores, names, first, grouped)
    for names, befores, first, grouped in product(
        (True, False), (True, False), (False, True), (False, True)
    )
    if (names or befores) and (befores or not first)
)


class _Delimited:
    """What is seen in a delimited message, and the properties of it."""

    def __init__(self, split: _Split) -> None:
        self.split = split
        self.records = [split.raw(at) for at in range(min(RECORDS, len(split.fields.count)))]
        self.null = self._null()
        self.names: list[str] = []
        self.roles: dict[str, int] = {}
        self.style: tuple[str, ...] = STYLES[0]
        self.time = ""
        self._find_header()
        self.switches = self._find_pairing()

    def _null(self) -> str:
        """Return the text that means NULL, empty where none does."""
        every = {one for record in self.records for one in record}
        return next((text for text in _NULLS if text.encode() in every), "")

    def value(self, raw: bytes) -> str:
        """Return a field's text."""
        quote = self.split.quote
        if quote and raw.startswith(quote) and raw.endswith(quote) and len(raw) > 1:
            raw = raw[1:-1].replace(quote * 2, quote)
        return raw.decode(errors="replace")

    def is_null(self, raw: bytes) -> bool:
        """Return whether a field is NULL."""
        return not raw or (bool(self.null) and raw == self.null.encode())

    def column(self, at: int) -> list[str]:
        """Return the values of a field."""
        return [self.value(record[at]) for record in self.records]

    def _find_header(self) -> None:
        """Find which leading fields are not of columns."""
        leading = [self.column(at) for at in range(min(LEADING, self.split.least))]
        dotted = any(all(map(TABLE.fullmatch, values)) for values in leading)
        last = 0
        for at, values in enumerate(leading):
            role = self._role(values, dotted=dotted)
            done = {"optype", "tablename"} <= set(self.roles)
            if not role and done:
                break
            if role:
                self.roles[role] = at
                last = at + 1
            self.names.append(role or f"field{at + 1}")
        self.names = self.names[: max(last, 1)]

    def _role(self, values: list[str], *, dotted: bool) -> str:
        """Return what a leading field is, by its values; empty where that cannot be seen."""
        roles, style = self.roles, operation_style(values)
        if "optype" not in roles and style is not None:
            self.style = style
            return "optype"
        if "tablename" not in roles and all(map(TABLE.fullmatch, values)):
            return "tablename"
        form = date_format(values)
        if "ts" not in roles and form:
            self.time = form
            return "ts"
        if not dotted and roles and (name := self._name_part(values)):
            return name
        if "txind" not in roles and roles and _INDICATORS.fullmatch("".join(values)):
            return "txind"
        alike = len(values) > 1 and len(set(values)) == 1 and values[0]
        return "tx" if alike and "tx" not in roles and len(roles) > 1 and not form else ""

    def _name_part(self, values: list[str]) -> str:
        """Return the role of a field of names in capitals: a table, after which the one before is its schema."""
        roles = self.roles
        if not all(map(_CAPITALS.fullmatch, values)):
            return ""
        if "tablename" not in roles:
            return "tablename"
        if "schema" in roles or roles["tablename"] != len(self.names) - 1:
            return ""
        self.names[-1] = "schema"
        roles["schema"] = roles["tablename"]
        return "tablename"

    def _kinds(self) -> list[str]:
        """Return each record's operation type as a letter; a blank where it is not known."""
        at = self.roles.get("optype")
        if at is None:
            return [" "] * len(self.records)
        return ["IUDT"[self.style.index(text)] for text in self.column(at)]

    def _find_pairing(self) -> Switches:
        """Return how the columns lie after the header: the ways with more fields a column first, if records show them.

        Where before values are there only after one more field or two, these are of the header too; where names are there only
        from the header's last field on, that is the first name.
        """
        names = self.names
        trials = [(names, WAYS)]
        if names[-1] == "tx":
            trials.append((names[:-1], tuple(way for way in WAYS if way.hasnames)))
        added = ["tx" if "tx" not in self.roles else f"field{len(names) + 1}"]
        for more in range(1, min(MORE, self.split.least - len(names)) + 1):
            trials.append((names + added, tuple(way for way in WAYS if way.hasbefores)))
            added = [f"field{len(names) + at + 1}" for at in range(more + 1)]
        for tried, ways in trials:
            self._name(tried)
            for way in ways:
                if self._fits(way):
                    return way
        self._name(names)
        return Switches()

    def _name(self, names: list[str]) -> None:
        """Take these fields for the header's."""
        self.names = names
        self.roles.pop("tx", None)
        if "tx" in self.names:
            self.roles["tx"] = self.names.index("tx")

    def _pairings(self, way: Switches) -> list[ColumnPairing]:
        """Return each record's pairing of fields and columns."""
        options = _options(self._reading(way))
        counts = [(len(record) - len(self.names)) // way.parts for record in self.records]
        known = {count: ColumnPairing.of(options, count) for count in set(counts)}
        return [known[count] for count in counts]

    def _fits(self, way: Switches) -> bool:
        """Return whether records show this way: names are names, and inserts have no before, deletes no after values."""
        sizes = [len(record) - len(self.names) for record in self.records]
        if not any(sizes) or any(size % way.parts for size in sizes):
            return False
        seen = not way.hasbefores
        named: dict[tuple[str, int], set[str]] = {}
        pairings = self._pairings(way)
        rows = zip(self._kinds(), self._tables(), pairings, self.records, strict=True)
        for kind, table, pairing, record in rows:
            columns = range(pairing.columns)
            if pairing.name is not None:
                for i in columns:
                    named.setdefault((table, i), set()).add(self.value(record[pairing.name(i)]))
            if pairing.before is None:
                continue
            befores = [record[pairing.before(i)] for i in columns]
            afters = [record[pairing.after(i)] for i in columns]
            empty = [all(map(self.is_null, side)) for side in (befores, afters)]
            if kind in "ID" and columns:
                if empty != [kind == "I", kind == "D"]:
                    return False
                seen = True
            elif kind == "U" and len(columns) > 1 and not way.afterfirst:
                alike = sum(a == b for a, b in zip(befores, afters, strict=True))
                seen = seen or 2 * alike >= len(columns)
        return seen and (not way.hasnames or self._are_names(named))

    def _are_names(self, named: dict[tuple[str, int], set[str]]) -> bool:
        """Return whether these are names of columns, each the same in all records of its table."""
        if any(len(found) > 1 for found in named.values()):
            return False
        names = [(table, next(iter(found))) for (table, _), found in named.items()]
        several = len(self.records) > 1 and len(names) > 1
        good = all(_CAPITALS.fullmatch(name) or IDENTIFIER.fullmatch(name) for _, name in names)
        return several and good and len(set(names)) == len(names)

    def _tables(self) -> list[str]:
        """Return each record's table."""
        at, schema = self.roles.get("tablename"), self.roles.get("schema")
        names = [f"{SCHEMA}.TABLE"] * len(self.records) if at is None else self.column(at)
        if schema is not None:
            return [".".join(both) for both in zip(self.column(schema), names, strict=True)]
        return [name if "." in name else f"{SCHEMA}.{name}" for name in names]

    def _reading(self, switches: Switches) -> Draft:
        """Return the properties of delimiters and header."""
        draft, split = Draft(), self.split
        count = len(split.fields.count)
        records = "one record" if count == 1 else f"{count} records"
        draft.note(f"Proposed from one message of {records}. Check each line.")
        draft.put("parser.type", "delim")
        draft.blank()
        draft.note(
            f"The fields before the columns. {self._described()}"
            if self.roles
            else "No field was recognized before the columns."
        )
        draft.put("delim.header", ",".join(self.names))
        self._put_sources(draft)
        draft.blank()
        draft.put("delim.fielddelim", _written(split.delimiter))
        if split.line != b"\n":
            draft.put("delim.linedelim", _written(split.line))
        if split.quote:
            draft.put("delim.quote", _written(split.quote))
        else:
            draft.note("No value is in quotes. If some may be: delim.quote, as in the next line.")
            draft.lines.append('#delim.quote="')
        if self.null:
            draft.put("delim.nullindicator", self.null)
        else:
            draft.note("No value such as NULL was seen: an empty value is NULL.")
        for name, on in switches._asdict().items():
            if on:
                draft.put(f"delim.{name}", "true")
        return draft

    def _described(self) -> str:
        unknown = [name for name in self.names if name.startswith("field")]
        found = f"Recognized by their values: {', '.join(self.roles)}."
        return found + (f" Not recognized: {', '.join(unknown)}." if unknown else "")

    def _put_sources(self, draft: Draft) -> None:
        roles = self.roles
        if "optype" in roles:
            draft.put("delim.optype", "optype")
            for word, value in zip(WORDS, self.style, strict=True):
                draft.put(f"delim.optype.{word}val", value)
        else:
            draft.note(
                f"{FILL_IN}no field has operation types. Name the field of delim.header, or the message's header after $."
            )
            draft.put("delim.optype", "$OPTYPE")
        if "schema" in roles:
            draft.put("delim.schema", "schema")
        elif "tablename" in roles and not all(
            map(TABLE.fullmatch, self.column(roles["tablename"]))
        ):
            draft.note(f"{FILL_IN}the schema, which the message does not have.")
            draft.put("delim.schema", f'"{SCHEMA}"')
        if "tablename" not in roles:
            draft.note(
                f"{FILL_IN}no field has the table's name. Name the field of delim.header, or the message's header after $."
            )
            draft.put("delim.schemaandtable", "$TABLE")
        elif "schema" in roles or "." not in self.column(roles["tablename"])[0]:
            draft.put("delim.table", "tablename")
        else:
            draft.put("delim.schemaandtable", "tablename")
        if "ts" in roles:
            draft.put("delim.timestamp", "ts")
            draft.put("delim.timestamp.format", self.time)
        else:
            draft.note("No time was recognized: operations have the time of the capture.")
            draft.put("delim.timestamp", "*ts")
        if "tx" in roles:
            draft.note("The field tx is taken for the transaction's id.")
            draft.put("delim.txid", "tx")
        if "txind" in roles:
            draft.put("delim.txind", "txind")

    def text(self) -> str:
        """Return the properties."""
        draft = self._reading(self.switches)
        tables, dates = self._columns()
        forms = {form for _, form in dates}
        if forms:
            draft.note("Values that look like times. They are text in the tables below, and dates")
            draft.note("where a definitions file makes their columns dates.")
        for name, form in dates if len(forms) > 1 else ():
            draft.put(f"delim.dateformat.{name}", form)
        if len(forms) == 1:
            draft.put("delim.dateformat", forms.pop())
        draft.tables("delim", tables)
        return draft.text()

    def _columns(self) -> tuple[list[TableDraft], list[tuple[str, str]]]:
        """Return the tables, and the columns that look like times with their formats."""
        found: dict[str, TableDraft] = {}
        values: dict[tuple[str, str], list[str]] = {}
        keyless: set[str] = set()
        pairings = self._pairings(self.switches)
        rows = zip(self._tables(), self._kinds(), pairings, self.records, strict=True)
        for name, kind, pairing, record in rows:
            table = found.setdefault(name.upper(), TableDraft(name))
            for i in range(pairing.columns):
                own = self.value(record[pairing.name(i)]) if pairing.name else f"COL{i + 1}"
                fields = [record[pairing.after(i)]]
                if pairing.before:
                    fields.append(record[pairing.before(i)])
                for raw in fields:
                    table.add(own, self.value(raw))
                    if not self.is_null(raw):
                        values.setdefault((table.name, own), []).append(self.value(raw))
                side = fields[-1] if kind in "UD" else fields[0]
                if i == 0 and self.is_null(side):
                    keyless.add(name.upper())
        for name, table in found.items():
            if not table.sizes:
                table.add("COL1", "")
            elif name not in keyless:
                table.key = next(iter(table.sizes))
        dates = [
            (f"{name}.{column}", form)
            for (name, column), own in values.items()
            if (form := date_format(own))
        ]
        return list(found.values()), dates


def _options(draft: Draft) -> DelimitedOptions:
    """Return the options of properties without tables."""
    lines = [*draft.lines, "delim.userdefs.tables=A.B", "delim.userdefs.A.B.columns=C"]
    options = setup("\n".join([*lines, "delim.userdefs.A.B.C=vchar 1"])).options
    assert isinstance(options, DelimitedOptions)
    return options


def _written(value: bytes) -> str:
    r"""Return bytes as a property's value: what is not a visible character as ``\xHH``."""
    text = value.decode()
    plain = text.isascii() and text.isprintable() and text.strip() == text
    return text if plain else "".join(f"\\x{byte:02x}" for byte in value)
