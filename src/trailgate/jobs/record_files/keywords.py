"""The options of copybooks and files of records as typed keywords; docs/copybook.md describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

from trailgate.storage.files.addresses import Address


class CopybookKeywords(TypedDict, total=False):
    """How a copybook and its values are read."""

    copybook_text: str | None
    copy_path: str | Iterable[Address]
    record: str | None
    kinds: str | None
    columns: str | Iterable[str] | None
    shape: Literal["tree", "flat"]
    depending: Literal["real", "most"]
    errors: Literal["stop", "column"]
    raw: bool
    surplus: Literal["error", "drop"] | None
    trim: bool
    blank: Literal["error", "null"]
    code_page: str
    code_pages: str | Mapping[str, str]
    integers: Literal["int64", "decimal", "text"]
    binary: Literal["big", "little"]
    native: Literal["big", "little"]
    binary_sizes: Literal["ibm", "smallest"]
    floats: Literal["ibm", "ieee"]
    signs: Literal["strict", "lenient"]
    source_format: Literal["fixed", "free", "auto"]


class RecordKeywords(CopybookKeywords, total=False):
    """How records are found in a file."""

    record_format: Literal["fixed", "line", "rdw", "bdw", "length-field"]
    record_length: int | None
    delimiter: str | bytes | None
    little_endian: bool
    adjustment: int
    length_offset: int
    length_width: Literal[1, 2, 4, 8]
    skip_first: int
    skip_last: int
    split_bytes: int
