"""The options of FILTER as a table: how each is typed, what it is, how its test is made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.filters import criteria
from trailgate.logdump.filters.comparisons import Compare, read_comparison
from trailgate.logdump.filters.criteria import Span, Test
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.terms.settings import Offset
from trailgate.logdump.terms.times import read_time
from trailgate.logdump.terms.words import listed, one_of, read_number, unquoted
from trailgate.trail.format.record_types import ROWS
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS

INDICATORS: Final[Mapping[str, int]] = MappingProxyType(
    {"FIRST": 0, "BEGIN": 0, "MIDDLE": 1, "LAST": 2, "END": 2, "ONLY": 3, "WHOLE": 3}
)


@dataclass(frozen=True, slots=True)
class Typed:
    """The words after an option, and what is needed to parse them."""

    phrases: tuple[tuple[str, ...], ...]
    offset: Offset
    now: datetime

    @property
    def words(self) -> list[str]:
        """Return the words without commas; raises OptionError where there are none."""
        found = [word for phrase in self.phrases for word in phrase]
        if not found:
            raise OptionError("something to compare with is missing")
        return found

    def number(self, least: int = 0, greatest: int = 2**64 - 1) -> tuple[Compare, int]:
        """Return a comparison and the number to compare with."""
        compare, rest = read_comparison(self.words)
        if len(rest) != 1:
            raise OptionError("one number was expected")
        return compare, read_number(rest[0], least, greatest)

    def name_and_value(self) -> tuple[str, Compare | None, str]:
        """Return a name, and what its value is compared with, if anything."""
        name, *words = self.words
        compare, rest = read_comparison([name, *words])
        return rest[0] if rest else name, compare if rest[1:] else None, " ".join(rest[1:])

    def time(self) -> int:
        """Return a time, microseconds since 1970 UTC."""
        return read_time(" ".join(self.words), self.offset, self.now)


class FilterOption(NamedTuple):
    """One option: its names, its syntax, what it is, what makes its test."""

    names: tuple[str, ...]
    syntax: str
    help: str
    make: Callable[[Typed], Test]
    joins: bool = False  # any one of several suffices


def type_codes(words: Sequence[str]) -> list[int]:
    """Return the record types that names or numbers mean."""
    codes = []
    names = {row.name.upper(): row.code for row in ROWS}
    for word in words:
        if word.upper() in names:
            codes.append(names[word.upper()])
        elif word.isascii() and word[:1].isdigit():
            codes.append(read_number(word, 0, 255))
        else:
            raise OptionError(f"{word[:40]!r} is not a record type", hint="SHOW RECTYPE lists them")
    return codes


def _types(typed: Typed) -> Test:
    return criteria.of_types(type_codes(typed.words))


def _names(typed: Typed) -> Test:
    return criteria.of_names(typed.words)


def _field(name: str, greatest: int = 2**32 - 1) -> Callable[[Typed], Test]:
    return lambda typed: criteria.of_field(name, *typed.number(0, greatest))


def _indicator(typed: Typed) -> Test:
    compare, rest = read_comparison(typed.words)
    word = " ".join(rest)
    number = read_number(word, 0, 255) if word.isdigit() else one_of(word, INDICATORS)
    return criteria.of_indicator(compare, number)


def _image(typed: Typed) -> Test:
    word = " ".join(typed.words)
    return criteria.of_image(
        before=one_of(word, MappingProxyType({"BEFORE": True, "AFTER": False}))
    )


def _transaction(place: int) -> Callable[[Typed], Test]:
    def make(typed: Typed) -> Test:
        compare, rest = read_comparison(typed.words)
        return criteria.of_transaction(place, compare, " ".join(rest).encode())

    return make


def _span(words: Sequence[str]) -> Span:
    if not words:
        return criteria.WHOLE
    first, _, last = words[0].partition(":")
    if len(words) > 1 or not first:
        raise OptionError("a range is start:end, as 0:231")
    return read_number(first), read_number(last) if last else None


def _text(typed: Typed) -> Test:
    tests = []
    for phrase in typed.phrases or ((),):
        words = list(phrase)
        fold = len(words) > 1 and words[0].upper() == "BOTH"
        words = words[1:] if fold else words
        if not words:
            raise OptionError("a text to look for is missing")
        text = words[0].strip("/") if words[0][:1] == "/" else unquoted(words[0])
        tests.append(criteria.of_bytes(text.encode(), _span(words[1:]), fold=fold))
    return _any(tests)


def _hex(typed: Typed) -> Test:
    tests = []
    for phrase in typed.phrases or ((),):
        if not phrase:
            raise OptionError("hex digits to look for are missing")
        try:
            needle = bytes.fromhex(phrase[0].removeprefix("0x"))
        except ValueError as error:
            raise OptionError(f"{phrase[0][:40]!r} are not pairs of hex digits") from error
        tests.append(criteria.of_bytes(needle, _span(phrase[1:])))
    return _any(tests)


def _any(tests: Sequence[Test]) -> Test:
    def test(portion: Portion) -> Mask:
        found = tests[0](portion)
        for one in tests[1:]:
            found = found | one(portion)
        return found

    return test


def _integer(width: int) -> Callable[[Typed], Test]:
    """Return what makes a test for a binary integer; column values are big-endian in any trail."""
    bound = 1 << (8 * width)

    def make(typed: Typed) -> Test:
        number = read_number(typed.words[0], -bound // 2, bound - 1)
        return criteria.of_bytes((number % bound).to_bytes(width, "big"), _span(typed.words[1:]))

    return make


def _ggs_token(typed: Typed) -> Test:
    name, compare, value = typed.name_and_value()
    codes = {row.name: row.code for row in GGS_TOKEN_ROWS}
    code = codes.get(name.upper())
    if code is None and name.lower().startswith("x"):
        code = read_number("0" + name.lower(), 0, 255)
    if code is None and len(name) == 1 and ord(name) < 256:
        code = ord(name)
    if code is None:
        raise OptionError(
            f"{name[:40]!r} is not a GGS token", hint=f"{listed(codes)}, or x and an id"
        )
    return criteria.of_ggs_token(code, compare, value.encode())


def _column(typed: Typed) -> Test:
    name, compare, value = typed.name_and_value()
    return criteria.of_column(read_number(name, 0, 0xFFFF), compare, value)


def _nonstop(typed: Typed) -> Test:
    del typed
    raise OptionError("process names are those of NonStop systems; no other trail has them")


_COMPARED: Final = "[comparison] value"
OPTIONS: Final = (
    FilterOption(
        ("RECTYPE", "IOTYPE"), "RECTYPE type, ...", "record types, by name or number", _types, True
    ),
    FilterOption(
        ("FILENAME", "FILE", "TABLE", "ANSINAME"),
        "FILENAME name, ...",
        "table names; * and ? match any letters",
        _names,
        True,
    ),
    FilterOption(
        ("TRANSID", "TRANID", "XID"),
        "TRANSID " + _COMPARED,
        "whole transactions, by id",
        _transaction(0),
        True,
    ),
    FilterOption(
        ("CSN", "LOGCSN"),
        "CSN " + _COMPARED,
        "whole transactions, by commit sequence number",
        _transaction(1),
    ),
    FilterOption(("IMAGE",), "IMAGE BEFORE|AFTER", "before or after images", _image),
    FilterOption(
        ("IBEFORE", "BEFOREIMAGE"),
        "IBEFORE",
        "before images",
        lambda _: criteria.of_image(before=True),
    ),
    FilterOption(
        ("IAFTER", "AFTERIMAGE"),
        "IAFTER",
        "after images",
        lambda _: criteria.of_image(before=False),
    ),
    FilterOption(
        ("STARTTIME", "START"),
        "STARTTIME time",
        "records of that time and later",
        lambda typed: criteria.of_time(operator.ge, typed.time()),
    ),
    FilterOption(
        ("ENDTIME", "END"),
        "ENDTIME time",
        "records of that time and earlier",
        lambda typed: criteria.of_time(operator.le, typed.time()),
    ),
    FilterOption(
        ("STRING",),
        'STRING [BOTH] "text" [start:end], ...',
        "a text in the data; BOTH matches either case",
        _text,
    ),
    FilterOption(("HEX",), 'HEX "digits" [start:end], ...', "bytes in the data", _hex),
    FilterOption(
        ("INT16",), "INT16 number [start:end]", "a 16-bit integer in the data", _integer(2)
    ),
    FilterOption(
        ("INT32",), "INT32 number [start:end]", "a 32-bit integer in the data", _integer(4)
    ),
    FilterOption(
        ("INT64",), "INT64 number [start:end]", "a 64-bit integer in the data", _integer(8)
    ),
    FilterOption(
        ("GGSTOKEN",), "GGSTOKEN name [comparison value]", "a GGS token, or its value", _ggs_token
    ),
    FilterOption(
        ("USERTOKEN",),
        "USERTOKEN name [comparison value]",
        "a user token, or its value",
        lambda typed: criteria.of_user_token(*typed.name_and_value()),
    ),
    FilterOption(
        ("COLUMN",),
        "COLUMN index [comparison value]",
        "a column, by index from 0, or its value",
        _column,
    ),
    FilterOption(
        ("RBA",),
        "RBA " + _COMPARED,
        "places in the file",
        lambda typed: criteria.of_offset(*typed.number(0, 2**63 - 1)),
    ),
    FilterOption(("RECLEN",), "RECLEN " + _COMPARED, "bytes of data", _field("data_length")),
    FilterOption(
        ("TRANSIND",),
        "TRANSIND " + _COMPARED,
        "the place in the transaction: 0 to 3, FIRST, MIDDLE, LAST, ONLY",
        _indicator,
    ),
    FilterOption(("UNDOFLAG",), "UNDOFLAG " + _COMPARED, "the undo flag", _field("undo")),
    FilterOption(
        ("AUDITRBA",), "AUDITRBA " + _COMPARED, "AuditRBA of the header", _field("audit_rba")
    ),
    FilterOption(
        ("AUDITPOS",),
        "AUDITPOS " + _COMPARED,
        "AuditPos of the header",
        _field("audit_pos", 2**64 - 1),
    ),
    FilterOption(
        ("SYSKEY",),
        "SYSKEY " + _COMPARED,
        "the system key of NonStop records",
        lambda typed: criteria.of_syskey(*typed.number()),
    ),
    FilterOption(
        ("SYSKEYLEN",), "SYSKEYLEN " + _COMPARED, "bytes of the system key", _field("syskey_length")
    ),
    FilterOption(("PROCESS",), "PROCESS name", "refused: NonStop process names", _nonstop),
)
OPTIONS_BY_NAME: Final[Mapping[str, FilterOption]] = MappingProxyType(
    {name: option for option in OPTIONS for name in option.names}
)
