"""Find the records that contain a value for an item, and pad or report records that end too early.

A record may lack an item because it is shorter than its layout, because an OCCURS DEPENDING ON has
fewer elements, or because an indicator states NULL. The policy for short records (the option
``short``) decides whether cut bytes are padded, become NULL, or are an error.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Mask
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.copybook.placed_items import PlacedItem
from trailgate.cobol.records.field_faults import (
    ChunkFindings,
    FieldFault,
    short_fault,
)
from trailgate.cobol.records.indicators import Indicator
from trailgate.cobol.records.record_bytes import RecordBytes, count_bytes_present, find_cut_records
from trailgate.cobol.records.record_options import RecordOptions, ShortRecordPolicy
from trailgate.cobol.values.code_pages import page_for_errors
from trailgate.cobol.values.codec import BlankPolicy

# Text usages; usages whose codec depends on the picture; numbers that are printed characters; and
# numbers that can be blank.
_TEXTS: Final = (Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS)
PICTURED: Final = (Usage.EDITED, Usage.NATIONAL_EDITED, Usage.FLOAT_TEXT, Usage.NATIONAL_FLOAT)
_PRINTED: Final = (Usage.ZONED, Usage.NATIONAL_DIGITS, *PICTURED)
_BLANKED: Final = (*_PRINTED, Usage.PACKED)


class Presence(NamedTuple):
    """Two masks of records: those that contain a value for an item, and those whose value was padded.

    None means all records in the first mask, and no records in the second.
    """

    present: Mask | None = None
    padded: Mask | None = None


EVERYWHERE: Final = Presence()


class PresenceFinder:
    """Finds the records that contain a value for an item, and applies the policy for short records."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options

    def find(
        self,
        records: RecordBytes,
        item: PlacedItem,
        findings: ChunkFindings,
        indicator: Indicator | None = None,
    ) -> Presence:
        """Return the records that contain a value for an item, or get one by padding.

        Records in which ``indicator`` states NULL contain none.
        """
        usable, filled = self._in_bytes(records, item, findings)
        if indicator is None:
            return Presence(usable, filled)
        present = ~indicator.find_nulls(records, findings.faults)
        return Presence(
            # ``usable`` None means all records, and ``filled`` None means none.
            present if usable is None else usable & present,
            None if filled is None else filled & present,
        )

    def _in_bytes(
        self, records: RecordBytes, item: PlacedItem, findings: ChunkFindings
    ) -> Presence:
        """Return the records that contain an item, or get it by the policy for short records.

        In the others the item is NULL; they are reported as too short unless the policy allows
        NULL. For example, with ``short=pad``, text that the end of a record cuts is padded with
        blanks.
        """
        policy = self._options.short
        short = None if policy is ShortRecordPolicy.ERROR else find_cut_records(records, item)
        if short is None:
            return Presence(find_usable_rows(records, item, findings.faults))
        if item.active is not None:
            short &= item.active
        size = count_bytes_present(records, item)
        # Records without any byte of the item, and records with some.
        missing, part = short & (size <= 0), short & (size > 0)
        usage, blank = item.field.usage, self._options.values.blank
        text = usage in _TEXTS
        # A record that ends inside a multi-byte character is not padded.
        filled = part & (size % len(self.fill(item.field)) == 0)
        # Only text and printed numbers can be padded. With short=null a cut number is NULL.
        if not text and (policy is ShortRecordPolicy.NULL or usage not in _PRINTED):
            filled[:] = False
        nulls = missing
        if policy is ShortRecordPolicy.PAD and (
            text or usage in _BLANKED or blank is BlankPolicy.ZERO
        ):
            filled, nulls = filled | missing, np.zeros_like(missing)
        elif policy is ShortRecordPolicy.PAD and blank is BlankPolicy.ERROR:
            nulls = np.zeros_like(missing)
        findings.short |= filled | nulls
        findings.faults.append(short_fault(item, short & ~filled & ~nulls))
        usable = ~short | filled
        if item.active is not None:
            usable &= item.active
        return Presence(usable, filled)

    def fill(self, field: CopybookField) -> bytes:
        """Return the bytes that pad a cut item: a blank, or X'00' for binary numbers."""
        if field.usage in (*_TEXTS, *_BLANKED):
            return page_for_errors(field, self._options.values).blank
        return b"\0"


def find_usable_rows(
    records: RecordBytes, item: PlacedItem, faults: list[FieldFault], absent: Mask | None = None
) -> Mask | None:
    """Return a mask of the records that contain the complete item (None: all).

    The others are added to ``faults``, except those in ``absent``.
    """
    short = find_cut_records(records, item)
    if short is None:
        return item.active
    if item.active is not None:
        short &= item.active
    faults.append(short_fault(item, short if absent is None else short & ~absent))
    return ~short if item.active is None else item.active & ~short
