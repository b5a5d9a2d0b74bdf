"""The options of Logdump's FILTER: each has names, a syntax, a help text, and a function that builds a test.

The words after an option are often a comparison and a value: ``>= 100``, ``100 GE``, or ``100``,
which means equality. The tests are made of those of ``record_tests``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump import record_tests
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.logdump.record_tests import Comparison, RecordTest, compare_strings
from trailgate.logdump.syntax import (
    QuotedWord,
    indicator_code,
    list_names,
    read_byte_range,
    read_choice,
    read_number,
    type_codes,
    unquote,
)
from trailgate.logdump.times import TimeOffset, read_time
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS, decode_user_tokens
from trailgate.trail.reading.tokens import find_token
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_data import read_record_images

BEFORE: Final[Mapping[str, bool]] = MappingProxyType({"BEFORE": True, "AFTER": False})
COMPARED: Final = "[comparison] value"
GGS_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {row.name: row.code for row in GGS_TOKEN_ROWS}
)
# >=100 has the pieces >= and 100.
SIGN: Final = re.compile(r"[<>=!]+|[^<>=!]+")
QUOTING: Final = "put quotes around the value"
# The spellings of comparisons.
OPERATORS: Final[Mapping[str, Comparison]] = MappingProxyType(
    {
        **dict.fromkeys(("=", "==", "EQ"), operator.eq),
        **dict.fromkeys(("<>", "!=", "NE"), operator.ne),
        **dict.fromkeys(("<", "LT"), operator.lt),
        **dict.fromkeys(("<=", "LE"), operator.le),
        **dict.fromkeys((">", "GT"), operator.gt),
        **dict.fromkeys((">=", "GE"), operator.ge),
    }
)


def read_comparison(
    words: Sequence[str], *, after_name: bool = False
) -> tuple[Comparison, list[str]]:
    """Split the words of a FILTER option into the comparison (by default equality) and the other words.

    With ``after_name``, the comparison may be between a name and a value, as in ``L>300``. Raises
    OptionError for an unknown sign such as ``=!``, for a second comparison, and for a comparison
    between two values.
    """
    comparisons: list[Comparison] = []
    rest: list[str] = []
    before = 0  # the number of values before the comparison
    for word in words:
        # A quoted word is one value: "a<b" has no comparison.
        for piece in (word,) if isinstance(word, QuotedWord) else SIGN.findall(word):
            compare = _operator(piece)
            if compare is not None:
                comparisons.append(compare)
                before = len(rest)
            else:
                rest.append(piece)
    if len(comparisons) > 1:
        raise OptionError("only one comparison is possible")
    if 0 < before < len(rest) and not after_name:
        one, other = (" ".join(part)[:40] for part in (rest[:before], rest[before:]))
        problem = f"a comparison is between {one!r} and {other!r}"
        raise OptionError(problem, hint=f"If it is a part of the value: {QUOTING}")
    return (comparisons or [operator.eq])[0], rest


def _operator(piece: str) -> Comparison | None:
    """Convert a comparison such as ``>=`` or ``GE`` to its function, or return None for a value.

    Raises OptionError for an unknown sign such as ``=!``.
    """
    if isinstance(piece, QuotedWord):
        return None
    compare = OPERATORS.get(piece.upper())
    if compare is None and piece[0] in "<>=!":
        raise OptionError(f"{piece!r} is not a comparison", hint=f"If it is a value: {QUOTING}")
    return compare


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A name in an option of FILTER, such as a token's, and the value to compare with.

    Without a comparison, any value matches.
    """

    name: str
    compare: Comparison | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class OptionArguments:
    """The words after an option of FILTER, which commas divide into groups (``phrases``).

    ``offset`` is the session's time zone and ``now`` the current time, by which times are parsed.
    """

    phrases: tuple[tuple[str, ...], ...]
    offset: TimeOffset
    now: datetime

    @property
    def words(self) -> list[str]:
        """The words after the FILTER option without commas. Raises OptionError if there are none."""
        all_words = [word for phrase in self.phrases for word in phrase]
        if not all_words:
            raise OptionError("a value to compare with is missing")
        return all_words

    def each(self, missing: str) -> Iterator[tuple[str, ...]]:
        """Yield the groups of words between commas in a FILTER option.

        Raises OptionError with the text ``missing`` for an empty one.
        """
        # Without any phrase, treat it as one empty phrase, which raises.
        for phrase in self.phrases or ((),):
            if not phrase:
                raise OptionError(missing)
            yield phrase

    def text(self) -> tuple[Comparison, str]:
        """Parse the words of a FILTER option: a comparison and the text to compare with."""
        compare, rest = read_comparison(self.words)
        return compare, " ".join(rest)

    def number(self, greatest: int = 2**64 - 1) -> tuple[Comparison, int]:
        """Parse the words of a FILTER option: a comparison and the number to compare with.

        Raises OptionError if the number is above ``greatest``.
        """
        compare, rest = read_comparison(self.words)
        if len(rest) != 1:
            raise OptionError(f"one number was expected, not {' '.join(rest)[:40]!r}")
        return compare, read_number(rest[0], 0, greatest)

    def name_and_value(self) -> NamedValue:
        """Parse the words of a FILTER option: a name and, if there is one, the value to compare with."""
        compare, rest = read_comparison(self.words, after_name=True)
        name = rest[0] if rest else self.words[0]
        return NamedValue(name, compare if rest[1:] else None, " ".join(rest[1:]))

    def time(self) -> int:
        """Parse the words of a FILTER option as a time in microseconds since 1970 UTC."""
        return read_time(" ".join(self.words), self.offset, self.now)


MakeTest = Callable[[OptionArguments], RecordTest]


def transaction_option(offset: int) -> MakeTest:
    """Return a function that builds the FILTER test of TRANSID (``offset`` 0) or CSN (``offset`` 1)."""

    def make(arguments: OptionArguments) -> RecordTest:
        # ids are compared once per transaction, not once per record
        compare, text = arguments.text()
        value = text.encode()
        return lambda chunk: chunk.transactions.which(
            lambda ids: compare_strings(compare, ids[offset], value)
        )

    return make


def image_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER IMAGE, which passes only before images, or only after images."""
    return record_tests.of_image(before=read_choice(" ".join(arguments.words), BEFORE))


def string_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER STRING, which passes records with any of several strings."""

    def tests() -> Iterator[RecordTest]:
        missing = "a text to look for is missing"
        for first, *rest in arguments.each(missing):
            fold = bool(rest) and first.upper() == "BOTH"
            # "BOTH" alone is the text to look for.
            word, *limits = rest if fold else [first, *rest]
            text = word.strip("/") if word[:1] == "/" else unquote(word)
            yield record_tests.of_bytes(text.encode(), read_byte_range(limits), fold=fold)

    return record_tests.any_of(list(tests()))


def hex_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER HEX, which passes records with any of several byte strings."""

    def tests() -> Iterator[RecordTest]:
        for first, *limits in arguments.each("hex digits to look for are missing"):
            try:
                needle = bytes.fromhex(first.removeprefix("0x"))
            except ValueError as error:
                raise OptionError(f"{first[:40]!r} are not pairs of hex digits") from error
            yield record_tests.of_bytes(needle, read_byte_range(limits))

    return record_tests.any_of(list(tests()))


def integer_option(width: int) -> MakeTest:
    """Return a function that builds the test of FILTER INT16, INT32 or INT64.

    The test passes records whose data contain a binary integer of ``width`` bytes, which is
    big-endian in every trail.
    """
    bound = 1 << (8 * width)

    def make(arguments: OptionArguments) -> RecordTest:
        first, *limits = arguments.words
        number = read_number(first, -bound // 2, bound - 1)
        # A negative number is written as its two's complement: -1 becomes ff ff.
        needle = (number % bound).to_bytes(width, "big")
        return record_tests.of_bytes(needle, read_byte_range(limits))

    return make


def ggs_token_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER GGSTOKEN, which passes records with a GGS token, or with a value of it."""
    wanted = arguments.name_and_value()
    code, compare, value = ggs_token_code(wanted.name), wanted.compare, wanted.value.encode()

    def test(chunk: LogdumpChunk) -> Mask:
        token = find_token(chunk.source, chunk.view.tokens, code)
        found = np.zeros(len(chunk), bool)
        # Only the rows that have the token; the others stay False.
        for row in token.rows.tolist():
            start, end = token.spans.starts[row], token.spans.ends[row]
            payload = chunk.source.data[start:end].tobytes()
            found[row] = compare is None or compare_strings(compare, payload, value)
        return found

    return test


def ggs_token_code(name: str) -> int:
    """Return the id of the GGS token that FILTER GGSTOKEN names: by its name, by its letter, or in hex as ``x52``.

    Raises OptionError.
    """
    code = GGS_TOKENS.get(name.upper())
    if code is None and name.lower().startswith("x"):
        code = read_number("0" + name.lower(), 0, 255)
    if code is None and len(name) == 1 and ord(name) < 256:
        code = ord(name)
    if code is None:
        hint = f"{list_names(GGS_TOKENS)}, or x and an id"
        raise OptionError(f"{name[:40]!r} is not a GGS token", hint=hint)
    return code


def user_token_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER USERTOKEN, which passes records with a user token, or with a value of it."""
    wanted = arguments.name_and_value()
    name, compare, value = wanted.name.upper(), wanted.compare, wanted.value.encode()

    def has(payload: bytes) -> bool:
        for token, text in decode_user_tokens(payload) or ():
            if token.upper() == name:
                return compare is None or compare_strings(compare, text.encode(), value)
        return False

    def test(chunk: LogdumpChunk) -> Mask:
        found = np.zeros(len(chunk), bool)
        areas = chunk.view.user
        # Only the records that have user tokens.
        for row in np.flatnonzero(areas.sizes).tolist():
            found[row] = has(chunk.source.data[areas.starts[row] : areas.ends[row]].tobytes())
        return found

    return test


def column_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER COLUMN, which passes records with a column, or with a value of it."""
    wanted = arguments.name_and_value()
    index, compare = read_number(wanted.name, 0, 0xFFFF), wanted.compare
    value = wanted.value.encode()

    def has(chunk: LogdumpChunk, row: int) -> bool:
        record = decode_record(
            chunk.source.data, int(chunk.view.offsets[row]), order=chunk.source.order
        )
        for image in read_record_images(record):
            for column in image.columns:
                if column.index == index:
                    if compare is None:
                        return True
                    strings = column_strings(column.raw, chunk.source.order.label)
                    if any(compare_strings(compare, text, value) for text in strings):
                        return True
        return False

    def test(chunk: LogdumpChunk) -> Mask:
        found = np.zeros(len(chunk), bool)
        # Decode one record at a time: columns are found only by walking through the image.
        for row in np.flatnonzero(chunk.view.data_length > 0).tolist():
            found[row] = has(chunk, row)
        return found

    return test


def column_strings(raw: bytes, order: str) -> list[bytes]:
    """Return the texts that FILTER COLUMN compares: all that the bytes of a column may represent.

    These are counted text, plain text, and a number. ``order`` is "big" or "little". For example
    ``00 00 00 02 41 42`` is "AB" as counted text, and also the number 147778; the first two bytes
    are the NULL indicator. A NULL is "NULL".
    """
    body = raw[2:]
    # the first two bytes are the NULL indicator
    if raw[:2] != b"\0\0":
        return [b"NULL"]
    counted = len(body) >= 2 and int.from_bytes(body[:2], order) == len(body) - 2  # type: ignore[arg-type]
    strings = [body[2:] if counted else body.rstrip(b" ")]
    if len(body) in (2, 4, 8):
        strings.append(str(int.from_bytes(body, "big", signed=True)).encode())
    return strings


def system_key_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER SYSKEY, for the system key at the start of some NonStop records."""
    compare, value = arguments.number()

    def test(chunk: LogdumpChunk) -> Mask:
        found = np.zeros(len(chunk), bool)
        source, areas = chunk.source, chunk.view.data
        # The key is the first 4 or 8 bytes of the data, as the header states.
        for width in (4, 8):
            has = (chunk.heads["syskey_length"] == width) & (areas.sizes >= width)
            rows = np.flatnonzero(has)
            keys = source.order.words(source.data, f"u{width}")[areas.starts[rows]]
            found[rows] = compare(keys, value)
        return found

    return test


def indicator_option(arguments: OptionArguments) -> RecordTest:
    """Build the test of FILTER TRANSIND, which compares the transaction indicator of records."""
    compare, text = arguments.text()
    return record_tests.of_values(lambda chunk: chunk.view.indicator, compare, indicator_code(text))


def header_field_option(name: str, greatest: int = 2**32 - 1) -> MakeTest:
    """Return a function that builds a FILTER test of a number in the record header, such as UNDOFLAG.

    ``name`` is the header's field.
    """
    return lambda arguments: record_tests.of_field(name, *arguments.number(greatest))


def process_option(_arguments: OptionArguments) -> RecordTest:
    """Raise the error for the unsupported option PROCESS of FILTER."""
    raise OptionError("process names are those of NonStop systems; no other trail has them")


class FilterOption(NamedTuple):
    """An option of FILTER: its names, its arguments for HELP, and a function that builds its test.

    If a session has several filters of one option that ``joins``, such as RECTYPE, they count as
    one filter, which a record passes if it passes any of them. ``bare`` options have no arguments.
    """

    names: tuple[str, ...]
    arguments: str
    help: str
    make: MakeTest
    joins: bool = False
    bare: bool = False

    @property
    def syntax(self) -> str:
        """The syntax of the FILTER option as HELP shows it."""
        return f"{self.names[0]} {self.arguments}".rstrip()


OPTIONS: Final = (
    FilterOption(
        ("RECTYPE", "IOTYPE"),
        "type, ...",
        "record types, by name or number",
        lambda typed: record_tests.of_types(type_codes(typed.words)),
        joins=True,
    ),
    FilterOption(
        ("FILENAME", "FILE", "TABLE", "ANSINAME"),
        "name, ...",
        "table names; * and ? match any letters",
        lambda typed: record_tests.of_names(typed.words),
        joins=True,
    ),
    FilterOption(
        ("TRANSID", "TRANID", "XID"),
        COMPARED,
        "whole transactions, by id",
        transaction_option(0),
        joins=True,
    ),
    FilterOption(
        ("CSN", "LOGCSN"),
        COMPARED,
        "whole transactions, by commit sequence number",
        transaction_option(1),
    ),
    FilterOption(("IMAGE",), "BEFORE|AFTER", "before or after images", image_option),
    FilterOption(
        ("IBEFORE", "BEFOREIMAGE"),
        "",
        "before images",
        lambda _: record_tests.of_image(before=True),
        bare=True,
    ),
    FilterOption(
        ("IAFTER", "AFTERIMAGE"),
        "",
        "after images",
        lambda _: record_tests.of_image(before=False),
        bare=True,
    ),
    FilterOption(
        ("STARTTIME", "START"),
        "time",
        "records of that time and later",
        lambda typed: record_tests.of_time(operator.ge, typed.time()),
    ),
    FilterOption(
        ("ENDTIME", "END"),
        "time",
        "records of that time and earlier",
        lambda typed: record_tests.of_time(operator.le, typed.time()),
    ),
    FilterOption(
        ("STRING",),
        '[BOTH] "text" [start:end], ...',
        "a text in the data; BOTH matches either case",
        string_option,
    ),
    FilterOption(("HEX",), '"digits" [start:end], ...', "bytes in the data", hex_option),
    FilterOption(
        ("INT16",), "number [start:end]", "a 16-bit integer in the data", integer_option(2)
    ),
    FilterOption(
        ("INT32",), "number [start:end]", "a 32-bit integer in the data", integer_option(4)
    ),
    FilterOption(
        ("INT64",), "number [start:end]", "a 64-bit integer in the data", integer_option(8)
    ),
    FilterOption(
        ("GGSTOKEN",), "name [comparison value]", "a GGS token, or its value", ggs_token_option
    ),
    FilterOption(
        ("USERTOKEN",), "name [comparison value]", "a user token, or its value", user_token_option
    ),
    FilterOption(
        ("COLUMN",),
        "index [comparison value]",
        "a column, by index from 0, or its value",
        column_option,
    ),
    FilterOption(
        ("RBA",),
        COMPARED,
        "offsets in the file",
        lambda typed: record_tests.of_values(
            lambda chunk: chunk.source.base + chunk.view.offsets, *typed.number(2**63 - 1)
        ),
    ),
    FilterOption(("RECLEN",), COMPARED, "bytes of data", header_field_option("data_length")),
    FilterOption(
        ("TRANSIND",),
        COMPARED,
        "the place in the transaction: 0 to 3, FIRST, MIDDLE, LAST, ONLY",
        indicator_option,
    ),
    FilterOption(("UNDOFLAG",), COMPARED, "the undo flag", header_field_option("undo")),
    FilterOption(
        ("AUDITRBA",), COMPARED, "AuditRBA of the header", header_field_option("audit_rba")
    ),
    FilterOption(
        ("AUDITPOS",),
        COMPARED,
        "AuditPos of the header",
        header_field_option("audit_pos", 2**64 - 1),
    ),
    FilterOption(("SYSKEY",), COMPARED, "the system key of NonStop records", system_key_option),
    FilterOption(
        ("SYSKEYLEN",), COMPARED, "bytes of the system key", header_field_option("syskey_length")
    ),
    FilterOption(("PROCESS",), "name", "refused: NonStop process names", process_option),
)
OPTIONS_BY_NAME: Final[Mapping[str, FilterOption]] = MappingProxyType(
    {name: option for option in OPTIONS for name in option.names}
)
