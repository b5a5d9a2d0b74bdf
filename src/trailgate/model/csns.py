"""Compare commit sequence numbers (CSNs) with a limit, such as that of the option ``from_csn``.

A CSN is the text in which the source database numbers its transactions: mostly a decimal number
such as ``8732134``, of any length, but for some databases other text such as an LSN. Texts that
consist of digits compare as numbers, all others as text.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.errors import OptionError

DIGITS: Final = r"^[0-9]+$"


def check_csn(name: str, limit: str, csn: str) -> None:
    """Raise OptionError if a CSN limit is not a number, although ``csn``, from the trail, is one.

    ``name`` is the name of the option that states the limit.
    """
    if not is_number(limit) and is_number(csn):
        raise OptionError(
            f"{name} is {limit!r}, but the CSNs of the trail are numbers such as {csn}"
        )


def is_number(text: str) -> bool:
    """Return True if a CSN or another text consists of ASCII digits, so that it compares as a number."""
    return text.isascii() and text.isdigit()


def below_csn(csn: pa.Array, bound: str) -> pa.Array:
    """Return for each row whether its CSN is below a limit, or NULL if the row has no CSN."""
    return _compare_csns(csn, bound, pc.less)


def above_csn(csn: pa.Array, bound: str) -> pa.Array:
    """Return for each row whether its CSN is above a limit, or NULL if the row has no CSN."""
    return _compare_csns(csn, bound, pc.greater)


def _compare_csns(csn: pa.Array, bound: str, holds: Any) -> pa.Array:
    """Compare each CSN with ``bound``, as numbers if both consist of digits, else as text.

    ``holds`` is the comparison, such as ``pc.less``. Numbers may have any length: without leading
    zeros, the longer one is greater.
    """
    as_text = holds(csn, bound)
    if not is_number(bound):
        return as_text
    digits = pc.utf8_ltrim(csn, "0")
    number = bound.lstrip("0")
    length = pc.utf8_length(digits)
    # "00123" > "99": without zeros 3 digits are more than 2. With equally many digits, the order of
    # the texts is that of the numbers.
    same = pc.equal(length, len(number))
    as_number = pc.if_else(same, holds(digits, number), holds(length, len(number)))
    return pc.if_else(pc.match_substring_regex(csn, DIGITS), as_number, as_text)
