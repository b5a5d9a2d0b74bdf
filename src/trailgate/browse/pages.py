"""Render the templates of pages to HTML, and format the values that pages show.

Templates escape everything that they print; the filters below format numbers, times and values.
Links are relative, because all pages are on the same level of the server's addresses. A report is
one file without links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import trailgate
from trailgate.browse.index import KINDS
from trailgate.browse.shown_operations import COLUMNS, LONGEST
from trailgate.browse.transactions import SECOND
from trailgate.model.positions import parse_position
from trailgate.model.tables import Column
from trailgate.model.types import TYPES
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.format.header_fields import format_iso_time

KIND_NAMES: Final = {
    "I": "insert",
    "U": "update",
    "K": "update of the key",
    "D": "delete",
    "T": "truncate",
}
UNITS: Final = ((3600 * SECOND, "h"), (60 * SECOND, "min"), (SECOND, "s"), (1000, "ms"), (1, "µs"))
DURATION_UNITS: Final = ((24 * 3600 * SECOND, "d"), *UNITS)

Link = Callable[..., str]
Query = Mapping[str, str]  # the query part of an address


def link_to(page: str, **query: object) -> str:
    """Return the relative address of a page of browse."""
    known = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{page}?{urlencode(known)}" if known else page


def parse_place(text: str) -> TrailPosition | None:
    """Parse the trail position in a page's address, or return None if it is empty. Raises OptionError."""
    return TrailPosition(*parse_position(text)) if text else None


def place_text(position: TrailPosition) -> str:
    """Format a trail position for a page as file:offset."""
    return f"{position.number}:{position.offset}"


def size_text(size: int) -> str:
    """Format a number of bytes for a page, such as "1.5 MB"."""
    amount, unit = float(size), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size:,} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def time_text(microseconds: int) -> str:
    """Format a time for a page in UTC, without a zero fraction."""
    return format_iso_time(microseconds).replace("T", " ").removesuffix("Z").removesuffix(".000000")


def moment(microseconds: int, *, alone: bool = False) -> Markup:
    """Build the HTML element of a UTC time. A script adds the local time.

    If it is ``alone``, without a link beside it, it can be reached with the Tab key.
    """
    text, stop = time_text(microseconds), Markup(' tabindex="0"') if alone else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso_times(microseconds), stop, text)


def iso_times(*microseconds: int) -> str:
    """Format the times of an element for the script that adds local times: one, or a begin and an end."""
    return "/".join(f"{time_text(one).replace(' ', 'T')}Z" for one in microseconds)


def visible(text: object) -> str:
    """Escape control characters, and characters that change the direction of text, so that a page shows them.

    Markup of the pages is not escaped.
    """
    if isinstance(text, Markup):
        return text
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def csn_text(csn: str | None) -> str:
    """Format a CSN for a page, without the zeros that pad numbers to a common length."""
    return visible((csn or "").lstrip("0") or (csn or "")[-1:])


def mark_matches(text: str, wanted: str) -> str:
    """Escape a value for a page, and mark each occurrence of the searched text, in upper or lower case."""
    if not wanted:
        return escape(visible(text))
    parts = re.split(f"({re.escape(wanted)})", text, flags=re.IGNORECASE)
    # every second part is a text that was found
    return Markup("").join(
        Markup("<mark>{}</mark>").format(visible(part)) if number % 2 else visible(part)
        for number, part in enumerate(parts)
    )


def column_type_name(column: Column) -> str:
    """Format a column's type for a page by its public name, or return "" if its type code has no name."""
    known = TYPES.get(column.data_type)
    return known.name if known is not None else ""


def read_asset(name: str) -> str:
    """Read a style sheet or script that pages use."""
    return resources.files("trailgate.browse").joinpath("static", name).read_text("utf-8")


@cache
def template_environment() -> Environment:
    """Create the Jinja environment of the pages' templates.

    It escapes everything, and undefined variables are errors.
    """
    made = Environment(
        loader=PackageLoader("trailgate.browse"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": lambda number: f"{number:,}",
        "size": size_text,
        "time": time_text,
        "moment": moment,
        "duration": duration_words,
        "place": place_text,
        "visible": visible,
        "marked": mark_matches,
        "csn": csn_text,
        "bytes": lambda text: len(text.encode()),
    }
    made.globals |= {
        "kinds": KINDS,
        "longest": LONGEST,
        "most_columns": COLUMNS,
        "kind_names": KIND_NAMES,
        "type_name": column_type_name,
        "version": trailgate.__version__,
    }
    return made


def render(template: str, values: Mapping[str, Any], link: Link = link_to) -> str:
    """Render a template to the HTML of a page."""
    return template_environment().get_template(template).render(**values, link=link)


def duration_words(microseconds: int) -> str:
    """Format a duration for a page in its two largest units, such as "2 d 3 h" or "250 ms"."""
    words = []
    for size, unit in DURATION_UNITS:
        count, microseconds = divmod(microseconds, size)
        if count:
            words.append(f"{count:,} {unit}")
        if words and (len(words) == 2 or not count):
            break
    return " ".join(words) or "0 s"
