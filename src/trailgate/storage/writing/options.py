"""How the files of a trail are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import OptionError
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat

MAX_BYTES: Final = 500 * 1000 * 1000  # GoldenGate's default size of a trail file


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The size of trail files, the digits of their numbers (9 or 6), and their format."""

    max_bytes: int = MAX_BYTES
    seq_digits: int = 9
    trail_format: TrailFormat = LEVEL_3

    def __post_init__(self) -> None:
        if self.seq_digits not in (6, 9):
            raise OptionError(f"{self.seq_digits} digits: a trail file's name ends in 9 or 6")
