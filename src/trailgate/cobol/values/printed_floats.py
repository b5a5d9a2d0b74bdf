"""Printed (external) floating point, such as ``+9(3).99E+99``.

The text is matched against a regular expression made from the picture, and converted to float64.
It is only read: a float64 could be printed in several ways.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import (
    AppliedPolicy,
    BlankPolicy,
    DecodedColumn,
    Decoder,
    Encoder,
    ValueOptions,
)
from trailgate.errors import EncodeError

# By the sign in the picture: what may be printed for it.
_SIGNS: Final = {"+": "[+-]", "-": "[ -]"}
# +9(2).9E-99 has the parts + 9(2) . 9 E - 9 9
_PARTS: Final = re.compile(r"[+-.VE]|9(?:\((\d+)\))?")


def _pattern(picture: str) -> str:
    """Return a regular expression for the printed form of a floating-point picture."""
    symbols = {".": "[.]", "V": "", "E": "E", **_SIGNS}
    parts = (symbols.get(part[0], f"[0-9]{{{part[1] or 1}}}") for part in _PARTS.finditer(picture))
    return f"^{''.join(parts)}$"


def decode_float_text(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return a decoder that converts printed floating point to the nearest float64."""
    page = page_of_field(field, options)
    pattern = _pattern(field.picture)
    point = field.picture.index("V") if "V" in field.picture else None
    decimals_at = None if point is None else _width(field.picture[:point])

    def decode(matrix: Octets) -> DecodedColumn:
        text = page.decode(matrix).values
        if field.comma:
            text = pc.replace_substring(text, ",", ".")
        fits = pc.fill_null(pc.match_substring_regex(text, pattern), False)
        # The point of V is not printed, and is put back. Example: the picture +9V99E+99 and the text
        # "+123E+04" give "+1.23E+04".
        if decimals_at is not None:
            head, tail = (
                pc.utf8_slice_codeunits(text, 0, decimals_at),
                pc.utf8_slice_codeunits(text, decimals_at),
            )
            text = pc.binary_join_element_wise(head, tail, ".")
        plain = pc.replace_substring(pc.replace_substring(text, "+", ""), " ", "")
        values = pc.cast(pc.if_else(fits, plain, None), pa.float64())
        bad: Mask = ~fits.to_numpy(zero_copy_only=False)
        if options.blank is BlankPolicy.ERROR:
            return DecodedColumn(values, bad if bad.any() else None)
        blank = pc.fill_null(pc.equal(pc.utf8_trim(text, " ."), ""), False)
        empty: Mask = bad & blank.to_numpy(zero_copy_only=False)
        if options.blank is BlankPolicy.ZERO:
            values = pc.if_else(pa.array(empty), 0.0, values)
        notes = (AppliedPolicy(f"blank={options.blank.value}", empty),)
        return DecodedColumn(values, bad & ~empty if (bad & ~empty).any() else None, notes)

    return decode


def _width(picture: str) -> int:
    """Return the number of printed characters of part of a floating-point picture."""
    return sum(int(part[1] or 1) for part in _PARTS.finditer(picture))


def encode_float_text(field: CopybookField, _: ValueOptions) -> Encoder:
    """Raise EncodeError. A float64 could be printed in several ways, so this usage is not written."""
    raise EncodeError(f"{field.name}: printed floating point ({field.picture}) cannot be written")
