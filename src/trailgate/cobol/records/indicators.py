"""Items that are NULL where an indicator states so: another item of the record, or a bit of one.

Unloads of Db2 have an indicator for each column that can be NULL: a byte, or a host variable's two. Exports of Teradata begin each record with a bit a column, the first one the highest of the first
byte. The bytes of an item that is NULL have no meaning, and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Mask
from trailgate.cobol.copybook.items import Item, PlacedItems, columns_below
from trailgate.cobol.records.fields import Fault, RecordBytes, copy_items, cut_off
from trailgate.cobol.values.codec import Reason, Why
from trailgate.errors import OptionError, Where, did_you_mean

BITS: Final = "*"  # all items after the indicator
_SET: Final = (0xFF, 0x6F, 0x3F)  # also ? in EBCDIC and in ASCII
_CLEAR: Final = (0x00, 0x40, 0x20)  # also a blank in both
_ODD: Final = Reason(
    "not an indicator of NULL",
    "It begins with X'00' or a blank where there is a value, and with X'FF' or ? where there is none",
)


class Indicator(NamedTuple):
    """An item that states whether another one is NULL, by its first byte or by one of its bits."""

    item: Item
    bit: int | None = None

    def absent(self, records: RecordBytes, faults: list[Fault]) -> Mask:
        """Return the records in which the other item is NULL; adds a fault for those in which that is not known."""
        size, short = self.item.field.size, cut_off(records, self.item)
        matrix = np.zeros((len(records), size), np.uint8)
        if len(records):
            copy_items(records, self.item, None if short is None else ~short, matrix)
        if self.bit is not None:
            byte, below = divmod(self.bit, 8)
            found: Mask = matrix[:, byte] >> (7 - below) & 1 == 1
            return found
        first = matrix[:, 0]
        odd = ~np.isin(first, (*_SET, *_CLEAR))
        if odd.any():
            faults.append(
                Fault(self.item.name, size, self.item.offset, odd, lambda _: _ODD, Why.INDICATOR)
            )
        absent: Mask = np.isin(first, _SET) | odd
        return absent


def find_indicators(placed: PlacedItems, names: Mapping[str, str]) -> dict[Item, Indicator]:
    """Return the indicators of items, by the names of both; of an OCCURS each element has its own, or that of a group around it.

    Names that a layout has not are left to others. Raises OptionError for an item without its indicator, or for too few bits.
    """
    if not names:
        return {}
    items = list(columns_below(placed.root))
    places = {(item.field.name.upper(), item.indexes): item for item in items}
    given = {name.upper(): indicator.upper() for name, indicator in names.items()}
    found = {}
    for item in items:
        name = given.get(item.field.name.upper())
        if name is None:
            continue
        around = (item.indexes[:count] for count in range(len(item.indexes), -1, -1))
        own = next((places[name, index] for index in around if (name, index) in places), None)
        if own is None:
            problem = f"indicators: no item {name}, which states whether {item.name} is NULL"
            hint = did_you_mean(name, [one.field.name for one in items])
            raise OptionError(problem, where=Where(field=item.name), hint=hint)
        found[item] = Indicator(own)
    return _find_bits(items, given[BITS]) | found if BITS in given else found


def _find_bits(items: list[Item], name: str) -> dict[Item, Indicator]:
    """Return the bits of an item as indicators of all items after it."""
    numbers = [n for n, item in enumerate(items) if item.field.name.upper() == name]
    if not numbers:
        return {}
    bits, after = items[numbers[0]], items[numbers[0] + 1 :]
    if len(after) > 8 * bits.field.size:
        problem = f"indicators: {name} has {8 * bits.field.size} bits, for {len(after)} items"
        raise OptionError(problem, where=Where(field=name))
    return {item: Indicator(bits, bit) for bit, item in enumerate(after)}
