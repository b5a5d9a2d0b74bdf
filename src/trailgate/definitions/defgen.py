"""Read and write source definitions files (Defgen).

A file has a first line with version and encoding, lines about the database, and then for each
table: its name, its record length, and one line per column with 19 or 24 attributes. ``ATTRIBUTES``
has a row for each attribute, which both reading and writing use. Comments start with ``*``. If a
table has no record length, ``defgen_layout`` computes the columns' offsets.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import DefinitionError, EncodeError, Where
from trailgate.model.table_names import normalize_table_name, split_table_name, unquote
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table
from trailgate.model.types import TYPES

DEFAULT_ENCODING: Final = "UTF-8"

# Java and ICU names of encodings that Python calls differently.
_CODECS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ibm-37": "cp037",
        "ibm-037": "cp037",
        "ibm-1208": "utf-8",
        "ibm-943": "cp932",
        "ms932": "cp932",
        "ms936": "gbk",
        "ms949": "cp949",
        "ms950": "cp950",
        "x-windows-949": "cp949",
        "x-windows-950": "cp950",
        "x-big5-hkscs": "big5hkscs",
        "x-sjis": "shift_jis",
        "tis-620": "tis_620",
    }
)
# Python codecs that are not character sets, or whose form of "*+-" is not unique.
_REFUSED: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
    | {"utf-7", "utf-32", "utf-32-be", "utf-32-le", "mac-arabic", "mac-farsi"}
)
_ENCODING_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,60}", re.ASCII)
# *+- Defgen version 2.0, Encoding UTF-8
_LINE_ONE: Final = re.compile(
    r"\*\+-[ \t]*Defgen[ \t]+version[ \t]+([^\s,]+)[ \t]*(?:,[ \t]*Encoding[ \t]+(\S+))?[ \t]*",
    re.IGNORECASE,
)
# The first bytes ("*+-" or a byte order mark) in encodings that are not a superset of ASCII.
_OPENINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"*\x00+\x00", "utf-16-le"),
    (b"\x00*\x00+", "utf-16-be"),
    (b"\x5c\x4e\x60", "cp037"),  # "*+-" in EBCDIC
)
_LONGEST_LINE_ONE: Final = 400  # bytes; a generous limit for one short sentence
CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
# A word of a line: 134, or "ORDER ""NO""", whose quotes are doubled inside
_WORD: Final = re.compile(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t"][^ \t]*')
SHORT, LONG = 19, 24  # attributes of a column up to version 2.0, and since 4.0
# Attributes are signed integers of 32 bits.
_LARGEST: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)

_FLAGS: Final = frozenset({"nullable", "key"})


# capture properties §9.1: 3.0 and 4.0 are known only by name. They are read like 2.0 and 5.0.
VERSIONS: Final = ("", "1.0", "2.0", "3.0", "4.0", "5.0")
_WRITTEN_VERSION: Final = "2.0"
_LONG_VERSIONS: Final = ("4.0", "5.0")
_DATABASE_LINES: Final = (
    ("Database type:", "database_type"),
    ("Character set ID:", "character_set"),
    ("National character set ID:", "national_character_set"),
    ("Locale:", "locale"),
    ("Case sensitivity:", "case_sensitivity"),
    ("TimeZone:", "time_zone"),
)
_TABLE: Final = "Definition for table"
_END: Final = "End of definition"
# Number of files to cache: every read of a small trail starts with the same definitions file.
KEPT: Final = 8
_MOST_COLUMNS: Final = 65535  # far above any database's limit; catches a damaged count


@dataclass(frozen=True, slots=True)
class DefgenWord:
    """One word of a Defgen line, and its position (from 1). ``text`` is unquoted, ``written`` has the quotes."""

    text: str
    line: int
    column: int
    written: str

    def error(self, problem: str, encoding: str, hint: str = "") -> DefinitionError:
        """Build an error at this word of a Defgen file."""
        raw = self.written.encode(encoding, "replace")
        return DefinitionError(
            problem, where=Where(line=self.line, column=self.column, raw=raw), hint=hint
        )


@dataclass(frozen=True, slots=True)
class DefgenLine:
    """One line of a Defgen file that is not a comment, and its number (from 1)."""

    number: int
    text: str

    @property
    def whole(self) -> DefgenWord:
        """The Defgen line without surrounding blanks, as one word."""
        text = self.text.strip(" \t")
        return DefgenWord(text, self.number, self.text.find(text) + 1, text)

    def after(self, label: str) -> DefgenWord | None:
        """Return the text after a label of a Defgen line, or None if the line has a different label.

        The case of the label is ignored.
        """
        whole = self.whole
        if whole.text[: len(label)].casefold() != label.casefold():
            return None
        rest = whole.text[len(label) :]
        text = rest.strip(" \t")
        column = whole.column + len(label) + (rest.find(text) if text else 0)
        return DefgenWord(text, self.number, column, text)

    def words(self, encoding: str) -> Iterator[DefgenWord]:
        """Yield the words of the Defgen line. A quoted word may contain blanks and doubled quotes."""
        at = 0
        while at < len(self.text):
            if self.text[at] in " \t":
                at += 1
                continue
            match = _WORD.match(self.text, at)
            if match is None:
                rest = self.text[at:]
                word = DefgenWord(rest, self.number, at + 1, rest)
                raise word.error("expected a closing quote and a blank after it", encoding)
            written = match.group()
            yield DefgenWord(unquote(written), self.number, at + 1, written)
            at = match.end()


@dataclass(frozen=True, slots=True)
class DefgenText:
    """A Defgen file as text: its version ("" before 11.2), its encoding, and Python's codec for it.

    ``lines`` are the lines without comments, and ``end`` is the number of the file's last line.
    """

    version: str
    encoding: str
    codec: str
    lines: tuple[DefgenLine, ...]
    end: int


def python_codec(name: str) -> str | None:
    """Return Python's codec for the encoding that a Defgen file names in its first line (a Java, ICU or IANA name), or None."""
    if not _ENCODING_NAME.fullmatch(name):
        return None
    wanted = _CODECS.get(name.casefold(), name)
    try:
        codec = codecs.lookup(wanted).name
        b"*+".decode(codec, "replace")  # refuses codecs that do not give text
    except (LookupError, ValueError):
        return None
    return None if codec in _REFUSED else codec


def read_text(data: bytes) -> DefgenText:
    """Decode a Defgen file into lines without comments. Raises DefinitionError.

    capture properties §9.1: "`*` in column 1 = comment, except that the first line carries version
    and encoding". Files before 11.2 have no such line and are read as UTF-8.
    """
    # The encoding is named in the first line, which must be decoded before it is known.
    opening = next((codec for mark, codec in _OPENINGS if data.startswith(mark)), None)
    first = data[:_LONGEST_LINE_ONE].decode(opening or "latin-1", "replace")
    line_one = first.split("\n", 1)[0].rstrip("\r")
    version, encoding = _line_one(line_one)
    codec = python_codec(encoding)
    if codec is None:
        word = DefgenWord(encoding, 1, line_one.find(encoding) + 1, encoding)
        raise word.error(
            f"unknown encoding {encoding}: expected a Java or IANA character set name", "utf-8"
        )
    if data.startswith(codecs.BOM_UTF8) and codec == "utf-8":
        codec = "utf-8-sig"
    text = _decode(data, codec)
    rows = [row.removesuffix("\r") for row in text.split("\n")]
    kept = (
        DefgenLine(i, row) for i, row in enumerate(rows, 1) if row.strip(" \t") and row[0] != "*"
    )
    return DefgenText(version, encoding, codec, tuple(kept), len(rows))


def _line_one(line: str) -> tuple[str, str]:
    """Return the version and encoding that the first line of a Defgen file states.

    A file before 11.2 has no such line: its version is "", its encoding UTF-8.
    """
    if not line.startswith("*+-"):
        return "", DEFAULT_ENCODING
    match = _LINE_ONE.fullmatch(line)
    if match is None:
        raise DefgenWord(line, 1, 1, line).error(
            "expected '*+- Defgen version V, Encoding E' in the first line", "utf-8"
        )
    return match.group(1), match.group(2) or DEFAULT_ENCODING


def _decode(data: bytes, codec: str) -> str:
    """Decode a Defgen file. Raises DefinitionError with the position of the first wrong byte."""
    try:
        return data.decode(codec)
    except UnicodeError as error:
        # UnicodeError without an offset exists too, for example from a missing byte order mark.
        start = getattr(error, "start", 0)
        begin = data.rfind(b"\n", 0, start) + 1
        where = Where(
            line=data.count(b"\n", 0, start) + 1,
            column=start - begin + 1,
            offset=start,
            raw=data[start : start + 8],
        )
        hint = "Does the first line name the encoding that the file really has?"
        raise DefinitionError(f"expected text in {codec}", where=where, hint=hint) from None


class ColumnAttribute(NamedTuple):
    """One attribute of a column in a Defgen file, such as the external length, which is attribute 3.

    ``field`` is its field of ``Column``; ``least`` and ``greatest`` limit its value, and ``width``
    is the minimum number of characters with which it is written.
    """

    position: int
    label: str
    field: str
    default: int = 0
    least: int = 0
    greatest: int = _LARGEST
    width: int = 1


# Positions and labels: capture properties §9.2. Attribute 1, the name, is text and has no row.
ATTRIBUTES: Final[tuple[ColumnAttribute, ...]] = (
    ColumnAttribute(2, "Data Type", "data_type", greatest=65535, width=3),
    ColumnAttribute(3, "External Length", "external_length", width=6),
    ColumnAttribute(4, "Fetch Offset", "fetch_offset", width=8),
    ColumnAttribute(5, "Scale", "scale", least=-1000, greatest=1000, width=2),
    ColumnAttribute(6, "Level", "level", width=2),
    ColumnAttribute(7, "Null", "nullable", default=1, greatest=1),
    ColumnAttribute(8, "Bump if Odd", "bump_if_odd"),
    ColumnAttribute(9, "Internal Length", "internal_length", width=6),
    ColumnAttribute(10, "Binary Length", "binary_length", width=6),
    ColumnAttribute(11, "Table Length", "table_length", width=6),
    ColumnAttribute(12, "Most Significant DT", "most_significant"),
    ColumnAttribute(13, "Least Significant DT", "least_significant"),
    ColumnAttribute(14, "High Precision", "high_precision"),
    ColumnAttribute(15, "Low Precision", "low_precision"),
    ColumnAttribute(16, "Elementary Item", "elementary", default=1),
    ColumnAttribute(17, "Occurs", "occurs", width=4),
    ColumnAttribute(18, "Key Column", "key", greatest=1),
    ColumnAttribute(19, "Sub Data Type", "sub_type", width=3),
    ColumnAttribute(20, "Native Data Type", "native_type", least=-_LARGEST - 1, width=3),
    ColumnAttribute(21, "Character Set", "character_set", default=-1, least=-1, width=3),
    ColumnAttribute(22, "Character Length", "character_length", width=4),
    ColumnAttribute(23, "LOB Type", "lob_type"),
    ColumnAttribute(24, "Partial Type", "partial_type"),
)


def parse_number(
    word: DefgenWord, meaning: str, codec: str, least: int = 0, greatest: int = _LARGEST
) -> int:
    """Parse a word of a Defgen file as a number.

    Raises DefinitionError if it is not a number, or out of range. The error states the ``meaning``
    of the number; ``codec`` is the file's encoding.
    """
    value = int(word.text) if _NUMBER.fullmatch(word.text) else None
    if value is None or not least <= value <= greatest:
        expected = f"a number from {least} to {greatest}"
        raise word.error(f"expected {expected} for {meaning}, found {word.text!r}", codec)
    return value


def read_column(words: Sequence[DefgenWord], codec: str) -> Column:
    """Parse a column from the words of its Defgen line. Raises DefinitionError at the wrong word."""
    name = words[0]
    if len(words) not in (SHORT, LONG):
        last = words[-1]
        raise last.error(
            f"expected {SHORT} or {LONG} attributes, found {len(words)}", codec
        ).with_place(field=name.text)
    if not name.text or CONTROL.search(name.text):
        raise name.error("expected a column name", codec)
    values: dict[str, Any] = {"name": name.text}
    for attribute, word in zip(ATTRIBUTES, words[1:], strict=False):
        label = f"{attribute.label} (attribute {attribute.position})"
        value = parse_number(word, label, codec, attribute.least, attribute.greatest)
        values[attribute.field] = bool(value) if attribute.field in _FLAGS else value
    # A code that is not in the table would be decoded wrongly.
    if values["data_type"] not in TYPES:
        raise (
            words[1]
            .error(f"expected a known data type code, found {values['data_type']}", codec)
            .with_place(field=name.text)
        )
    return Column(**values)


def needs_long_form(column: Column) -> bool:
    """Return True if a column's Defgen line needs the attributes 20 to 24, because one of them is not the default."""
    late = ATTRIBUTES[SHORT - 1 :]
    return any(getattr(column, a.field) != a.default for a in late)


def attribute_text(column: Column, count: int) -> str:
    """Format the attributes 2 to ``count`` of a column for its Defgen line.

    Raises EncodeError for a number that ``read_column`` would not accept.
    """
    return " ".join(_attribute(column, a) for a in ATTRIBUTES[: count - 1])


def _attribute(column: Column, attribute: ColumnAttribute) -> str:
    value = int(getattr(column, attribute.field))
    if not attribute.least <= value <= attribute.greatest:
        where = Where(field=column.name)
        raise EncodeError(
            f"{attribute.label} {value} is not from {attribute.least} to {attribute.greatest}",
            where=where,
        )
    return f"{value:>{attribute.width}}"


@dataclass(slots=True)
class _Cursor:
    """The lines of a Defgen file, and the index of the next one to read."""

    text: DefgenText
    at: int = 0

    def peek(self) -> DefgenLine | None:
        return self.text.lines[self.at] if self.at < len(self.text.lines) else None

    def take(self, expected: str) -> DefgenLine:
        line = self.peek()
        if line is None:
            end = DefgenWord("", self.text.end, 1, "")
            raise end.error(
                f"expected {expected}, found the end of the file",
                self.text.codec,
                "Is the file cut off?",
            )
        self.at += 1
        return line

    def label(self, label: str) -> DefgenWord:
        line = self.take(f"'{label}'")
        word = line.after(label)
        if word is None:
            raise line.whole.error(f"expected '{label}'", self.text.codec)
        return word


def read_sourcedefs(data: bytes, source: str = "") -> Definitions:
    """Parse the tables of a Defgen file (capture properties §9).

    Offsets and record lengths are taken from the file, even if they deviate from the formula
    (decision 0026); if a table's record length is 0, the formula is used. Raises
    DefinitionError with source, line and column, the expected text, and the bytes in the file.
    """
    try:
        return _read(data)
    except DefinitionError as error:
        raise error.with_place(source=source or None) from None


@lru_cache(KEPT)
def _read(data: bytes) -> Definitions:
    text = read_text(data)
    if text.version not in VERSIONS:
        word = DefgenWord(text.version, 1, len("*+- Defgen version ") + 1, text.version)
        raise word.error(f"expected a Defgen version of {', '.join(VERSIONS[1:])}", text.codec)
    cursor = _Cursor(text)
    database = _read_database(cursor)
    tables: dict[str, Table] = {}
    while cursor.peek() is not None:
        name = cursor.label(_TABLE)
        table = _read_table(cursor, name)
        if table.name.casefold() in tables:
            raise name.error(f"table {table.name} is defined twice", text.codec)
        tables[table.name.casefold()] = table
    if not tables and not text.version:
        end = DefgenWord("", 1, 1, "")
        raise end.error(f"expected a Defgen file: no line '{_TABLE} ...'", text.codec)
    return Definitions(tuple(tables.values()), database)


def _read_database(cursor: _Cursor) -> DatabaseLines:
    """Read the lines of a Defgen file about the database, up to the first table."""
    values: dict[str, str] = {}
    while (line := cursor.peek()) is not None and line.after(_TABLE) is None:
        matches = [(key, word) for label, key in _DATABASE_LINES if (word := line.after(label))]
        if not matches:
            problem = f"expected '{_TABLE} ...' or a database line"
            raise line.whole.error(problem, cursor.text.codec)
        key, word = matches[0]
        if key in values:
            raise line.whole.error("expected this line once only", cursor.text.codec)
        if CONTROL.search(word.text):
            raise word.error("expected text without control characters", cursor.text.codec)
        values[key] = word.text
        cursor.at += 1
    return DatabaseLines(version=cursor.text.version, encoding=cursor.text.encoding, **values)


def _read_table(cursor: _Cursor, name_word: DefgenWord) -> Table:
    """Read one table of a Defgen file, up to its last line ("End of definition")."""
    codec = cursor.text.codec
    name = _table_name(name_word, codec)
    try:
        record_length = parse_number(cursor.label("Record length:"), "the record length", codec)
        syskey = parse_number(cursor.label("Syskey:"), "Syskey", codec)
        count_word = cursor.label("Columns:")
        count = parse_number(count_word, "the number of columns", codec, 1, _MOST_COLUMNS)
        rows = [_column_words(cursor, i, count) for i in range(1, count + 1)]
        columns = tuple(read_column(words, codec) for words in rows)
        _check_names(columns, rows, codec)
        end = cursor.take(f"'{_END}'")
        if end.whole.text.casefold() != _END.casefold():
            raise end.whole.error(f"expected '{_END}' after {count} columns", codec)
        table = Table(name, columns, record_length, syskey)
    except DefinitionError as error:
        raise error.with_place(table=name) from None
    return table if table.record_length else complete_table(table)


def _table_name(word: DefgenWord, codec: str) -> str:
    """Return the table name in a Defgen line, normalized by ``normalize_table_name``.

    Raises DefinitionError if it is not one.
    """
    if not split_table_name(word.text) or CONTROL.search(word.text):
        raise word.error("expected a table name such as SCHEMA.TABLE", codec)
    return normalize_table_name(word.text)


def _column_words(cursor: _Cursor, index: int, count: int) -> list[DefgenWord]:
    expected = f"column {index} of {count}"
    line = cursor.take(expected)
    if line.whole.text.casefold() == _END.casefold():
        raise line.whole.error(f"expected {expected}, found '{_END}'", cursor.text.codec)
    return list(line.words(cursor.text.codec))


def _check_names(columns: tuple[Column, ...], rows: list[list[DefgenWord]], codec: str) -> None:
    seen: set[str] = set()
    for column, words in zip(columns, rows, strict=True):
        if column.name in seen:
            raise words[0].error(f"column {column.name} is defined twice", codec)
        seen.add(column.name)


def write_sourcedefs(definitions: Definitions) -> bytes:
    """Format definitions as a Defgen file that ``read_sourcedefs`` reads back unchanged.

    Lengths and offsets are computed for tables without a record length. The version is that of the
    definitions, or 2.0 if they have none. If a column needs the attributes 20 to 24, which exist only
    since version 4.0, an earlier version becomes 5.0. Raises EncodeError if a name or number cannot be
    written.
    """
    tables = [table if table.record_length else complete_table(table) for table in definitions]
    version = _version(definitions.database.version, tables)
    database = definitions.database
    codec = python_codec(database.encoding)
    if codec is None:
        raise EncodeError(f"unknown encoding {database.encoding!r}")
    count = LONG if version in _LONG_VERSIONS else SHORT
    lines = [*_heading(database, version, count)]
    for table in tables:
        lines += _table_lines(table, count)
    text = "\n".join([*lines, ""])
    try:
        return text.encode(codec)
    except UnicodeError:
        raise EncodeError(f"a name has characters that {database.encoding} lacks") from None


def _version(stated: str, tables: list[Table]) -> str:
    """Return the version of a written Defgen file.

    It is ``stated``, or a later one if that lacks attributes that the columns need. Raises
    EncodeError if ``stated`` is not a known version.
    """
    if stated not in VERSIONS:
        raise EncodeError(f"unknown Defgen version {stated!r}")
    version = stated or _WRITTEN_VERSION
    if version in _LONG_VERSIONS:
        return version
    late = any(needs_long_form(column) for table in tables for column in table.columns)
    return _LONG_VERSIONS[-1] if late else version


def _heading(database: DatabaseLines, version: str, count: int) -> list[str]:
    lines = [f"*+- Defgen version {version}, Encoding {database.encoding}", "*"]
    lines += ["*  Field descriptions for each column entry:", "*", "*     1    Name"]
    lines += [f"*{a.position:>6}    {a.label}" for a in ATTRIBUTES[: count - 1]]
    lines.append("*")
    for label, key in _DATABASE_LINES:
        value = getattr(database, key)
        if value:
            if value != value.strip(" \t") or CONTROL.search(value):
                raise EncodeError(
                    f"{label} {value!r} begins or ends with a blank, or has control characters"
                )
            lines.append(f"{label} {value}")
    return [*lines, "*"]


def _table_lines(table: Table, count: int) -> list[str]:
    where = Where(table=table.name)
    if not 1 <= len(table.columns) <= _MOST_COLUMNS:
        raise EncodeError(f"a table has 1 to {_MOST_COLUMNS} columns", where=where)
    names = [_quote(column.name, where) for column in table.columns]
    width = max(map(len, names))
    return [
        f"{_TABLE} {_quoted_table(table.name, where)}",
        f"Record length: {table.record_length}",
        f"Syskey: {table.syskey}",
        f"Columns: {len(names)}",
        *(
            f"{name:<{width}}  {attribute_text(column, count)}"
            for name, column in zip(names, table.columns, strict=True)
        ),
        _END,
        "*",
    ]


def _quote(name: str, where: Where) -> str:
    if not name or CONTROL.search(name):
        raise EncodeError(f"the name {name!r} is empty, or has control characters", where=where)
    if any(c in name for c in ' "') or name[0] == "*":
        return '"' + name.replace('"', '""') + '"'
    return name


def _quoted_table(name: str, where: Where) -> str:
    parts = split_table_name(name)
    if not parts:
        raise EncodeError(f"{name!r} is not the name of a table, such as HR.JOBS", where=where)
    return ".".join(part if part[0] == '"' else _quote(part, where) for part in parts)
