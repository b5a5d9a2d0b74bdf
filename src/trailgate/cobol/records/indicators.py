"""NULL indicators: items of a record, or bits of one, that state whether another item is NULL.

Db2 unloads have an indicator for each nullable column: one byte, or the two bytes of a host
variable. Teradata exports start each record with one bit per column, the first column in the
highest bit of the first byte. The bytes of a NULL item have no meaning and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Mask
from trailgate.cobol.copybook.placed_items import PlacedItem, PlacedItems, columns_below
from trailgate.cobol.records.field_faults import FieldFault
from trailgate.cobol.records.record_bytes import RecordBytes, copy_items, find_cut_records
from trailgate.cobol.values.codec import FaultExplanation, FaultReason
from trailgate.errors import OptionError, Where, did_you_mean

BITS: Final = "*"  # stands for all items after the indicator
_SET: Final = (0xFF, 0x6F, 0x3F)  # FF, or ? in EBCDIC and ASCII
_CLEAR: Final = (0x00, 0x40, 0x20)  # 00, or a blank in EBCDIC and ASCII
_ODD: Final = FaultExplanation(
    "not a NULL indicator",
    "An indicator starts with X'00' or a blank for a value, and with X'FF' or ? for NULL",
)


class Indicator(NamedTuple):
    """A NULL indicator: an item whose first byte, or one bit, states whether another item is NULL."""

    item: PlacedItem
    bit: int | None = None

    def find_nulls(self, records: RecordBytes, faults: list[FieldFault]) -> Mask:
        """Return a mask of the records in which the indicator states that its item is NULL.

        If the indicator byte is invalid, the record is added to ``faults``, and its item counts as
        NULL. In a record that ends before the indicator, the item counts as not NULL.
        """
        size, short = self.item.field.size, find_cut_records(records, self.item)
        matrix = np.zeros((len(records), size), np.uint8)
        if len(records):
            copy_items(records, self.item, None if short is None else ~short, matrix)
        if self.bit is not None:
            # Bits are counted from the left: bit 9 is 0x40 of the second byte.
            byte, below = divmod(self.bit, 8)
            set_bits: Mask = matrix[:, byte] >> (7 - below) & 1 == 1
            return set_bits
        first = matrix[:, 0]
        odd = ~np.isin(first, (*_SET, *_CLEAR))
        if odd.any():
            faults.append(
                FieldFault(
                    field=self.item.name,
                    size=size,
                    at=self.item.offset,
                    rows=odd,
                    explain=lambda _: _ODD,
                    why=FaultReason.INDICATOR,
                )
            )
        nulls: Mask = np.isin(first, _SET) | odd
        return nulls


def find_indicators(placed: PlacedItems, names: Mapping[str, str]) -> dict[PlacedItem, Indicator]:
    """Return the NULL indicators of a layout by the item that they belong to.

    ``names`` maps the names of items to those of their indicators. The indicator of an element of an
    OCCURS has the same indexes, or is in a group around the element. Names of items that are not in
    the layout are ignored. Raises OptionError if an indicator does not exist, or has too few bits.
    """
    if not names:
        return {}
    items = list(columns_below(placed.root))
    items_by_name = {(item.field.name.upper(), item.indexes): item for item in items}
    indicator_names = {name.upper(): indicator.upper() for name, indicator in names.items()}
    indicators = {}
    for item in items:
        name = indicator_names.get(item.field.name.upper())
        if name is None:
            continue
        # For the element (2, 3) these are (2, 3), (2,) and (): its own indicator, or that of a group.
        around = (item.indexes[:count] for count in range(len(item.indexes), -1, -1))
        indicator_item = next(
            (items_by_name[name, index] for index in around if (name, index) in items_by_name), None
        )
        if indicator_item is None:
            problem = f"indicators: {item.name} needs an item {name}, which does not exist"
            hint = did_you_mean(name, [one.field.name for one in items])
            raise OptionError(problem, where=Where(field=item.name), hint=hint)
        indicators[item] = Indicator(indicator_item)
    return (
        _find_bits(items, indicator_names[BITS]) | indicators
        if BITS in indicator_names
        else indicators
    )


def _find_bits(items: list[PlacedItem], name: str) -> dict[PlacedItem, Indicator]:
    """Assign the bits of the item ``name`` to the items after it, in order: bit 0 is the first item's null indicator.

    Returns {} if the item does not exist. Raises OptionError if it has too few bits.
    """
    numbers = [n for n, item in enumerate(items) if item.field.name.upper() == name]
    if not numbers:
        return {}
    bits, after = items[numbers[0]], items[numbers[0] + 1 :]
    if len(after) > 8 * bits.field.size:
        problem = f"indicators: {name} has {8 * bits.field.size} bits, but {len(after)} items need one each"
        raise OptionError(problem, where=Where(field=name))
    return {item: Indicator(bits, bit) for bit, item in enumerate(after)}
