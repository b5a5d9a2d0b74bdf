"""The findings that `trailgate check` can report, one row for each type.

Each type has a short name (`"gap"`), a severity and a sentence for the user (`"files are
missing"`). A `Finding` is one occurrence: its type, its file, its offset and the bytes.
`FindingCollector` collects findings. Of each type and file, it keeps only the first few, because a
damaged file can easily have thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

REPORTED: Final = 5  # findings of one type in one file that are listed


class Severity(StrEnum):
    """The severity of a finding of the check. A trail with an error is damaged or incomplete."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingType(NamedTuple):
    """A type of finding that a check can report: its name, severity and sentence."""

    name: str
    severity: Severity
    statement: str


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

# Bytes.
FRAMING = FindingType("framing", ERROR, "the bytes are not a record")
CUT = FindingType(
    "cut", ERROR, "the file ends inside a record: it was truncated, or is still being written"
)
# Single records. A transaction is damaged if one of its records has such an error.
UNREADABLE = FindingType("unreadable", ERROR, "the record's header makes no sense")
PARTS = FindingType(
    "parts", ERROR, "the record's parts do not fit into it, or contradict its header"
)
EXTRA_PART = FindingType(
    "extra part", ERROR, "the record has a part with an unknown id, or the same part twice"
)
TYPE = FindingType("type", ERROR, "the record's type (IOType) is not known")
NOT_READ = FindingType(
    "not read", ERROR, "the record's type is known by name only: readers refuse it"
)
MISTYPED = FindingType(
    "mistyped",
    ERROR,
    "the record's type has no columns, but its partition byte is that of a data record",
)
IMAGE = FindingType(
    "image", ERROR, "BeforeAfter is neither A nor B, or does not fit the record's type"
)
TRANS_IND = FindingType("indicator", ERROR, "TransInd is above 3")
FORMAT = FindingType("format", WARNING, "FormatType is neither R nor F")
IO_TIME = FindingType("io time", WARNING, "the IO time is not between 1990 and 2100")
SYSTEM_KEY = FindingType(
    "system key", ERROR, "the system key does not have 4 or 8 bytes of the data"
)
NAME = FindingType("name", ERROR, "the table's name or index does not fit its area")
LAYOUT = FindingType("layout", ERROR, "the data are not index, length and value (partition byte)")
COLUMNS = FindingType("columns", ERROR, "the columns do not fill the data, or one is too short")
TOKENS = FindingType("tokens", ERROR, "the tokens do not fill their area, or an id is not text")
PIECE = FindingType(
    "piece", ERROR, "a piece of a large object does not have the length in its head"
)
ORPHAN = FindingType(
    "orphan", ERROR, "a piece or fragment does not follow the change it belongs to"
)
PAIR = FindingType("pair", ERROR, "a before image is not followed by the after image of its update")
TORN = FindingType("torn", ERROR, "a record without ids begins a transaction while another is open")
METADATA = FindingType(
    "metadata", ERROR, "the metadata record cannot be read, or may mean another index"
)
UNREAD_TABLE = FindingType(
    "unread table",
    NOTE,
    "the table definition in the trail cannot be decoded; give one with --definitions FILE",
)
TABLE = FindingType("table", ERROR, "the table has no definition")
INDEX = FindingType("index", ERROR, "no metadata record before it defines the record's table index")
READING = FindingType("reading", ERROR, "readers refuse the record")
FINE_TIMES = FindingType(
    "fine times",
    NOTE,
    "a date time has digits beyond microseconds, which do not fit in a timestamp: read the table with times=text",
)
# Transactions.
UNENDED = FindingType("unended", ERROR, "the transaction has not ended when the next one begins")
HEADLESS = FindingType("headless", ERROR, "the beginning of the record's transaction is missing")
OPEN = FindingType("open", ERROR, "the last transaction has not ended")
BROKEN = FindingType("broken", ERROR, "damage inside the transaction")
EARLIER = FindingType(
    "earlier", WARNING, "the first transaction begins in an earlier file, which is missing"
)
ABANDONED = FindingType(
    "abandoned", NOTE, "the open transaction was abandoned at a restart and is written again"
)
CSN_ORDER = FindingType("csn order", WARNING, "the CSN is lower than the one before")
# Files.
HEADER = FindingType("header", ERROR, "the file header cannot be read")
SIZE = FindingType("size", ERROR, "the file does not have the size that its header states")
SEQNO = FindingType("number", ERROR, "the header's sequence number is not that of the file's name")
FACT = FindingType("fact", WARNING, "the header contradicts the records")
GAP = FindingType("gap", ERROR, "files are missing")
FIRST = FindingType(
    "first", NOTE, "the trail does not begin with file 0: earlier files are missing"
)
TWICE = FindingType("twice", ERROR, "two files have the same number")
DIGITS = FindingType("digits", WARNING, "file names differ in their number of digits")
MANIFEST = FindingType("manifest", ERROR, "the manifest does not agree with the files")
UNLISTED = FindingType(
    "unlisted", NOTE, "the manifest does not list the file, so it is not checked"
)
COUNT = FindingType("count", ERROR, "the manifest does not state the file's number of operations")
NEWER = FindingType(
    "newer level",
    NOTE,
    "the format level is newer than the known ones: its new parts may be read wrongly",
)
DEFINITIONS = FindingType("definitions", ERROR, "the definitions file cannot be read")
NO_FILES = FindingType("no files", NOTE, "the trail has no files yet, so nothing was checked")
NO_DEFINITIONS = FindingType(
    "no definitions", WARNING, "neither a definitions file nor metadata define the tables"
)

KINDS: Final[Mapping[str, FindingType]] = MappingProxyType(
    {row.name: row for row in tuple(globals().values()) if isinstance(row, FindingType)}
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence of a finding of the check: its type, file, offset and bytes.

    ``kind`` is the name of its type, and ``detail`` adds particulars such as a table name. ``raw``
    are the bytes at ``offset``, ``before`` the bytes before them, and ``next`` is the offset of the
    next good record. ``more`` is the number of further findings of this type in the same file that
    are not listed.
    """

    kind: str
    file: str = ""
    offset: int | None = None
    detail: str = ""
    length: int = 0
    before: bytes = b""
    raw: bytes = b""
    next: int | None = None
    transaction: str | None = None
    more: int = 0

    @property
    def severity(self) -> Severity:
        """Return the severity of this type of finding."""
        return KINDS[self.kind].severity

    def __str__(self) -> str:
        location = f"{self.file}{'' if self.offset is None else f' at {self.offset}'}"
        text = f"{KINDS[self.kind].statement}{f': {self.detail}' if self.detail else ''}"
        return f"{location}: {text}" if location else text


class FindingCollector:
    """Collects the findings of a check of a trail.

    Of each type it keeps the first ``REPORTED`` in each file, and only counts the others.
    """

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, finding: Finding, count: int = 1) -> None:
        """Add a finding. ``count`` is the number of occurrences that it stands for."""
        key = (finding.file, finding.kind)
        if self._counts[key] < REPORTED:
            self._kept.append(finding)
        self._counts[key] += count

    def remaining(self, file: str, finding_type: str) -> int:
        """Return how many more findings of a type can be kept for this file."""
        return max(0, REPORTED - self._counts[file, finding_type])

    def count_unlisted(self, file: str, finding_type: str, count: int) -> None:
        """Count findings of a type in a file without listing them."""
        self._counts[file, finding_type] += count

    def result(self) -> tuple[Finding, ...]:
        """Return the kept findings of the check.

        The last finding of each type and file states the number of unlisted findings in ``more``.
        """
        listed = Counter((finding.file, finding.kind) for finding in self._kept)
        seen: Counter[tuple[str, str]] = Counter()
        result = []
        for finding in self._kept:
            key = (finding.file, finding.kind)
            seen[key] += 1
            more = self._counts[key] - listed[key] if seen[key] == listed[key] else 0
            result.append(replace(finding, more=more))
        return tuple(result)
