"""What commands yield: frozen values. How they look is said in ``text`` and ``as_json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trailgate.errors import TrailgateError
from trailgate.logdump.terms.settings import Settings
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.metadata import TrailTable
from trailgate.trail.format.record import TrailRecord


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence, and the values in it."""

    text: str
    values: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error; the session continues."""

    error: TrailgateError


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, its table's name, and how it is to be shown."""

    record: TrailRecord
    name: str
    settings: Settings
    partition: str | None = None
    table: TrailTable | None = None  # that a metadata record defines


@dataclass(frozen=True, slots=True)
class ShownHeader:
    """The file header, as bytes and, where it can be read, as a value."""

    raw: bytes
    header: FileHeader | None
    order: ByteOrder
    settings: Settings


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """Bytes of the file."""

    offset: int
    raw: bytes
    settings: Settings


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of some records: of all, of one table, or of an interval of time."""

    name: str
    records: int
    data_bytes: int
    types: Mapping[str, int]
    befores: int
    afters: int
    begin: int | None = None  # of an interval, microseconds since 1970 UTC
    end: int | None = None


@dataclass(frozen=True, slots=True)
class LargeTransaction:
    """A transaction above the limits of TRANSRECLIMIT and TRANSBYTELIMIT."""

    offset: int
    time: int
    records: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What COUNT found in a file."""

    path: str
    start: int
    end: int
    total: Tally
    transactions: int
    files_in_transactions: int
    settings: Settings
    tables: tuple[Tally, ...] = ()
    intervals: tuple[Tally, ...] = ()
    large: tuple[LargeTransaction, ...] = ()
    suppressed: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of names and values, under a title; ``colon`` is between them."""

    title: str
    rows: tuple[tuple[str, str], ...]
    colon: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Text of several lines under a title, such as help."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """A command to be edited: the terminal offers it at the next prompt."""

    line: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The end of the session."""


Result = (
    Note
    | Failure
    | ShownRecord
    | ShownHeader
    | ShownBytes
    | Counts
    | Listing
    | Lines
    | Edit
    | Goodbye
)
