"""The code page of a COBOL field: that of its USAGE, its own, or that of the dialect.

Unicode text (NATIONAL, UTF-8) has its own code pages, DBCS the double-byte form of the record's
page. Other fields have the code page that the options state for them, or else the dialect's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import CopybookField, Endian, Usage
from trailgate.cobol.values.codec import ValueOptions
from trailgate.columnar.code_pages import (
    NATIONAL,
    NATIONAL_LITTLE,
    CodePage,
    Utf8Page,
    code_page,
    double_byte_page,
)
from trailgate.errors import OptionError

# The code pages of Unicode text by their registered names. The first one is the default.
_UNICODE: Final[Mapping[Usage, Mapping[str, CodePage]]] = MappingProxyType(
    {
        Usage.NATIONAL: {"utf-16-be": NATIONAL, "utf-16-le": NATIONAL_LITTLE},
        Usage.UTF8: {"utf-8": Utf8Page()},
    }
)


def page_of_field(field: CopybookField, options: ValueOptions) -> CodePage:
    """Return the code page of a COBOL field without regard to its USAGE: its own, or the dialect's."""
    return code_page(field.code_page or options.dialect.code_page)


def text_page(field: CopybookField, options: ValueOptions) -> CodePage:
    """Return the code page of a COBOL text field.

    Raises OptionError if the code page does not fit the field's USAGE.
    """
    unicode = _UNICODE.get(field.usage)
    if unicode is not None:
        little = field.usage is Usage.NATIONAL and options.national is Endian.LITTLE
        return _unicode_page(unicode, field.code_page or ("utf-16-le" if little else None))
    page = page_of_field(field, options)
    return double_byte_page(page) if field.usage is Usage.DBCS else page


def page_for_errors(field: CopybookField, options: ValueOptions) -> CodePage:
    """Return the code page of the bytes of a COBOL field, whatever its USAGE, to show them in error messages."""
    if field.usage in (Usage.NATIONAL_DIGITS, Usage.NATIONAL_EDITED, Usage.NATIONAL_FLOAT):
        return NATIONAL_LITTLE if options.national is Endian.LITTLE else NATIONAL
    strings = (Usage.TEXT, Usage.DBCS, *_UNICODE)
    return text_page(field, options) if field.usage in strings else page_of_field(field, options)


def has_own_code_pages(field: CopybookField, name: str) -> bool:
    """Return True if the named code page must not apply to a field.

    Unicode text has its own code pages, and UTF-16 has no DISPLAY numbers.
    """
    page, unicode = code_page(name), _UNICODE.get(field.usage)
    if unicode is None:
        return field.number is not None and page in (NATIONAL, NATIONAL_LITTLE)
    return page.name not in unicode


def _unicode_page(pages: Mapping[str, CodePage], name: str | None) -> CodePage:
    """Return the named Unicode code page, or the default. Raises OptionError for other code pages."""
    if name is None:
        return next(iter(pages.values()))
    asked = code_page(name).name
    if asked not in pages:
        problem = (
            f"{asked} is not a code page of {next(iter(pages)).replace('utf-16-be', 'UTF-16')} text"
        )
        raise OptionError(problem, hint=f"It can be {' or '.join(pages)}")
    return pages[asked]
