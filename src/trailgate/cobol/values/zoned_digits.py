"""Columns of digits, a byte each, to words: what zoned and edited numbers share."""

from __future__ import annotations

from trailgate.arrays import Mask, Octets
from trailgate.cobol.values.digit_words import ZONED_DIGITS, right_aligned, zoned_word
from trailgate.cobol.values.number_form import Digits, merged


def to_words(places: Octets, zone: int) -> Octets:
    """Return a copy with digits 0 in front, so that each row is a whole number of words."""
    width = -(-places.shape[1] // ZONED_DIGITS) * ZONED_DIGITS
    padded = right_aligned(places, width, zone)
    return padded.copy() if padded is places or padded.base is not None else padded


def zoned_digits(padded: Octets, zone: int, negative: Mask | None, wrong: Mask | None) -> Digits:
    """Return the digits of rows of whole words; rows of ``wrong`` are bad for another reason."""
    words = padded.view("<u8")
    found = [zoned_word(words[:, column], zone) for column in range(words.shape[1])]
    bad = merged([mask for _, mask in found])
    if wrong is not None:
        bad |= wrong
    widths = (ZONED_DIGITS,) * (len(found) - 1)
    return Digits(tuple(word for word, _ in found), widths, negative, bad)
