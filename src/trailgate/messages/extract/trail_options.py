"""The options of EXTTRAIL, EXTFILE, RMTTRAIL and RMTFILE."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trailgate.definitions.parameter_files import Statement

MEGABYTE: Final = 1_000_000
Remarks = list[tuple[str, str]]


class TrailOption(NamedTuple):
    """How an option is written, and what it sets; else why it changes nothing (noted) or is refused."""

    pattern: re.Pattern[str]
    member: str = ""
    convert: Callable[[str], Any] = str
    noted: str = ""
    refused: str = ""


def _row(
    pattern: str, member: str = "", convert: Callable[[str], Any] = str, **reasons: str
) -> TrailOption:
    return TrailOption(re.compile(pattern, re.IGNORECASE), member, convert, **reasons)


OPTIONS: Final = (
    _row(r"FORMAT\s+RELEASE\s+([\d.]+)", "format_release"),
    _row(r"MEGABYTES\s+(\d+)", "max_bytes", lambda text: int(text) * MEGABYTE),
    _row(
        r"TRAILBYTEORDER\s+(BIGENDIAN|LITTLEENDIAN)",
        "byte_order",
        lambda text: text.upper().removesuffix("ENDIAN").lower(),
    ),
    _row(r"MAXFILES\s+\d+", noted="as many files are written as there are data"),
    _row(r"APPEND\b", noted="a run always adds to the trail"),
    _row(r"OBJECTDEFS\b", noted="files of release 12.2 and later always define their tables"),
    _row(r"PURGE\b", refused="earlier files are kept: remove them yourself"),
    _row(r"NO_OBJECTDEFS\b", refused="files of release 12.2 and later define their tables"),
)


def read_trail_options(statement: Statement, text: str) -> tuple[dict[str, Any], Remarks, Remarks]:
    """Return what the options set, those that change nothing, and those that are refused."""
    members: dict[str, Any] = {}
    noted: Remarks = []
    refused: Remarks = []
    while text := text.strip(" \t,"):
        for option in OPTIONS:
            found = option.pattern.match(text)
            if found is not None:
                break
        else:
            refused.append((text, f"unknown option of {statement.keyword}"))
            break
        if option.member:
            members[option.member] = option.convert(found[1])
        elif option.noted:
            noted.append((found[0], option.noted))
        else:
            refused.append((found[0], option.refused))
        text = text[found.end() :]
    return members, noted, refused
