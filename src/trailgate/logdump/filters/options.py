"""The options of FILTER: the names, the syntax and the meaning of each, and what makes its test."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.logdump.filters import option_tests
from trailgate.logdump.filters.option_tests import MakeTest


class FilterOption(NamedTuple):
    """One option. Any of several filters suffices if ``joins``; ``bare`` options take no arguments."""

    names: tuple[str, ...]
    syntax: str
    help: str
    make: MakeTest
    joins: bool = False
    bare: bool = False


_COMPARED: Final = "[comparison] value"
OPTIONS: Final = (
    FilterOption(
        ("RECTYPE", "IOTYPE"),
        "RECTYPE type, ...",
        "record types, by name or number",
        option_tests.types,
        joins=True,
    ),
    FilterOption(
        ("FILENAME", "FILE", "TABLE", "ANSINAME"),
        "FILENAME name, ...",
        "table names; * and ? match any letters",
        option_tests.names,
        joins=True,
    ),
    FilterOption(
        ("TRANSID", "TRANID", "XID"),
        "TRANSID " + _COMPARED,
        "whole transactions, by id",
        option_tests.transaction(0),
        joins=True,
    ),
    FilterOption(
        ("CSN", "LOGCSN"),
        "CSN " + _COMPARED,
        "whole transactions, by commit sequence number",
        option_tests.transaction(1),
    ),
    FilterOption(("IMAGE",), "IMAGE BEFORE|AFTER", "before or after images", option_tests.image),
    FilterOption(
        ("IBEFORE", "BEFOREIMAGE"),
        "IBEFORE",
        "before images",
        option_tests.only_image(before=True),
        bare=True,
    ),
    FilterOption(
        ("IAFTER", "AFTERIMAGE"),
        "IAFTER",
        "after images",
        option_tests.only_image(before=False),
        bare=True,
    ),
    FilterOption(
        ("STARTTIME", "START"),
        "STARTTIME time",
        "records of that time and later",
        option_tests.time(operator.ge),
    ),
    FilterOption(
        ("ENDTIME", "END"),
        "ENDTIME time",
        "records of that time and earlier",
        option_tests.time(operator.le),
    ),
    FilterOption(
        ("STRING",),
        'STRING [BOTH] "text" [start:end], ...',
        "a text in the data; BOTH matches either case",
        option_tests.string,
    ),
    FilterOption(
        ("HEX",), 'HEX "digits" [start:end], ...', "bytes in the data", option_tests.hex_digits
    ),
    FilterOption(
        ("INT16",),
        "INT16 number [start:end]",
        "a 16-bit integer in the data",
        option_tests.integer(2),
    ),
    FilterOption(
        ("INT32",),
        "INT32 number [start:end]",
        "a 32-bit integer in the data",
        option_tests.integer(4),
    ),
    FilterOption(
        ("INT64",),
        "INT64 number [start:end]",
        "a 64-bit integer in the data",
        option_tests.integer(8),
    ),
    FilterOption(
        ("GGSTOKEN",),
        "GGSTOKEN name [comparison value]",
        "a GGS token, or its value",
        option_tests.ggs_token,
    ),
    FilterOption(
        ("USERTOKEN",),
        "USERTOKEN name [comparison value]",
        "a user token, or its value",
        option_tests.user_token,
    ),
    FilterOption(
        ("COLUMN",),
        "COLUMN index [comparison value]",
        "a column, by index from 0, or its value",
        option_tests.column,
    ),
    FilterOption(
        ("RBA",),
        "RBA " + _COMPARED,
        "offsets in the file",
        option_tests.rba,
    ),
    FilterOption(
        ("RECLEN",),
        "RECLEN " + _COMPARED,
        "bytes of data",
        option_tests.header_field("data_length"),
    ),
    FilterOption(
        ("TRANSIND",),
        "TRANSIND " + _COMPARED,
        "the place in the transaction: 0 to 3, FIRST, MIDDLE, LAST, ONLY",
        option_tests.indicator,
    ),
    FilterOption(
        ("UNDOFLAG",), "UNDOFLAG " + _COMPARED, "the undo flag", option_tests.header_field("undo")
    ),
    FilterOption(
        ("AUDITRBA",),
        "AUDITRBA " + _COMPARED,
        "AuditRBA of the header",
        option_tests.header_field("audit_rba"),
    ),
    FilterOption(
        ("AUDITPOS",),
        "AUDITPOS " + _COMPARED,
        "AuditPos of the header",
        option_tests.header_field("audit_pos", 2**64 - 1),
    ),
    FilterOption(
        ("SYSKEY",),
        "SYSKEY " + _COMPARED,
        "the system key of NonStop records",
        option_tests.syskey,
    ),
    FilterOption(
        ("SYSKEYLEN",),
        "SYSKEYLEN " + _COMPARED,
        "bytes of the system key",
        option_tests.header_field("syskey_length"),
    ),
    FilterOption(
        ("PROCESS",), "PROCESS name", "refused: NonStop process names", option_tests.process
    ),
)
OPTIONS_BY_NAME: Final[Mapping[str, FilterOption]] = MappingProxyType(
    {name: option for option in OPTIONS for name in option.names}
)
