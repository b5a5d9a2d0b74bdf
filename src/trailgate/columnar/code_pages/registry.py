"""Code pages by name: those of Python, and those of the mainframe that Python lacks."""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Final

from trailgate.columnar.code_pages.pages import (
    DOUBLE_BYTES,
    NONE,
    CodecPage,
    CodePage,
    DoubleBytePage,
    MixedPage,
    SingleBytePage,
    Utf8Page,
)
from trailgate.columnar.code_pages.tables.single_byte import SINGLE_BYTE
from trailgate.errors import OptionError, did_you_mean

# Those of Python's EBCDIC codecs that agree with IBM's tables. Its cp273 has an overline where IBM has a
# macron, and its cp875 takes bytes without a character for the control character SUB.
OF_PYTHON: Final = ("37", "424", "500", "1026", "1140")
PAGES: Final = tuple(sorted({*OF_PYTHON, *SINGLE_BYTE, *DOUBLE_BYTES}, key=int))
# cp037, IBM-037, ibm01140, x-IBM930, EBCDIC-CP-37, CCSID 500, and bare numbers.
_NUMBERED: Final = re.compile(r"^(?:x-?)?(?:ebcdic|ccsid|ibm|cp)*0*(\d+)$")


@cache
def code_page(name: str) -> CodePage:
    """Return the code page of a name; raises OptionError that names near ones."""
    number = _NUMBERED.match(re.sub(r"[\s_-]+", "", name.lower()))
    if number and number[1] in PAGES:
        return _mainframe(number[1])
    return _of_python(f"cp{number[1]}" if number else name, name)


def double_byte_page(page: CodePage) -> DoubleBytePage:
    """Return the double bytes of a page, for DBCS fields; raises OptionError if it has none."""
    if isinstance(page, MixedPage):
        return page.double
    if isinstance(page, DoubleBytePage):
        return page
    known = ", ".join(sorted(DOUBLE_BYTES, key=int))
    raise OptionError(f"the code page {page.name} has no double bytes", hint=f"{known} have")


def _mainframe(number: str) -> CodePage:
    if number in OF_PYTHON:
        codec = f"cp{number.zfill(3)}"
        return SingleBytePage(codec, _characters(codec) or "")
    if number not in DOUBLE_BYTES:
        return SingleBytePage(f"cp{number}", SINGLE_BYTE[number])
    if number not in SINGLE_BYTE:
        return DoubleBytePage(number)
    single = SingleBytePage(f"cp{number}", SINGLE_BYTE[number])
    return MixedPage(f"cp{number}", single, DoubleBytePage(number))


def _of_python(codec: str, asked: str) -> CodePage:
    try:
        known = codecs.lookup(codec).name
        " 0".encode(known)
    except (LookupError, UnicodeError, ValueError):
        raise _unknown(asked) from None
    if known in ("utf-8", "utf-8-sig"):
        return Utf8Page()
    characters = _characters(known)
    return CodecPage(known) if characters is None else SingleBytePage(known, characters)


def _characters(codec: str) -> str | None:
    """Return the 256 characters of a codec; None where it is not one byte a character."""
    found = []
    for byte in range(256):
        try:
            text = bytes([byte]).decode(codec)
        except UnicodeDecodeError as error:
            if re.search("incomplete|truncated|unexpected end|multibyte", error.reason):
                return None
            text = NONE
        if len(text) != 1:
            return None
        found.append(text)
    return "".join(found) if "0" in found else None


def _unknown(name: str) -> OptionError:
    names = [*(f"cp{page.zfill(3)}" for page in PAGES), "ascii", "latin-1", "utf-8", "cp1252"]
    hint = did_you_mean(name, names, cutoff=0.5) or f"There are {', '.join(names)}, ..."
    return OptionError(f"no code page {name!r}", hint=hint)
