"""Decode and encode decimal numbers: what zoned (``zoned.py``), packed (``packed.py``) and edited numbers share.

``DigitBytes`` describes the bytes of a field: one table maps each byte to its digits, another table
maps the byte with the sign to a sign. ``decode_decimal_digits`` decodes all rows of a column with these
tables. ``digits_of`` turns a column into a matrix of digits, which an encoder turns into bytes. For
example, packed ``12 34 5D`` with scale 2 is -123.45.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as member
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, Words
from trailgate.cobol.copybook.layouts import CopybookField, NumberFormat
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import (
    AppliedPolicy,
    BlankPolicy,
    DecodedColumn,
    IntegerRepresentation,
    PaddingPolicy,
    ValueOptions,
    encode_error,
    refuse_nulls,
)
from trailgate.cobol.values.kernels import (
    WRONG,
    DecimalRows,
    DigitTables,
    decode_narrow_numbers,
    decode_wide_numbers,
    replace_padding,
)
from trailgate.columnar.gather import flat_rows, gather_matrix
from trailgate.columnar.rows import find_failing_row
from trailgate.columnar.strings import byte_view
from trailgate.errors import DefinitionError, EncodeError, Where

# Every number of 18 digits fits a signed word of 64 bits (10**18 < 2**63 < 10**19), and every number of
# 38 digits two of them (10**38 < 2**127).
INT64_DIGITS: Final = 18
DECIMAL_DIGITS: Final = 38
NOWHERE: Final = -1  # the offset of a sign that has no byte


@dataclass(frozen=True, slots=True)
class NumberForm:
    """The column type of a decimal field, and the number of zeros to append (from Ps in the picture).

    ``blank_is`` and ``low_is`` state how to read a field that consists only of the character ``blank``
    or only of low-values.
    """

    type: pa.DataType
    zeros: int
    blank: bytes
    blank_is: BlankPolicy | None  # None: zero
    low_is: BlankPolicy = BlankPolicy.ERROR

    @property
    def narrow(self) -> bool:
        """True if every value of the decimal field has at most 18 digits, and thus fits 64 bits."""
        return bool(pa.types.is_int64(self.type) or self.type.precision <= INT64_DIGITS)


def number_of(field: CopybookField) -> NumberFormat:
    """Return a decimal field's number format. Raises DefinitionError if the field has none."""
    if field.number is None:
        problem = f"a {field.usage.value} field has no numeric picture"
        raise DefinitionError(problem, where=Where(field=field.name))
    return field.number


def number_form(
    field: CopybookField, options: ValueOptions, digits: int | None = None
) -> NumberForm:
    """Choose the Arrow type of the values of a COBOL decimal field, for the digits of its picture or for ``digits`` digits."""
    number = number_of(field)
    # Example: 999PPP has 3 digits and 3 zeros, so its precision is 6. VPPP999 has 3 digits and the
    # scale 6: again the precision is 6.
    zeros, scale = max(-number.scale, 0), max(number.scale, 0)
    precision = max((digits or number.digits) + zeros, scale)
    if precision > DECIMAL_DIGITS:
        problem = f"a number of {precision} digits; a decimal column has at most {DECIMAL_DIGITS}"
        raise DefinitionError(problem, where=Where(field=field.name))
    small = (
        not scale
        and precision <= INT64_DIGITS
        and options.integers is not IntegerRepresentation.DECIMAL
    )
    kind = pa.int64() if small else pa.decimal128(precision, scale)
    blank_is = None if field.blank_when_zero else options.blank
    return NumberForm(
        kind, zeros, page_of_field(field, options).blank, blank_is, options.low_values
    )


@dataclass(frozen=True, slots=True, eq=False)
class DigitBytes:
    """The tables that decode the bytes of a decimal field (see ``kernels.DigitTables``).

    ``digits`` maps each byte to its value in ``base`` (10 for zoned, 100 for packed), and ``signs``
    maps the byte at ``sign_at`` to a sign and its digit.
    """

    digits: Longs
    base: int
    signs: Longs = member(default_factory=lambda: np.full(256, WRONG))
    sign_at: int = NOWHERE
    sign_base: int = 1
    most_first: int = 0xFF
    padding: PaddingPolicy = PaddingPolicy.ERROR
    zone: int = NOWHERE  # the high nibble of digit bytes, such as 0xF0; 0 for packed


def decode_decimal_digits(
    form: NumberForm, digit_bytes: DigitBytes, matrix: Octets, written: Octets | None = None
) -> DecodedColumn:
    """Decode the digits of a zoned, packed or edited field into a column of decimals. Each row of ``matrix`` is one value.

    If the matrix was converted from national characters, ``written`` are the original bytes of the
    field.
    """
    rows = len(matrix)
    numbers, bad = _numbers(form, digit_bytes, matrix)
    if bad is None:
        return DecodedColumn(build_decimal_column(form, numbers, rows))
    padded = _read_padded(form, digit_bytes, matrix, numbers, bad)
    still, nulls, notes = _without_blanks(form, matrix if written is None else written, bad)
    return DecodedColumn(build_decimal_column(form, numbers, rows, nulls), still, (*padded, *notes))


def _numbers(
    form: NumberForm, digit_bytes: DigitBytes, matrix: Octets
) -> tuple[Longs | Words, Mask | None]:
    """Decode a matrix of decimal digits by the kernel.

    Returns the numbers as 64-bit words, and a mask of the bad rows or None.
    """
    rows, size = matrix.shape
    data, step = flat_rows(matrix)
    words = 1 if pa.types.is_int64(form.type) else 2
    numbers = np.empty(rows * words, np.int64 if form.narrow else np.uint64)
    bad = np.empty(rows, bool)
    tables = DigitTables(
        most_first=digit_bytes.most_first,
        digits=digit_bytes.digits,
        base=digit_bytes.base,
        zone=digit_bytes.zone,
        signs=digit_bytes.signs,
        sign_at=digit_bytes.sign_at,
        sign_base=digit_bytes.sign_base,
    )
    decode = decode_narrow_numbers if form.narrow else decode_wide_numbers
    count = decode(DecimalRows(data, step, size), tables, form.zeros, numbers, bad)
    return numbers, bad if count else None


def _read_padded(
    form: NumberForm, digit_bytes: DigitBytes, matrix: Octets, numbers: Longs | Words, bad: Mask
) -> tuple[AppliedPolicy, ...]:
    """Read bad DISPLAY numbers again without their padding.

    Updates ``numbers`` and ``bad`` in place. Returns the rows that became readable, as an applied
    policy.
    """
    if digit_bytes.padding is PaddingPolicy.ERROR:
        return ()
    rows = np.flatnonzero(bad)
    size, (data, step) = matrix.shape[1], flat_rows(matrix)
    padded_rows = gather_matrix(data, rows * step, size)
    pads = np.zeros(256, bool)
    pads[form.blank[0]] = True
    pads[0] = digit_bytes.padding is not PaddingPolicy.LEFT
    every, trim = (
        digit_bytes.padding is PaddingPolicy.ZEROS,
        digit_bytes.padding is PaddingPolicy.TRIM,
    )
    done = np.empty(len(rows), bool)
    # The byte of the digit 0, with which padding is replaced.
    zero = int(np.argmax(digit_bytes.digits == 0))
    sign = digit_bytes.signs, digit_bytes.sign_at, digit_bytes.sign_base == 1
    if not replace_padding(padded_rows.reshape(-1), size, pads, *sign, zero, every, trim, done):
        return ()
    again, wrong = _numbers(form, digit_bytes, padded_rows)
    words = len(numbers) // len(bad)
    numbers.reshape(-1, words)[rows] = again.reshape(-1, words)
    # ``done`` selects the rows whose padding could be replaced; ``wrong`` the rows still
    # unreadable.
    bad[rows] = ~done if wrong is None else wrong
    noted = np.zeros(len(bad), bool)
    noted[rows] = ~bad[rows]
    return (AppliedPolicy(f"padding={digit_bytes.padding.value}", noted),)


def _without_blanks(
    form: NumberForm, matrix: Octets, bad: Mask
) -> tuple[Mask | None, Mask, list[AppliedPolicy]]:
    """Apply the options for decimal fields that consist only of blanks or only of low-values.

    Returns a mask of the rows that stay bad (or None), a mask of the rows that become NULL, and the
    rows to which each option was applied.
    """
    rows = np.flatnonzero(bad)
    bad_bytes = matrix[rows]
    nulls, still_bad, notes = bad.copy(), bad.copy(), []
    for option, fill, choice in (
        ("blank", form.blank, form.blank_is),
        ("lowValues", b"\0", form.low_is),
    ):
        if choice is BlankPolicy.ERROR:
            continue
        # A field of only this fill, for example of blanks in UTF-16 (00 20 00 20 ...).
        pattern = np.resize(np.frombuffer(fill, np.uint8), matrix.shape[1])
        empty = rows[(bad_bytes == pattern).all(axis=1)]
        still_bad[empty] = False
        if choice is not BlankPolicy.NULL:
            nulls[empty] = False
        if choice is not None and len(empty):  # BLANK WHEN ZERO is the picture's, not a choice
            noted = np.zeros(len(bad), bool)
            noted[empty] = True
            notes.append(AppliedPolicy(f"{option}={choice.value}", noted))
    return (still_bad if still_bad.any() else None), nulls, notes


def build_decimal_column(
    form: NumberForm, words: Longs | Words, rows: int, nulls: Mask | None = None
) -> pa.Array:
    """Build the decoded column of a COBOL decimal or binary field from 64-bit words, one (int64) or two (decimal128) per row."""
    bitmap = None
    if nulls is not None and nulls.any():
        # Arrow's validity bitmap has a 1 for each row that is not NULL.
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(form.type, rows, [bitmap, pa.py_buffer(words)])


@dataclass(frozen=True, slots=True)
class DigitRows:
    """Digits 0 to 9, one row per number (all 0 for NULL). ``blank`` rows are written as blanks."""

    digits: Octets
    negative: Mask
    blank: Mask


def digits_of(values: pa.Array, number: NumberFormat, form: NumberForm) -> DigitRows:
    """Convert a column of numbers to the digits that a zoned, packed or edited field is encoded from.

    Raises EncodeError if a number does not fit, and for NULL unless blanks are read as NULL.
    """
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    if form.blank_is is not BlankPolicy.NULL:
        refuse_nulls(values)
    text, scale = _unscale(values)
    negative = pc.starts_with(text, "-").to_numpy(zero_copy_only=False)
    if not number.signed and negative.any():
        raise _misfit(values, negative, "a negative number in an unsigned field")
    digits = _rescale(values, pc.utf8_ltrim(text, "-"), number.scale - scale)
    digits = pc.utf8_ltrim(digits, "0")
    long = pc.greater(pc.utf8_length(digits), number.digits).to_numpy(zero_copy_only=False)
    if long.any():
        raise _misfit(values, long, f"a number of more than {number.digits} digits")
    # All texts now have the same length, so the buffer is a matrix of digit characters.
    _, data = byte_view(pc.utf8_lpad(digits, number.digits, "0"))
    matrix = data[: len(values) * number.digits].reshape(len(values), number.digits)
    # A number of only zeros is written as blanks.
    if form.blank_is is None:  # BLANK WHEN ZERO
        nulls = (matrix == ord("0")).all(axis=1)
    return DigitRows(matrix - np.uint8(ord("0")), negative, nulls)


def _unscale(values: pa.Array) -> tuple[pa.Array, int]:
    """Return numbers without their decimal point as text ("0" for NULL), and their scale."""
    if pa.types.is_integer(values.type):
        return pc.cast(values.fill_null(0), pa.string()), 0
    if not pa.types.is_decimal(values.type):
        raise EncodeError(f"{values.type} values in a field of decimal digits")
    integer_type = pa.decimal128(DECIMAL_DIGITS, 0)
    if values.type.bit_width != integer_type.bit_width:
        values = _as_decimal128(values)
    # The same 16-byte integers read with scale 0: 123.45 becomes 12345.
    units = pa.Array.from_buffers(
        integer_type, len(values), values.buffers(), values.null_count, values.offset
    )
    return pc.cast(units, pa.string()).fill_null("0"), values.type.scale


def _as_decimal128(values: pa.Array) -> pa.Array:
    """Cast decimals of 32, 64 or 256 bits to 128 bits.

    Raises EncodeError for the first number that does not fit.
    """
    kind = pa.decimal128(DECIMAL_DIGITS, values.type.scale)

    def convert(part: pa.Array) -> pa.Array:
        return pc.cast(part, kind)

    try:
        return convert(values)
    except pa.ArrowInvalid:
        row = find_failing_row(convert, values)
    problem = f"a number of more than {DECIMAL_DIGITS} digits"
    raise encode_error(problem, row, values[row].as_py())


def unscale_decimals(values: pa.Array, scale: int) -> pa.Array:
    """Convert decimals to units of 10^-scale, as signed text, to write their digits. Raises EncodeError if digits would be lost."""
    text, own_scale = _unscale(values)
    minus = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = _rescale(values, pc.utf8_ltrim(text, "-"), scale - own_scale)
    # The padding keeps one zero of "000".
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "0"), 1, "0")
    return pc.binary_join_element_wise(minus, digits, "")


def text_of(values: pa.Array, number: NumberFormat) -> pa.Array:
    """Format numbers with all digits of the picture, for example ``-00123.45``."""
    units, scale = _unscale(values)
    minus = pc.if_else(pc.starts_with(units, "-"), "-", "")
    int_digits = max(number.digits - number.scale, 1)
    digits = pc.utf8_lpad(pc.utf8_ltrim(units, "-"), int_digits + scale, "0")
    # Digits without the point, for example 0012345 with scale 2, cut at the last two characters.
    parts = [digits]
    if scale:
        before = pc.utf8_slice_codeunits(digits, 0, -scale)
        parts = [before, ".", pc.utf8_slice_codeunits(digits, -scale)]
    text = pc.binary_join_element_wise(minus, *parts, "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _rescale(values: pa.Array, digits: pa.Array, steps: int) -> pa.Array:
    """Append ``steps`` zeros to digits as text, or remove ``-steps`` zeros if it is negative.

    Raises EncodeError if a removed digit is not zero.
    """
    if steps >= 0:
        return pc.binary_join_element_wise(digits, "0" * steps, "")
    # At least one digit must remain before the cut: "5" with -2 steps is padded to "005".
    padded = pc.utf8_lpad(digits, 1 - steps, "0")
    lost = pc.not_equal(pc.utf8_slice_codeunits(padded, steps), "0" * -steps)
    wrong = lost.to_numpy(zero_copy_only=False)
    if wrong.any():
        raise _misfit(values, wrong, "a number with more decimal places than the field")
    return pc.utf8_slice_codeunits(padded, 0, steps)


def _misfit(values: pa.Array, wrong: Mask, problem: str) -> EncodeError:
    """Build the error for the first number in the mask ``wrong``, which does not fit its field."""
    row = int(np.argmax(wrong))
    return encode_error(problem, row, values[row].as_py())


def decimal_digit_table(characters: bytes) -> Longs:
    """Build a byte table for decimal fields that maps the ten digits of a code page to 0 to 9, and all other bytes to WRONG."""
    table = np.full(256, WRONG)
    table[list(characters)] = np.arange(10)
    return table
