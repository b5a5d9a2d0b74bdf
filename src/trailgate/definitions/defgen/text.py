"""The text of a Defgen file: its encoding, its lines, and the words of a line with their places."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from trailgate.errors import DefinitionError, Where
from trailgate.model.table_patterns import unquoted

DEFAULT_ENCODING: Final = "UTF-8"

# Java and ICU names that Python's codecs do not know under that name.
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
# Python codecs that are not character sets, or whose "*+-" the first bytes do not identify.
_REFUSED: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
    | {"utf-7", "utf-32", "utf-32-be", "utf-32-le", "mac-arabic", "mac-farsi"}
)
_ENCODING_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,60}", re.ASCII)
_LINE_ONE: Final = re.compile(
    r"\*\+-[ \t]*Defgen[ \t]+version[ \t]+([^\s,]+)[ \t]*(?:,[ \t]*Encoding[ \t]+(\S+))?[ \t]*",
    re.IGNORECASE,
)
# How the first bytes "*+-" or a byte order mark look in encodings that are not a superset of ASCII.
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
_WORD: Final = re.compile(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t"][^ \t]*')


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a line, unquoted, and its place (1-based)."""

    text: str
    line: int
    column: int
    written: str

    def error(self, problem: str, encoding: str, hint: str = "") -> DefinitionError:
        """Return an error placed at this word."""
        raw = self.written.encode(encoding, "replace")
        return DefinitionError(
            problem, where=Where(line=self.line, column=self.column, raw=raw), hint=hint
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not a comment, and its number (1-based)."""

    number: int
    text: str

    @property
    def whole(self) -> Word:
        """Return the line without blanks around it, as one word."""
        text = self.text.strip(" \t")
        return Word(text, self.number, self.text.find(text) + 1, text)

    def after(self, label: str) -> Word | None:
        """Return what follows a label (compared without case), or None if it does not open the line."""
        whole = self.whole
        if whole.text[: len(label)].casefold() != label.casefold():
            return None
        rest = whole.text[len(label) :]
        text = rest.strip(" \t")
        column = whole.column + len(label) + (rest.find(text) if text else 0)
        return Word(text, self.number, column, text)

    def words(self, encoding: str) -> Iterator[Word]:
        """Yield the words; a quoted one may hold blanks and doubled quotes."""
        at = 0
        while at < len(self.text):
            if self.text[at] in " \t":
                at += 1
                continue
            found = _WORD.match(self.text, at)
            if found is None:
                rest = self.text[at:]
                word = Word(rest, self.number, at + 1, rest)
                raise word.error("expected a closing quote and a blank after it", encoding)
            written = found.group()
            yield Word(unquoted(written), self.number, at + 1, written)
            at = found.end()


@dataclass(frozen=True, slots=True)
class DefgenText:
    """A Defgen file as text: version ("" before 11.2), encoding as named, and its codec."""

    version: str
    encoding: str
    codec: str
    lines: tuple[Line, ...]
    end: int


def python_codec(name: str) -> str | None:
    """Return Python's codec for a Java, ICU or IANA encoding name, or None if there is none."""
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
    """Return the lines that are not comments; raises DefinitionError for a wrong first line or byte.

    capture properties §9.1: "`*` in column 1 = comment, except that the first line carries version and
    encoding"; files before 11.2 have no such line and are read as UTF-8.
    """
    opening = next((codec for mark, codec in _OPENINGS if data.startswith(mark)), None)
    first = data[:_LONGEST_LINE_ONE].decode(opening or "latin-1", "replace")
    line_one = first.split("\n", 1)[0].rstrip("\r")
    version, encoding = _line_one(line_one)
    codec = python_codec(encoding)
    if codec is None:
        word = Word(encoding, 1, line_one.find(encoding) + 1, encoding)
        raise word.error(
            f"unknown encoding {encoding}: expected a Java or IANA character set name", "utf-8"
        )
    if data.startswith(codecs.BOM_UTF8) and codec == "utf-8":
        codec = "utf-8-sig"
    text = _decoded(data, codec)
    rows = [row.removesuffix("\r") for row in text.split("\n")]
    kept = (Line(i, row) for i, row in enumerate(rows, 1) if row.strip(" \t") and row[0] != "*")
    return DefgenText(version, encoding, codec, tuple(kept), len(rows))


def _line_one(line: str) -> tuple[str, str]:
    if not line.startswith("*+-"):
        return "", DEFAULT_ENCODING
    found = _LINE_ONE.fullmatch(line)
    if found is None:
        raise Word(line, 1, 1, line).error(
            "expected '*+- Defgen version V, Encoding E' in the first line", "utf-8"
        )
    return found.group(1), found.group(2) or DEFAULT_ENCODING


def _decoded(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeError as error:
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
