"""Warn of records that look like ASCII, but are read with an EBCDIC code page.

In EBCDIC almost every byte is some character, so ASCII text becomes other text without an error:
``LONDON`` is read as ``<|+à|+`` with cp037.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Octets, octets
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.cobol.records.framing import Framing
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import ValueOptions
from trailgate.columnar.code_pages import SingleBytePage
from trailgate.errors import TrailgateError, shown_source
from trailgate.mainframe.files.record_files import RecordSplit, read_record_split

_LOG: Final = logging.getLogger(__name__)
SAMPLE: Final = 64 << 10  # bytes of the file that are examined
MOST: Final = 1000  # records of the sample
NOTE: Final = (
    "the text in %s looks like ASCII, but is read as %s (codePage=ascii reads it as ASCII)"
)
COMMON: Final = " 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Of the bytes of text that are not X'00', most are common characters of ASCII, and hardly any are
# common characters of the code page. Text of blanks, stars or dashes is neither.
ENOUGH: Final = 0.8
FEW: Final = 0.05


def warn_of_ascii(
    split: RecordSplit, framing: Framing, layout: CopybookLayout, values: ValueOptions
) -> None:
    """Check a file's first records, and log a warning if their text is probably ASCII, although the code page is EBCDIC."""
    fields = list(_text_at_fixed_offsets(layout))
    page = page_of_field(fields[0], values) if fields else None
    if not isinstance(page, SingleBytePage) or page.blank == b" ":
        return
    try:
        text = _sample_text(split, framing, fields)
    except TrailgateError:  # the reader reports it
        return
    # Binary zeros fill unused fields in both code pages, so they do not tell the pages apart.
    text = text[text != 0]
    if not len(text):
        return
    of_ascii, of_page = (
        np.isin(text, np.frombuffer(common, np.uint8)).mean()
        for common in (COMMON.encode(), bytes(map(page.characters.index, COMMON)))
    )
    if of_ascii >= ENOUGH and of_page <= FEW:
        _LOG.warning(NOTE, shown_source(split.file.path), page.name)


def _text_at_fixed_offsets(layout: CopybookLayout) -> Iterator[CopybookField]:
    """Yield the text items of a layout without a separate code page.

    Items after the first OCCURS DEPENDING ON are omitted: their offsets vary.
    """
    for field in layout.root.walk():
        if field.occurs is not None and field.occurs.counter is not None:
            return
        if field.usage is Usage.TEXT and field.code_page is None:
            yield field


def _sample_text(split: RecordSplit, framing: Framing, fields: Sequence[CopybookField]) -> Octets:
    """Return the bytes of these text items in the first records of a split."""
    parts = [np.zeros(0, np.uint8)]
    for chunk in read_record_split(split, framing, SAMPLE):
        data = octets(chunk.data)
        # A short record ends before its last items do.
        for start, end in zip(chunk.starts[:MOST], chunk.ends[:MOST], strict=True):
            parts += [
                data[start + field.offset : min(start + field.offset + field.size, end)]
                for field in fields
            ]
        break
    return np.concatenate(parts)
