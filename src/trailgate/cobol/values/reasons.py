"""Classify the invalid bytes of COBOL items by reason (``FaultReason``), for complete columns.

An ``explainer`` describes one problem in words. The functions here are only used for counting, so
they must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.codec import Classify, FaultReason, ValueOptions, page_of
from trailgate.cobol.values.decimals import number_of
from trailgate.cobol.values.zoned import could_be_sign, sign_offset, zone_of

_CODES: Final = {why: code for code, why in enumerate(FaultReason)}
# Usages whose bytes can be wrong for one reason only.
_SINGLE: Final[Mapping[Usage, FaultReason]] = MappingProxyType(
    dict.fromkeys((Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS), FaultReason.CHARACTER)
    | dict.fromkeys(
        (Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE),
        FaultReason.RANGE,
    )
)


def classifier(field: CopybookField, options: ValueOptions) -> Classify:
    """Return a function that maps each row of bad bytes to the index of its reason in ``FaultReason``."""
    single = _SINGLE.get(field.usage)
    if single is not None:
        return lambda matrix: np.full(len(matrix), _CODES[single], np.uint8)
    inner = _INNER.get(field.usage, _of_picture)(field, options)
    blank = np.resize(np.frombuffer(page_of(field, options).blank, np.uint8), field.size)

    def classify(matrix: Octets) -> Octets:
        codes = inner(matrix)
        codes[(matrix == blank).all(axis=1)] = _CODES[FaultReason.BLANK]
        codes[(matrix == 0).all(axis=1)] = _CODES[FaultReason.LOW_VALUES]
        return codes

    return classify


def _chosen(rest: FaultReason, *choices: tuple[FaultReason, Mask]) -> Octets:
    """Return for each row the index of the first reason whose mask selects it, or of ``rest``."""
    codes = [np.uint8(_CODES[why]) for why, _ in choices]
    masks = [mask for _, mask in choices]
    return np.select(masks, codes, np.uint8(_CODES[rest])).astype(np.uint8)


def _of_picture(_: CopybookField, __: ValueOptions) -> Classify:
    return lambda matrix: np.full(len(matrix), _CODES[FaultReason.PICTURE], np.uint8)


def _of_zoned(field: CopybookField, options: ValueOptions) -> Classify:
    """Classify bad DISPLAY numbers: a wrong digit, padding beside the digits, or a wrong sign."""
    zone, sign_at, alone = zone_of(field, options), *sign_offset(field)
    signs = could_be_sign(field, options)
    pads = np.zeros(256, bool)
    pads[[0, *page_of(field, options).blank]] = True

    def classify(matrix: Octets) -> Octets:
        # All bytes but the sign's. A zoned digit has the zone in its high nibble and 0 to 9 in the
        # low one.
        body = np.delete(matrix, sign_at, axis=1)
        other = (body & 0xF0 != zone) | (body & 0x0F > 9)
        last = matrix[:, sign_at]
        digit = (last & 0xF0 == zone) & (last & 0x0F <= 9)
        is_pad = pads[last] & ~signs[last]
        # The first reason that applies counts: a wrong digit before padding, and that before a
        # wrong sign.
        return _chosen(
            FaultReason.DIGIT,
            (FaultReason.DIGIT, (other & ~pads[body]).any(axis=1)),
            (FaultReason.PADDING, other.any(axis=1) | is_pad),
            (FaultReason.SIGN, signs[last] | alone | digit),
        )

    return classify


def _of_packed(field: CopybookField, _: ValueOptions) -> Classify:
    """Classify bad COMP-3 and COMP-6 numbers: a bad digit nibble, or a bad sign nibble (COMP-3 only)."""
    signed = field.usage is Usage.PACKED
    good = (0xC, 0xF, *((0xD,) if number_of(field).signed else ()))

    def classify(matrix: Octets) -> Octets:
        low, last = matrix & 0x0F, matrix[:, -1] & 0x0F
        # All digit nibbles, in any order: the low one of the last byte is the sign, if there is
        # one.
        halves = np.concatenate([matrix >> 4, low[:, : -1 if signed else None]], axis=1)
        digits: Mask = np.greater(halves, 9).any(axis=1)
        wrong_sign: Mask = ~np.isin(last, good) & signed
        return _chosen(
            FaultReason.RANGE, (FaultReason.DIGIT, digits), (FaultReason.SIGN, wrong_sign)
        )

    return classify


_INNER: Final[Mapping[Usage, Callable[[CopybookField, ValueOptions], Classify]]] = MappingProxyType(
    {
        Usage.ZONED: _of_zoned,
        Usage.PACKED: _of_packed,
        Usage.UNSIGNED_PACKED: _of_packed,
    }
)
