"""Source definitions files (Defgen): bytes to table definitions, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trailgate.definitions.defgen.columns import (
    ATTRIBUTES,
    LONG,
    SHORT,
    attribute_text,
    needs_long_form,
    number,
    read_column,
)
from trailgate.definitions.defgen.record_layout import complete
from trailgate.definitions.defgen.text import (
    CONTROL,
    DefgenText,
    Line,
    Word,
    python_codec,
    read_text,
)
from trailgate.errors import DefinitionError, EncodeError, Where
from trailgate.model.table_patterns import name_parts, table_name
from trailgate.model.tables import Column, Database, Definitions, Table

# capture properties §9.1: 4.0 and 3.0 are known by name only; they are read like their neighbours.
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
KEPT: Final = (
    8  # files whose definitions are kept: each reading of a small trail begins with the same
)
_MOST_COLUMNS: Final = 65535  # far above any database's limit; stops a damaged count at once


@dataclass(slots=True)
class _Cursor:
    """The lines of a file, and how far they are read."""

    text: DefgenText
    at: int = 0

    def peek(self) -> Line | None:
        return self.text.lines[self.at] if self.at < len(self.text.lines) else None

    def take(self, expected: str) -> Line:
        line = self.peek()
        if line is None:
            end = Word("", self.text.end, 1, "")
            raise end.error(
                f"expected {expected}, found the end of the file",
                self.text.codec,
                "Is the file cut off?",
            )
        self.at += 1
        return line

    def labelled(self, label: str) -> Word:
        line = self.take(f"'{label}'")
        word = line.after(label)
        if word is None:
            raise line.whole.error(f"expected '{label}'", self.text.codec)
        return word


def read_sourcedefs(data: bytes, source: str = "") -> Definitions:
    """Return the tables of a Defgen file (capture properties §9).

    Offsets and record lengths are those that the file states, whether they follow the formula or not (decision 0026);
    a table with a record length of 0 gets those of the formula.
    Raises DefinitionError with source, line, column, what was expected and the bytes found.
    """
    try:
        return _read(data)
    except DefinitionError as error:
        raise error.located(source=source or None) from None


@lru_cache(KEPT)
def _read(data: bytes) -> Definitions:
    text = read_text(data)
    if text.version not in VERSIONS:
        word = Word(text.version, 1, len("*+- Defgen version ") + 1, text.version)
        raise word.error(f"expected a Defgen version of {', '.join(VERSIONS[1:])}", text.codec)
    cursor = _Cursor(text)
    database = _read_database(cursor)
    tables: dict[str, Table] = {}
    while cursor.peek() is not None:
        name = cursor.labelled(_TABLE)
        table = _read_table(cursor, name)
        if table.name.casefold() in tables:
            raise name.error(f"table {table.name} is defined twice", text.codec)
        tables[table.name.casefold()] = table
    if not tables and not text.version:
        end = Word("", 1, 1, "")
        raise end.error(f"expected a Defgen file: no line '{_TABLE} ...'", text.codec)
    return Definitions(tuple(tables.values()), database)


def _read_database(cursor: _Cursor) -> Database:
    values: dict[str, str] = {}
    while (line := cursor.peek()) is not None and line.after(_TABLE) is None:
        found = [(key, word) for label, key in _DATABASE_LINES if (word := line.after(label))]
        if not found:
            problem = f"expected '{_TABLE} ...' or a database line"
            raise line.whole.error(problem, cursor.text.codec)
        key, word = found[0]
        if key in values:
            raise line.whole.error("expected this line once only", cursor.text.codec)
        if CONTROL.search(word.text):
            raise word.error("expected text without control characters", cursor.text.codec)
        values[key] = word.text
        cursor.at += 1
    return Database(version=cursor.text.version, encoding=cursor.text.encoding, **values)


def _read_table(cursor: _Cursor, name_word: Word) -> Table:
    codec = cursor.text.codec
    name = _table_name(name_word, codec)
    try:
        record_length = number(cursor.labelled("Record length:"), "the record length", codec)
        syskey = number(cursor.labelled("Syskey:"), "Syskey", codec)
        count_word = cursor.labelled("Columns:")
        count = number(count_word, "the number of columns", codec, 1, _MOST_COLUMNS)
        rows = [_column_words(cursor, i, count) for i in range(1, count + 1)]
        columns = tuple(read_column(words, codec) for words in rows)
        _check_names(columns, rows, codec)
        end = cursor.take(f"'{_END}'")
        if end.whole.text.casefold() != _END.casefold():
            raise end.whole.error(f"expected '{_END}' after {count} columns", codec)
        table = Table(name, columns, record_length, syskey)
    except DefinitionError as error:
        raise error.located(table=name) from None
    return table if table.record_length else complete(table)


def _table_name(word: Word, codec: str) -> str:
    """Return a table's name in its one form."""
    if not name_parts(word.text) or CONTROL.search(word.text):
        raise word.error("expected a table name such as SCHEMA.TABLE", codec)
    return table_name(word.text)


def _column_words(cursor: _Cursor, index: int, count: int) -> list[Word]:
    expected = f"column {index} of {count}"
    line = cursor.take(expected)
    if line.whole.text.casefold() == _END.casefold():
        raise line.whole.error(f"expected {expected}, found '{_END}'", cursor.text.codec)
    return list(line.words(cursor.text.codec))


def _check_names(columns: tuple[Column, ...], rows: list[list[Word]], codec: str) -> None:
    seen: set[str] = set()
    for column, words in zip(columns, rows, strict=True):
        if column.name in seen:
            raise words[0].error(f"column {column.name} is defined twice", codec)
        seen.add(column.name)


def write_sourcedefs(definitions: Definitions) -> bytes:
    """Return the definitions as a Defgen file that ``read_sourcedefs`` reads back the same.

    Tables built in code get their lengths and offsets. The version is the definitions' own,
    else 2.0; where columns hold attributes 20 to 24 and that version has none, it is 5.0.
    Raises EncodeError where a name or a number cannot be written.
    """
    tables = [table if table.record_length else complete(table) for table in definitions]
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


def _version(own: str, tables: list[Table]) -> str:
    if own not in VERSIONS:
        raise EncodeError(f"unknown Defgen version {own!r}")
    version = own or _WRITTEN_VERSION
    if version in _LONG_VERSIONS:
        return version
    late = any(needs_long_form(column) for table in tables for column in table.columns)
    return _LONG_VERSIONS[-1] if late else version


def _heading(database: Database, version: str, count: int) -> list[str]:
    lines = [f"*+- Defgen version {version}, Encoding {database.encoding}", "*"]
    lines += ["*  Field descriptions for each column entry:", "*", "*     1    Name"]
    lines += [f"*{a.position:>6}    {a.label}" for a in ATTRIBUTES[: count - 1]]
    lines.append("*")
    for label, key in _DATABASE_LINES:
        value = getattr(database, key)
        if value:
            if value != value.strip(" \t") or CONTROL.search(value):
                raise EncodeError(f"{label} {value!r} does not fit a line")
            lines.append(f"{label} {value}")
    return [*lines, "*"]


def _table_lines(table: Table, count: int) -> list[str]:
    where = Where(table=table.name)
    if not 1 <= len(table.columns) <= _MOST_COLUMNS:
        raise EncodeError(f"a table has 1 to {_MOST_COLUMNS} columns", where=where)
    names = [_quoted(column.name, where) for column in table.columns]
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


def _quoted(name: str, where: Where) -> str:
    if not name or CONTROL.search(name):
        raise EncodeError(f"name {name!r} does not fit a line", where=where)
    if any(c in name for c in ' "') or name[0] == "*":
        return '"' + name.replace('"', '""') + '"'
    return name


def _quoted_table(name: str, where: Where) -> str:
    parts = name_parts(name)
    if not parts:
        raise EncodeError(f"table name {name!r} does not fit a line", where=where)
    return ".".join(part if part[0] == '"' else _quoted(part, where) for part in parts)
