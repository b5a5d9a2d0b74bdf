"""From the arguments of a filter's option to a test of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.filters import record_tests
from trailgate.logdump.filters.option_arguments import OptionArguments
from trailgate.logdump.filters.record_tests import RecordTest
from trailgate.logdump.syntax.arguments import unquoted
from trailgate.logdump.syntax.codes import ggs_token_code, indicator_code
from trailgate.logdump.syntax.values import one_of, read_byte_range, read_number

MakeTest = Callable[[OptionArguments], RecordTest]
BEFORE: Final[Mapping[str, bool]] = MappingProxyType({"BEFORE": True, "AFTER": False})


def transaction(place: int) -> MakeTest:
    """Return what makes the test of TRANSID (place 0) or CSN (place 1)."""

    def make(arguments: OptionArguments) -> RecordTest:
        compare, text = arguments.text()
        return record_tests.of_transaction(place, compare, text.encode())

    return make


def image(arguments: OptionArguments) -> RecordTest:
    """Return the test of IMAGE."""
    return record_tests.of_image(before=one_of(" ".join(arguments.words), BEFORE))


def string(arguments: OptionArguments) -> RecordTest:
    """Return the test of STRING; any of several texts suffices."""

    def tests() -> Iterator[RecordTest]:
        missing = "a text to look for is missing"
        for first, *rest in arguments.each(missing):
            fold = bool(rest) and first.upper() == "BOTH"
            word, *limits = rest if fold else [first, *rest]
            text = word.strip("/") if word[:1] == "/" else unquoted(word)
            yield record_tests.of_bytes(text.encode(), read_byte_range(limits), fold=fold)

    return record_tests.any_of(list(tests()))


def hex_digits(arguments: OptionArguments) -> RecordTest:
    """Return the test of HEX; any of several byte strings suffices."""

    def tests() -> Iterator[RecordTest]:
        for first, *limits in arguments.each("hex digits to look for are missing"):
            try:
                needle = bytes.fromhex(first.removeprefix("0x"))
            except ValueError as error:
                raise OptionError(f"{first[:40]!r} are not pairs of hex digits") from error
            yield record_tests.of_bytes(needle, read_byte_range(limits))

    return record_tests.any_of(list(tests()))


def integer(width: int) -> MakeTest:
    """Return what makes a test for a binary integer, which is big-endian in any trail."""
    bound = 1 << (8 * width)

    def make(arguments: OptionArguments) -> RecordTest:
        first, *limits = arguments.words
        number = read_number(first, -bound // 2, bound - 1)
        needle = (number % bound).to_bytes(width, "big")
        return record_tests.of_bytes(needle, read_byte_range(limits))

    return make


def ggs_token(arguments: OptionArguments) -> RecordTest:
    """Return the test of GGSTOKEN."""
    asked = arguments.name_and_value()
    code = ggs_token_code(asked.name)
    return record_tests.of_ggs_token(code, asked.compare, asked.value.encode())


def user_token(arguments: OptionArguments) -> RecordTest:
    """Return the test of USERTOKEN."""
    asked = arguments.name_and_value()
    return record_tests.of_user_token(asked.name, asked.compare, asked.value)


def column(arguments: OptionArguments) -> RecordTest:
    """Return the test of COLUMN."""
    asked = arguments.name_and_value()
    return record_tests.of_column(read_number(asked.name, 0, 0xFFFF), asked.compare, asked.value)


def indicator(arguments: OptionArguments) -> RecordTest:
    """Return the test of TRANSIND."""
    compare, text = arguments.text()
    return record_tests.of_indicator(compare, indicator_code(text))


def header_field(name: str, greatest: int = 2**32 - 1) -> MakeTest:
    """Return what makes the test of a number in the record header."""
    return lambda arguments: record_tests.of_field(name, *arguments.number(greatest))


def process(_arguments: OptionArguments) -> RecordTest:
    """Refuse PROCESS."""
    raise OptionError("process names are those of NonStop systems; no other trail has them")
