"""Text of varying length in a code page: a column of bytes to a column of text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trailgate.columnar.code_pages.page_text import (
    CodePage,
    Text,
    decode_distinct,
    strings,
    without,
)
from trailgate.columnar.code_pages.python_codec import CodecPage
from trailgate.columnar.code_pages.single_byte import SingleBytePage
from trailgate.columnar.rows import byte_view


def decode_column(page: CodePage, values: pa.BinaryArray) -> Text:
    """Return the text of each value; null stays null, and is not among the bad rows."""
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(b"") if values.null_count else values
    found = _whole(page, filled) if isinstance(page, SingleBytePage) else None
    if found is None:
        found = _each(page, filled)
    return Text(without(found.values, nulls), found.bad)


def _whole(page: SingleBytePage, values: pa.BinaryArray) -> Text | None:
    """Return the text in one translation; None where a byte is not a character."""
    offsets, data = byte_view(values)
    flat = data[offsets[0] : offsets[-1]].reshape(1, -1)
    text = page.decode(flat)
    if text.bad is not None:
        return None
    sizes = page.sizes[flat[0]]
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    _, made = byte_view(text.values)
    return Text(strings(made, np.diff(ends[offsets - offsets[0]])))


def _each(page: CodePage, values: pa.BinaryArray) -> Text:
    """Return the text of each distinct value."""
    if isinstance(page, CodecPage):
        return decode_distinct(values, lambda raw: raw.decode(page.name))
    found = values.dictionary_encode()
    texts = []
    for raw in found.dictionary.to_pylist():
        row = np.frombuffer(raw, np.uint8).reshape(1, -1)
        texts.append(page.decode(row).values[0].as_py() if raw else "")
    decoded = pa.array(texts, pa.string()).take(found.indices)
    bad = decoded.is_null().to_numpy(zero_copy_only=False) if decoded.null_count else None
    return Text(decoded, bad)
