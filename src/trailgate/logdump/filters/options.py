"""The options of FILTER: the names, the syntax and the meaning of each, and what makes its test."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.logdump.filters import option_tests, record_tests
from trailgate.logdump.filters.option_tests import MakeTest
from trailgate.logdump.syntax.codes import type_codes


class FilterOption(NamedTuple):
    """One option. Any of several filters suffices if ``joins``; ``bare`` options take no arguments."""

    names: tuple[str, ...]
    arguments: str
    help: str
    make: MakeTest
    joins: bool = False
    bare: bool = False

    @property
    def syntax(self) -> str:
        """Return the syntax as HELP shows it."""
        return f"{self.names[0]} {self.arguments}".rstrip()


COMPARED: Final = "[comparison] value"
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
        option_tests.transaction(0),
        joins=True,
    ),
    FilterOption(
        ("CSN", "LOGCSN"),
        COMPARED,
        "whole transactions, by commit sequence number",
        option_tests.transaction(1),
    ),
    FilterOption(("IMAGE",), "BEFORE|AFTER", "before or after images", option_tests.image),
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
        option_tests.string,
    ),
    FilterOption(
        ("HEX",), '"digits" [start:end], ...', "bytes in the data", option_tests.hex_digits
    ),
    FilterOption(
        ("INT16",), "number [start:end]", "a 16-bit integer in the data", option_tests.integer(2)
    ),
    FilterOption(
        ("INT32",), "number [start:end]", "a 32-bit integer in the data", option_tests.integer(4)
    ),
    FilterOption(
        ("INT64",), "number [start:end]", "a 64-bit integer in the data", option_tests.integer(8)
    ),
    FilterOption(
        ("GGSTOKEN",),
        "name [comparison value]",
        "a GGS token, or its value",
        option_tests.ggs_token,
    ),
    FilterOption(
        ("USERTOKEN",),
        "name [comparison value]",
        "a user token, or its value",
        option_tests.user_token,
    ),
    FilterOption(
        ("COLUMN",),
        "index [comparison value]",
        "a column, by index from 0, or its value",
        option_tests.column,
    ),
    FilterOption(
        ("RBA",),
        COMPARED,
        "offsets in the file",
        lambda typed: record_tests.of_offset(*typed.number(2**63 - 1)),
    ),
    FilterOption(("RECLEN",), COMPARED, "bytes of data", option_tests.header_field("data_length")),
    FilterOption(
        ("TRANSIND",),
        COMPARED,
        "the place in the transaction: 0 to 3, FIRST, MIDDLE, LAST, ONLY",
        option_tests.indicator,
    ),
    FilterOption(("UNDOFLAG",), COMPARED, "the undo flag", option_tests.header_field("undo")),
    FilterOption(
        ("AUDITRBA",), COMPARED, "AuditRBA of the header", option_tests.header_field("audit_rba")
    ),
    FilterOption(
        ("AUDITPOS",),
        COMPARED,
        "AuditPos of the header",
        option_tests.header_field("audit_pos", 2**64 - 1),
    ),
    FilterOption(
        ("SYSKEY",),
        COMPARED,
        "the system key of NonStop records",
        lambda typed: record_tests.of_syskey(*typed.number()),
    ),
    FilterOption(
        ("SYSKEYLEN",),
        COMPARED,
        "bytes of the system key",
        option_tests.header_field("syskey_length"),
    ),
    FilterOption(("PROCESS",), "name", "refused: NonStop process names", option_tests.process),
)
OPTIONS_BY_NAME: Final[Mapping[str, FilterOption]] = MappingProxyType(
    {name: option for option in OPTIONS for name in option.names}
)
