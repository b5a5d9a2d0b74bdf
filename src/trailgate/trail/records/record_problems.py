"""The problems that a record's bytes can have, one bit each, so that one integer states all problems of a record.

For example, ``IMAGE | TRANS_IND`` is a record with a wrong image and a wrong transaction indicator.
Strict readers raise the first problem in the order of ``ROWS`` (`record_view.raise_first_problem`). Checks, tables of records and
Logdump report all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    pass

(
    SHORT, NO_HEADER, HEADER_LENGTH, NO_INDICATOR, REFUSED, IMAGE, IMAGE_OF_TYPE, LAYOUT, NAME_END,
    INDEX_AREA, DATA_OVER, DATA_LENGTH, DATA_INFO, EXTRA_PART, PART_OVER, EMPTY_DATA, TRANS_IND, MISTYPED, SYSTEM_KEY_SIZE,
) = (1 << bit for bit in range(19))  # fmt: skip

UNREADABLE: Final = SHORT | NO_HEADER | HEADER_LENGTH | NO_INDICATOR  # no other field is checked

_OTHER_DATA: Final = "the data token does not agree with the header"
_MORE: Final = "a record holds more than header, data and tokens"


class RecordProblem(NamedTuple):
    """One problem that a record's bytes can have: its bit, the error message of strict readers, and a hint."""

    bit: int
    text: str
    hint: str = ""


ROWS: Final = (
    RecordProblem(SHORT, "a record is too short for its header"),
    RecordProblem(NO_HEADER, "a record must begin with its header (48)"),
    RecordProblem(HEADER_LENGTH, "the record header's length does not fit its record"),
    RecordProblem(NO_INDICATOR, "a record header must begin with 45"),
    RecordProblem(
        REFUSED,
        "a record of type {code} ({name}) is not an operation that can be read",
        "trailgate logdump shows it; so does reading records instead of operations",
    ),
    # Records without columns have partition byte 00 in every print (trail format §5.1).
    RecordProblem(
        MISTYPED,
        "a record of type {code} ({name}) has the partition byte of a data record",
        "Its type is damaged: it was a data record; trailgate logdump shows its bytes",
    ),
    RecordProblem(IMAGE, "the image must be A or B"),
    RecordProblem(IMAGE_OF_TYPE, "the record's type and its image (A or B) contradict each other"),
    # No public dump shows the layout of data without this bit.
    RecordProblem(LAYOUT, "the data are not index, length and value (partition byte)"),
    RecordProblem(SYSTEM_KEY_SIZE, "a system key must have 4 or 8 bytes of the data"),
    RecordProblem(NAME_END, "a table name must end with a NUL"),
    RecordProblem(INDEX_AREA, "the record header's length does not fit its table index"),
    RecordProblem(DATA_OVER, "the data area runs over its record"),
    RecordProblem(DATA_LENGTH, _OTHER_DATA),
    RecordProblem(DATA_INFO, _OTHER_DATA),
    RecordProblem(EXTRA_PART, _MORE),
    RecordProblem(PART_OVER, "the token area runs over its record"),
    RecordProblem(EMPTY_DATA, _MORE),
    RecordProblem(TRANS_IND, "a transaction indicator must be 0 to 3"),
)


def first_problem(problems: int) -> RecordProblem:
    """Return the problem that strict readers raise for a record: the first row of ``ROWS`` whose bit is set."""
    return next(row for row in ROWS if problems & row.bit)
