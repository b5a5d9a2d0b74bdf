"""Propose properties for delimited messages.

The messages are split by the capture's own reader, once for each possible delimiter and quote; the
delimiter with the most fields in every record wins. The roles of the leading fields (operation
type, table, time) are recognized by their values. The fields after them are columns, perhaps with
names or before values (``ColumnArrangement``). If the first line consists of names, as in exports
of tables, it names the fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import octets
from trailgate.columnar.delimited import DelimitedDialect, DelimitedFields, index_fields
from trailgate.columnar.delimited_kernels import QUOTED
from trailgate.errors import DecodeError, count_noun
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.formats.delimited.reader import ColumnPairing
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    IDENTIFIER,
    SCHEMA,
    STYLES,
    TABLE,
    WORDS,
    PropertiesDraft,
    TableDraft,
    propose_date_format,
    propose_operation_codes,
    set_up_capture,
)

RECORDS: Final = 20_000  # the most records to examine
LEADING: Final = 8  # the number of leading fields that may belong to the header
MORE: Final = 2  # the most header fields to add if columns only fit after them
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9_$#]+", re.ASCII)
# The values of a field, one letter each, if it is the transaction indicator: BMME is one transaction,
# WBE are two, and samples may begin or end in the middle of one.
_INDICATORS: Final = re.compile(r"(?:W|BM*E)+|BM*|M+|M*E")
_TRANSACTION: Final = re.compile(r"tx|xid|trans", re.IGNORECASE)
UNCLEAR: Final = (
    "The first column has one value in all records of a message: is it the id of a transaction? Then "
    "add a name for it, such as tx, at the end of delim.header, set delim.txid=tx, and remove the column."
)
_NULLS: Final = ("NULL", "null", r"\N", "<NULL>", "(null)", "[NULL]")
_DELIMITERS: Final = (
    *("|~|", "~|~", "||", "::", "##", "\x01", "\x02", "\x1f", "\x1e", "\x1c", "\x1d"),
    *("\t", "|", ";", ",", "~", "^", "¦", "§", "#", "!"),
)


@dataclass(frozen=True, slots=True)
class SplitMessages:
    """Sample messages split into fields by a delimiter.

    ``line`` is the delimiter of records, ``data`` are the bodies joined by it, and ``fields`` are
    the offsets of the fields in ``data``. ``messages`` is the number of messages.
    """

    delimiter: bytes
    line: bytes
    quote: bytes | None
    data: bytes
    fields: DelimitedFields
    messages: int

    @property
    def least(self) -> int:
        """The number of fields of the shortest delimited sample record."""
        return int(self.fields.count.min())

    def raw(self, record: int) -> list[bytes]:
        """Return the fields of a delimited sample record as they are written, with their quotes."""
        fields, bounds = self.fields, self.fields.bounds
        indexes = range(int(bounds[record]), int(bounds[record + 1]))
        return [self.data[int(fields.starts[at]) : int(fields.ends[at])] for at in indexes]


def propose_delimited(bodies: Sequence[bytes]) -> str:
    """Propose properties for delimited messages.

    Raises DecodeError if they are not text, or if no delimiter is found.
    """
    try:
        b"".join(bodies).decode()
    except UnicodeDecodeError as error:
        hint = "Fixed-width messages of code pages need a copybook: parser.type=fixed, fixed.copybook, fixed.codepage"
        raise DecodeError(f"the message is not UTF-8 text: {error.reason}", hint=hint) from None
    split = _split(bodies)
    if split is None:
        hint = "Fixed-width messages need a copybook or a definitions file: parser.type=fixed with fixed.copybook=FILE, fixed.header and fixed.table"
        raise DecodeError("no delimiter occurs in all lines of the message", hint=hint)
    return _Delimited(split).text()


def _split(bodies: Sequence[bytes]) -> SplitMessages | None:
    """Split sample messages by the delimiter that results in the most fields in every record.

    Returns None if no delimiter splits every record.
    """
    line = b"\n"
    # No line feed inside any message: the lines may end with CR or RS instead.
    if not any(b"\n" in body.rstrip(b"\r\n\x1e") for body in bodies):
        line_ends = [
            end for end in (b"\r", b"\x1e") if any(end in body.rstrip(b"\n") for body in bodies)
        ]
        line = (
            line_ends[0]
            if line_ends and not any(body.endswith(b"\r\n") for body in bodies)
            else line
        )
    best: SplitMessages | None = None
    whole = line.join(bodies)
    for delimiter in (text.encode() for text in _DELIMITERS):
        if delimiter == line or delimiter not in whole:
            continue
        candidate = split_by(bodies, delimiter, line)
        if candidate is None or candidate.least < 2:
            continue
        if best is not None and whole.count(delimiter) == whole.count(best.delimiter) * (
            best.delimiter.count(delimiter)
        ):
            continue  # it only occurs inside the longer delimiter
        if best is None or candidate.least > best.least:
            best = candidate
    return best


def split_by(
    bodies: Sequence[bytes], delimiter: bytes, line: bytes, quotes: Sequence[bytes] = (b'"', b"'")
) -> SplitMessages | None:
    """Split sample messages by a delimiter, with the first quote that fits, or without quotes.

    Returns None if the messages cannot be split this way.
    """
    text = line.join(bodies)
    # The bodies within the joined text. Example: "ab", "c" joined by "\n" have the ends 2 and 4.
    ends = np.cumsum([len(body) + len(line) for body in bodies]) - len(line)
    starts = ends - np.array([len(body) for body in bodies])
    for quote in (*(quote for quote in quotes if quote in text), None):
        dialect = DelimitedDialect(delimiter, line, quote, returns=line == b"\n")
        try:
            fields = index_fields(octets(text), starts, ends, dialect)
        except DecodeError:
            continue
        # A quote that no field begins with is an ordinary character, such as an apostrophe.
        if len(fields.count) and (quote is None or (fields.flags & QUOTED).any()):
            return SplitMessages(
                delimiter=delimiter,
                line=line,
                quote=quote,
                data=text,
                fields=fields,
                messages=len(bodies),
            )
    return None


class ColumnArrangement(NamedTuple):
    """How delimited records arrange the fields of a column, for example with before values.

    Each field is the property of the delimited parser with this name, such as ``delim.hasbefores``.
    """

    hasbefores: bool = False
    hasnames: bool = False
    afterfirst: bool = False
    isgrouped: bool = False

    @property
    def parts(self) -> int:
        """The number of delimited fields per column."""
        return 1 + self.hasnames + self.hasbefores


PAIRINGS: Final = tuple(
    ColumnArrangement(befores, names, first, grouped)
    for names, befores, first, grouped in product(
        (True, False), (True, False), (False, True), (False, True)
    )
    if (names or befores) and (befores or not first)
)


class _Delimited:
    """The structure that is recognized in delimited sample messages, and the properties for it.

    ``names`` are the names of the header fields, ``roles`` maps a role such as "optype" to the
    index of its field, and ``switches`` is the arrangement of the columns after the header.
    ``headings`` are the field names in the first line, or [].
    """

    def __init__(self, split: SplitMessages) -> None:
        self.split = split
        self.records = [split.raw(at) for at in range(min(RECORDS, len(split.fields.count)))]
        self.headings = self._find_headings()
        self.messages = split.fields.body[: len(self.records)].tolist()
        if self.headings:
            data_rows = [at for at, record in enumerate(self.records) if record != self.records[0]]
            self.records = [self.records[at] for at in data_rows]
            self.messages = [self.messages[at] for at in data_rows]
        self.least = min(map(len, self.records))
        self.null = self._null()
        self.names: list[str] = []
        self.roles: dict[str, int] = {}
        self.style: tuple[str, ...] = STYLES[0]
        self.time = ""
        # Whether the first field after the header may be either a transaction id or a key.
        self.unclear = False
        self._find_header()
        self.switches = self._find_pairing()

    def _null(self) -> str:
        """Return the text that means NULL in the delimited samples, such as "NULL", or ""."""
        every = {one for record in self.records for one in record}
        return next((text for text in _NULLS if text.encode() in every), "")

    def value(self, raw: bytes) -> str:
        """Return the text of a delimited field without its quotes."""
        quote = self.split.quote
        if quote and raw.startswith(quote) and raw.endswith(quote) and len(raw) > 1:
            raw = raw[1:-1].replace(quote * 2, quote)
        return raw.decode(errors="replace")

    def is_null(self, raw: bytes) -> bool:
        """Return True if a delimited field is NULL: empty, or the text for NULL."""
        return not raw or (bool(self.null) and raw == self.null.encode())

    def column(self, at: int) -> list[str]:
        """Return the values of the field ``at`` in all delimited sample records."""
        return [self.value(record[at]) for record in self.records]

    def _find_headings(self) -> list[str]:
        """Return the field names in the first delimited record, or [] if it is an operation."""
        names = [self.value(raw) for raw in self.records[0]]
        rest = [record for record in self.records if record != self.records[0]]
        distinct = {name.upper() for name in names}
        if not rest or len(distinct) < len(names) or not all(map(IDENTIFIER.fullmatch, names)):
            return []
        shortest = min(len(names), *map(len, rest))
        columns = [[self.value(record[at]) for record in rest] for at in range(shortest)]
        # A leading field with operation types in all other records: the first line is data if its
        # value fits too.
        typed = [
            at
            for at, column_values in enumerate(columns[:LEADING])
            if propose_operation_codes(column_values) is not None
        ]
        if typed:
            fits = any(
                propose_operation_codes([*columns[at], names[at]]) is not None for at in typed
            )
            return [] if fits else names
        unlike = any(
            not any(map(IDENTIFIER.fullmatch, column_values)) and any(column_values)
            for column_values in columns
        )
        return names if unlike else []

    def label(self, role: str) -> str:
        """Return the name of a field in ``delim.header``: its heading, or else its role."""
        at = self.names.index(role)
        return self.headings[at] if self.headings else role

    def _find_header(self) -> None:
        """Find the header of delimited records: leading fields that are not columns."""
        leading = [self.column(at) for at in range(min(LEADING, self.least))]
        dotted = any(all(map(TABLE.fullmatch, values)) for values in leading)
        last = 0
        for at, values in enumerate(leading):
            role = self._role(values, dotted=dotted)
            # The header ends at the first field without a role, once type and table are known.
            done = {"optype", "tablename"} <= set(self.roles)
            if not role and done:
                break
            if role:
                self.roles[role] = at
                last = at + 1
            self.names.append(role or f"field{at + 1}")
        self.names = self.names[: max(last, 1)]

    def _role(self, values: list[str], *, dotted: bool) -> str:
        """Recognize the role of a leading delimited field: "optype", "ts" and so on, or ""."""
        roles, style = self.roles, propose_operation_codes(values)
        if "optype" not in roles and style is not None:
            self.style = style
            return "optype"
        if "tablename" not in roles and all(map(TABLE.fullmatch, values)):
            return "tablename"
        form = propose_date_format(values)
        if "ts" not in roles and form:
            self.time = form
            return "ts"
        if not dotted and roles and (name := self._name_part(values)):
            return name
        if "txind" not in roles and roles and _INDICATORS.fullmatch("".join(values)):
            return "txind"
        possible = "tx" not in roles and len(roles) > 1 and not form
        return "tx" if possible and self._are_transactions(values) else ""

    def _are_transactions(self, values: list[str]) -> bool:
        """Return True if the values of a delimited field are transaction ids.

        They must be equal within a message, and differ between messages. If each message contains
        the operations of one row, this also applies to the row's key. So unless the field has a
        heading, at least one message must insert two rows into one table.
        """
        if self.headings and not _TRANSACTION.search(self.headings[len(self.names)]):
            return False
        pairs = set(zip(self.messages, values, strict=True))
        one_each = len(pairs) == len(set(self.messages)) == len(set(values))
        if not (one_each and len(values) > len(pairs) and all(values)):
            return False
        self.unclear = not self.headings and not self._inserts_two_rows()
        return not self.unclear

    def _inserts_two_rows(self) -> bool:
        """Return True if a delimited sample message inserts two rows into one table."""
        rows = zip(self.messages, self._tables(), self._kinds(), strict=True)
        inserts = [row for row in rows if row[-1] == "I"]
        return len(set(inserts)) < len(inserts)

    def _name_part(self, values: list[str]) -> str:
        """Return the role "tablename" for a delimited field of uppercase names, or "".

        If the previous field already has this role, that field becomes the schema.
        """
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
        """Return the operation type of each delimited record as a letter, or " " if unknown."""
        at = self.roles.get("optype")
        if at is None:
            return [" "] * len(self.records)
        return ["IUDT"[self.style.index(text)] for text in self.column(at)]

    def _find_pairing(self) -> ColumnArrangement:
        """Find how the columns of delimited records are arranged after the header.

        Arrangements with more fields per column are tried first. If before values only fit after
        one or two more fields, these are added to the header. If column names only fit from the
        header's last field on, that field is taken to be the first name.
        """
        names = self.names
        # Each trial has the names of the header and the arrangements to try with them.
        trials = [(names, PAIRINGS)]
        if names[-1] == "tx":
            trials.append(
                (
                    names[:-1],
                    tuple(
                        pairing_switches
                        for pairing_switches in PAIRINGS
                        if pairing_switches.hasnames
                    ),
                )
            )
        added = ["tx" if "tx" not in self.roles else f"field{len(names) + 1}"]
        for more in range(1, min(MORE, self.least - len(names)) + 1):
            trials.append(
                (
                    names + added,
                    tuple(
                        pairing_switches
                        for pairing_switches in PAIRINGS
                        if pairing_switches.hasbefores
                    ),
                )
            )
            added = [f"field{len(names) + at + 1}" for at in range(more + 1)]
        # The first arrangement that fits all records wins, and leaves its header in ``names``.
        for tried, ways in trials:
            self._name(tried)
            for pairing_switches in ways:
                if self._fits(pairing_switches):
                    return pairing_switches
        self._name(names)
        return ColumnArrangement()

    def _name(self, names: list[str]) -> None:
        """Set the names of the header fields, and update the role of a transaction id in them."""
        self.names = names
        self.roles.pop("tx", None)
        if "tx" in self.names:
            self.roles["tx"] = self.names.index("tx")

    def _pairings(self, way: ColumnArrangement) -> list[ColumnPairing]:
        """Return for each delimited record which fields are which column, if ``way`` is right."""
        options = _options(self._reading(way))
        counts = [(len(record) - len(self.names)) // way.parts for record in self.records]
        known = {count: ColumnPairing.of(options, count) for count in set(counts)}
        return [known[count] for count in counts]

    def _fits(self, way: ColumnArrangement) -> bool:
        """Return True if the delimited records fit an arrangement of columns.

        Names must be identifiers that repeat, inserts must have no before values, and deletes no
        after values.
        """
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
            # Inserts must have only after values, deletes only before values.
            if kind in "ID" and columns:
                if empty != [kind == "I", kind == "D"]:
                    return False
                seen = True
            # In an update, at least half of the columns should be equal before and after.
            elif kind == "U" and len(columns) > 1 and not way.afterfirst:
                alike = sum(a == b for a, b in zip(befores, afters, strict=True))
                seen = seen or 2 * alike >= len(columns)
        return seen and (not way.hasnames or self._are_names(named))

    def _are_names(self, named: dict[tuple[str, int], set[str]]) -> bool:
        """Return True if these are column names: the same in all records of a table, and without duplicates."""
        if any(len(found) > 1 for found in named.values()):
            return False
        names = [(table, next(iter(found))) for (table, _), found in named.items()]
        several = len(self.records) > 1 and len(names) > 1
        good = all(_CAPITALS.fullmatch(name) or IDENTIFIER.fullmatch(name) for _, name in names)
        return several and good and len(set(names)) == len(names)

    def _tables(self) -> list[str]:
        """Return the table of each delimited record, with the schema "MY" if it has none."""
        at, schema = self.roles.get("tablename"), self.roles.get("schema")
        names = [f"{SCHEMA}.TABLE"] * len(self.records) if at is None else self.column(at)
        if schema is not None:
            return [".".join(both) for both in zip(self.column(schema), names, strict=True)]
        return [name if "." in name else f"{SCHEMA}.{name}" for name in names]

    def _reading(self, switches: ColumnArrangement) -> PropertiesDraft:
        """Draft the properties of delimited messages, except their tables.

        These are the header, the delimiters, and the arrangement of the columns (``switches``).
        """
        draft, split = PropertiesDraft(), self.split
        count = len(split.fields.count)
        records = count_noun(count, "record")
        draft.note(
            f"Proposed from {count_noun(split.messages, 'message')} of {records}. Check each line."
        )
        if count > RECORDS:
            draft.note(f"Only the first {RECORDS:,} records were examined.")
        if self.headings:
            draft.note(
                f"{FILL_IN}the first line has the names of fields, and a capture takes it for an operation. Remove it from the messages, as tail -n +2 does."
            )
        draft.put("parser.type", "delim")
        draft.blank()
        draft.note(
            f"The fields before the columns. {self._describe_roles()}"
            if self.roles
            else "No field was recognized before the columns."
        )
        draft.put("delim.header", ",".join(map(self.label, self.names)))
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

    def _describe_roles(self) -> str:
        unknown = [name for name in self.names if name.startswith("field")]
        found = f"Recognized by their values: {', '.join(self.roles)}."
        return found + (f" Not recognized: {', '.join(unknown)}." if unknown else "")

    def _put_sources(self, draft: PropertiesDraft) -> None:
        roles = self.roles
        if "optype" in roles:
            draft.put("delim.optype", self.label("optype"))
            for word, value in zip(WORDS, self.style, strict=True):
                draft.put(f"delim.optype.{word}val", value)
        else:
            draft.note(
                f"{FILL_IN}no field has operation types. Name the field of delim.header, or the message's header after $."
            )
            draft.put("delim.optype", "$OPTYPE")
        if "schema" in roles:
            draft.put("delim.schema", self.label("schema"))
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
            draft.put("delim.table", self.label("tablename"))
        else:
            draft.put("delim.schemaandtable", self.label("tablename"))
        if "ts" in roles:
            draft.put("delim.timestamp", self.label("ts"))
            draft.put("delim.timestamp.format", self.time)
        else:
            draft.note("No time was recognized: operations have the time of the capture.")
            draft.put("delim.timestamp", "*ts")
        self._put_transactions(draft)

    def _put_transactions(self, draft: PropertiesDraft) -> None:
        roles = self.roles
        if "tx" in roles:
            draft.note(f"The field {self.label('tx')} is taken for the transaction's id.")
            draft.put("delim.txid", self.label("tx"))
        elif self.unclear:
            draft.note(UNCLEAR)
        if "txind" in roles:
            draft.put("delim.txind", self.label("txind"))

    def text(self) -> str:
        """Return the proposed properties for the delimited messages, with their tables."""
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
        """Return the tables of the delimited records, and the columns that look like times.

        A time is "TABLE.COLUMN" with its format.
        """
        tables_by_name: dict[str, TableDraft] = {}
        values: dict[tuple[str, str], list[str]] = {}
        keyless: set[str] = set()
        pairings = self._pairings(self.switches)
        rows = zip(self._tables(), self._kinds(), pairings, self.records, strict=True)
        for name, kind, pairing, record in rows:
            table = tables_by_name.setdefault(name.upper(), TableDraft(name))
            for i in range(pairing.columns):
                column_name = self._column_name(record, pairing, i)
                fields = [record[pairing.after(i)]]
                if pairing.before:
                    fields.append(record[pairing.before(i)])
                for raw in fields:
                    table.add(column_name, self.value(raw))
                    if not self.is_null(raw):
                        values.setdefault((table.name, column_name), []).append(self.value(raw))
                side = fields[-1] if kind in "UD" else fields[0]
                if i == 0 and self.is_null(side):
                    keyless.add(name.upper())
        for name, table in tables_by_name.items():
            if not table.sizes:
                table.add("COL1", "")
            elif name not in keyless:
                table.keys = [next(iter(table.sizes))]
        dates = [
            (f"{name}.{column}", form)
            for (name, column), texts in values.items()
            if (form := propose_date_format(texts))
        ]
        return list(tables_by_name.values()), dates

    def _column_name(self, record: list[bytes], pairing: ColumnPairing, column: int) -> str:
        """Return the name of a delimited column: from the record, from the first line, or COLn."""
        if pairing.name:
            return self.value(record[pairing.name(column)])
        at = pairing.after(column)
        return self.headings[at] if at < len(self.headings) else f"COL{column + 1}"


def _options(draft: PropertiesDraft) -> DelimitedOptions:
    """Return the delimited parser's options for properties that do not define tables yet."""
    lines = [*draft.lines, "delim.userdefs.tables=A.B", "delim.userdefs.A.B.columns=C"]
    options = set_up_capture("\n".join([*lines, "delim.userdefs.A.B.C=vchar 1"])).options
    assert isinstance(options, DelimitedOptions)
    return options


def _written(value: bytes) -> str:
    r"""Return bytes in the notation of properties: bytes that are not visible are written as ``\xHH``."""
    text = value.decode()
    plain = text.isascii() and text.isprintable() and text.strip() == text
    return text if plain else "".join(f"\\x{byte:02x}" for byte in value)
