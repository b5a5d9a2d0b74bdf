"""The options of writing trails, declared once for the command line and Spark (see ``options``)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from trailgate.errors import OptionError
from trailgate.options import COUNT, TEXT, Flag, choice

# The units of sizes such as 500MB, which are powers of ten, and below, of two.
UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
BINARY_UNITS: Final = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size_of(text: str) -> int:
    """Parse the size of trail files, such as 500MB or 2GiB, into bytes. Raises OptionError."""
    matched = re.fullmatch(r"(\d+)\s*([A-Za-z]*)", text.strip())
    unit = None if matched is None else (UNITS | BINARY_UNITS).get(matched[2].upper())
    if matched is None or not unit or not int(matched[1]):
        raise OptionError(f"{text!r} is not a size", hint="Write a size such as 500MB")
    return int(matched[1]) * unit


MaxBytes = Annotated[
    int | None,
    COUNT,
    Flag("SIZE", "--max-size", read=size_of),
    "The maximum size of a trail file; default 500MB.",
]
SeqDigits = Annotated[
    int, choice({"6": 6, "9": 9}), Flag("9|6"), "The number of digits in the names of trail files."
]
FormatRelease = Annotated[
    str | None, TEXT, Flag("RELEASE"), "The trail's format, as in FORMAT RELEASE; default 11.2."
]
ByteOrderName = Annotated[
    str | None,
    TEXT,
    Flag("ORDER"),
    "The byte order; little needs release 12.1 or later. Values: big, little.",
]
UpdateFormatName = Annotated[
    str | None,
    TEXT,
    Flag("FORMAT"),
    "How updates with before values are written; full and compact need release 12.1 or later. Values: separate, full, compact.",
]
