"""Names of trail files: a prefix such as ``dirdat/ot``, and a number of nine or six digits.

``dirdat/ot000000003`` is the fourth file of the trail ``dirdat/ot``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError
from trailgate.storage.files.addresses import name_of

# Only 6 and 9 digits are legal (trail format §1). Nine are tried first, so t1000000000 is the prefix
# t1 and the number 000000000.
NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<number>\d{9}|\d{6})")


def number_digits(path: str) -> int:
    """Return how many digits at the end of a trail file's name are its number: 9, 6, or 0 for other names."""
    return split_trail_name(name_of(path))[0]


def split_trail_name(name: str) -> tuple[int, int]:
    """Return the number of digits of the number in a trail file's name, and the number; (0, 0) for other names."""
    matched = NUMBERED.fullmatch(name)
    return (len(matched["number"]), int(matched["number"])) if matched else (0, 0)


def format_file_number(number: int, digits: int) -> str:
    """Format a trail file's number as in its name: 3 with 9 digits is ``000000003``.

    Raises StorageError if it has more digits.
    """
    if number >= 10**digits:
        raise StorageError(f"file number {number} has more than {digits} digits")
    return f"{number:0{digits}}"


def trail_file_path(prefix: str, number: int, digits: int) -> Path:
    """Return the path of a file of a local trail by the file's number."""
    return Path(f"{prefix}{number:0{digits}}")
